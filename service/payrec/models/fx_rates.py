"""Exchange rates on the wire."""

from __future__ import annotations

# The field of the interface is called as its type is.
import datetime as dt
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from payrec.constants import BULK_ITEMS_MAX, FX_RATE_DIGITS_MAX, FX_RATE_PLACES_MAX
from payrec.domain.fx_rates import FxRateError, parse_rate
from payrec.models.common import Currency, Date, ListQuery, Public, Request


def _readable(value: str) -> str:
    try:
        parse_rate(value)
    except FxRateError as error:
        raise PydanticCustomError(error.code, "{detail}", {"detail": error.detail}) from None
    return value


RateText = Annotated[
    str,
    StringConstraints(max_length=FX_RATE_DIGITS_MAX + FX_RATE_PLACES_MAX),
    AfterValidator(_readable),
    Field(description='Decimal string such as "1.0856": units of quote for one of base.'),
]


class FxRateGiven(Request):
    """What one unit of ``base`` was worth on a day, in units of ``quote``."""

    date: Date
    base: Currency
    quote: Currency
    rate: RateText

    @model_validator(mode="after")
    def _of_two(self) -> FxRateGiven:
        if self.base == self.quote:
            raise PydanticCustomError("currencies_equal", "base and quote must be two currencies")
        return self

    @property
    def key(self) -> tuple[dt.date, str, str]:
        """What there is one rate of."""
        return (self.date, self.base, self.quote)


class FxRatesPut(Request):
    """Rates to store; each one that is right is stored, whatever is wrong with others."""

    items: Annotated[
        list[dict[str, Any]],
        Field(
            min_length=1,
            max_length=BULK_ITEMS_MAX,
            json_schema_extra={"items": FxRateGiven.model_json_schema(by_alias=True)},
        ),
    ]


class FxRatePublic(Public):
    """A stored rate."""

    id: UUID
    created_at: dt.datetime
    updated_at: dt.datetime
    version: int
    date: dt.date
    base: str
    quote: str
    rate: str


class FxRateQuery(ListQuery):
    """Filters of the rates."""

    sort: Literal["createdAt", "-createdAt", "date", "-date"] = "-createdAt"
    base: Currency | None = None
    quote: Currency | None = None
    date_from: Date | None = None
    date_to: Date | None = None


class FxRateFileOptions(BaseModel):
    """What of a file is stored: query parameters of a raw body, fields of a form."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    date_from: Date | None = None
    """Rates of earlier days are left out."""
    date_to: Date | None = None


class FxRatesUploaded(Public):
    """What became of a file of the European Central Bank. What it says of a day and currency counts from now on."""

    format: Literal["ecb_csv", "ecb_xml"]
    sha256: str
    first_date: dt.date
    last_date: dt.date
    rates: int
    """In the file, of the days that were asked for."""
    created: int
    updated: int
    """There was another rate of the day, which this one has replaced."""
    unchanged: int
    currencies_left_out: list[str]
    """Codes in which nothing can be stored."""
