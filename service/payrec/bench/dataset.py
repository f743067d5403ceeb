"""A data set of matching as files: two tables of transactions, the exchange rates and, where it is known, the truth.

``expected.parquet`` and ``incoming.parquet`` are rows of somebody's, with ids of somebody's; a negative amount is a
debit of its absolute value, an empty text is no value, a date is a date or its ISO 8601 text. ``truth.parquet`` says
which lines pay which items, one row a pair, optionally with the ``class`` of the case and the number of the ``payer``;
a row with one id alone says that nothing belongs to it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import polars as pl
from polars.exceptions import PolarsError

from payrec.errors import ConfigurationError

EXPECTED_FILE: Final = "expected.parquet"
INCOMING_FILE: Final = "incoming.parquet"
TRUTH_FILE: Final = "truth.parquet"
FX_FILE: Final = "fx.json"

EXPECTED_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    {
        "id": pl.Int64(),
        "amount_minor": pl.Int64(),
        "currency": pl.String(),
        "due_date": pl.Date(),
        "window_from": pl.Date(),
        "window_to": pl.Date(),
        "reference": pl.String(),
        "counterparty_name": pl.String(),
        "counterparty_iban": pl.String(),
        "end_to_end_id": pl.String(),
        "batch_id": pl.String(),
        "metadata": pl.String(),
    }
)
"""Columns of the expected transactions."""

INCOMING_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    {
        "id": pl.Int64(),
        "amount_minor": pl.Int64(),
        "currency": pl.String(),
        "booking_date": pl.Date(),
        "value_date": pl.Date(),
        "remittance": pl.String(),
        "counterparty_name": pl.String(),
        "counterparty_iban": pl.String(),
        "end_to_end_id": pl.String(),
        "tx_code": pl.String(),
    }
)
"""Columns of the incoming transactions, called lines."""

TRUTH_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    {"expected_id": pl.Int64(), "incoming_id": pl.Int64(), "class": pl.String(), "payer": pl.Int64()}
)
"""Columns of the truth; the last two may be missing in a file."""

UNKNOWN_CLASS: Final = "unknown"
"""Class of what the truth does not name."""

_OPTIONAL: Final = frozenset({"class", "payer"})
_FIRST_DAY: Final = date.min
_LAST_DAY: Final = date.max


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What the currencies of a data set are worth."""

    per_eur: Mapping[str, float]
    """Units of the currency for one euro."""
    exponent: Mapping[str, int]
    """Decimal digits of the currency's minor unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Both sides, with the columns of EXPECTED_SCHEMA and INCOMING_SCHEMA, and the truth about them."""

    expected: pl.DataFrame
    incoming: pl.DataFrame
    rates: Rates
    truth: pl.DataFrame | None = None
    """Columns of TRUTH_SCHEMA."""

    def split(self, new_lines: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return all but the last ``new_lines`` lines, and those."""
        first = max(self.incoming.height - new_lines, 0)
        return self.incoming.head(first), self.incoming.slice(first)


def permuted(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Return the rows in an order that the seed decides."""
    return frame.sample(fraction=1.0, shuffle=True, seed=seed)


def read(directory: Path, *, truth_required: bool = False) -> DataSet:
    """Read a data set.

    Raises
    ------
    ConfigurationError
        In one line, with the file and the column at fault.
    """
    expected = _read_side(directory / EXPECTED_FILE, EXPECTED_SCHEMA)
    incoming = _read_side(directory / INCOMING_FILE, INCOMING_SCHEMA)
    path = directory / TRUTH_FILE
    truth = _read_frame(path, TRUTH_SCHEMA) if truth_required or path.exists() else None
    if truth is not None:
        truth = truth.with_columns(pl.col("class").fill_null(UNKNOWN_CLASS))
    return DataSet(expected=expected, incoming=incoming, rates=_read_rates(directory / FX_FILE), truth=truth)


def write(data: DataSet, directory: Path) -> None:
    """Write a data set as ``read`` reads it.

    Raises
    ------
    ConfigurationError
        The directory cannot be written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        data.expected.write_parquet(directory / EXPECTED_FILE)
        data.incoming.write_parquet(directory / INCOMING_FILE)
        if data.truth is not None:
            data.truth.write_parquet(directory / TRUTH_FILE)
        rates = {"per_eur": dict(data.rates.per_eur), "exponent": dict(data.rates.exponent)}
        (directory / FX_FILE).write_text(json.dumps(rates, indent=2) + "\n")
    except OSError as error:
        raise ConfigurationError(f"{directory} cannot be written to: {error.strerror}") from None


def _read_side(path: Path, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    frame = _read_frame(path, schema)
    if frame["id"].null_count():
        raise ConfigurationError(f"{path}: column id: cannot be null")
    if frame["id"].n_unique() != frame.height:
        raise ConfigurationError(f"{path}: column id: must be unique")
    return frame


def _read_frame(path: Path, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    if not path.is_file():
        raise ConfigurationError(f"{path} is missing")
    try:
        frame = pl.read_parquet(path)
    except (PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigurationError(f"{path} is no parquet file: {reason}") from None
    columns = []
    for name, wanted in schema.items():
        if name in frame.columns:
            columns.append(_column(path, frame[name], wanted))
        elif name in _OPTIONAL:
            columns.append(pl.Series(name, [None] * frame.height, dtype=wanted))
        else:
            raise ConfigurationError(f"{path}: column {name} is missing")
    return pl.DataFrame(columns)


def _column(path: Path, found: pl.Series, wanted: pl.DataType) -> pl.Series:
    """Return the column in the type that is wanted, where that is only another way to write it."""
    dtype = found.dtype
    if dtype == wanted:
        result = found
    elif dtype == pl.Null():
        result = found.cast(wanted)
    elif wanted == pl.Int64() and dtype.is_integer():
        result = found.cast(wanted, strict=False)
        if result.null_count() != found.null_count():
            raise ConfigurationError(f"{path}: column {found.name}: must fit 64 bits")
    elif wanted == pl.String() and dtype in (pl.Categorical, pl.Enum):
        result = found.cast(wanted)
    elif wanted == pl.Date() and dtype == pl.Datetime:
        result = found.dt.date()
    elif wanted == pl.Date() and dtype == pl.String():
        result = found.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    else:
        raise ConfigurationError(f"{path}: column {found.name}: must be {_type_name(wanted)}, not {dtype}")
    if wanted == pl.Date():
        # Days that no calendar of the service has, such as those before the year 1, are no value.
        frame = pl.DataFrame({found.name: result})
        kept = pl.col(found.name).is_between(_FIRST_DAY, _LAST_DAY)
        result = frame.select(pl.when(kept).then(pl.col(found.name)).alias(found.name)).to_series()
    return result


def _type_name(dtype: pl.DataType) -> str:
    names = {pl.Int64(): "int64", pl.String(): "text", pl.Date(): "a date or its text"}
    return names[dtype]


def _read_rates(path: Path) -> Rates:
    try:
        stored: Any = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigurationError(f"{path} is missing") from None
    except (OSError, ValueError):
        raise ConfigurationError(f"{path} is no JSON file") from None
    found: dict[str, dict[str, Any]] = {}
    for name in ("per_eur", "exponent"):
        values = stored.get(name) if isinstance(stored, dict) else None
        if not isinstance(values, dict):
            raise ConfigurationError(f"{path}: {name} is missing")
        for currency, value in values.items():
            if not _is_rate(value) if name == "per_eur" else not _is_exponent(value):
                raise ConfigurationError(f"{path}: {name}: {currency} has no usable number")
        found[name] = values
    return Rates(per_eur=found["per_eur"], exponent=found["exponent"])


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _is_exponent(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 8
