"""Validation that needs more than a model's own fields, with the same typed errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError

from payrec.domain.identifiers import parse_uuid
from payrec.domain.money import MoneyError, parse_decimal
from payrec.errors import AmountOutOfRangeError, FieldError, NotFoundError, ValidationFailedError, VersionMismatchError
from payrec.models.common import MoneyGiven

M = TypeVar("M", bound=BaseModel)

_DETAILS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "extra_forbidden": "is not known here",
    "float_type": "must be a number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "missing": "is required",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode",
    "uuid_parsing": "must be a UUID",
}
"""Texts for those of pydantic's errors whose own text quotes the input, or tells of Python."""

_SHOULD = re.compile(r"^\w+ should |( after validation).*")
"""What the others begin with, and what they end with."""

_ETAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
"""An entity tag (RFC 9110, section 8.8.3)."""


def identifier(text: str) -> UUID:
    """Return the id of a path; one that cannot be an id is an unknown one.

    Raises
    ------
    NotFoundError
    """
    found = parse_uuid(text)
    if found is None:
        raise NotFoundError
    return found


def amount_of(given: MoneyGiven, *, least: int) -> int:
    """Return the minor units of a request's money.

    Raises
    ------
    AmountOutOfRangeError, ValidationFailedError
    """
    try:
        return given.minor(least=least)
    except MoneyError as error:
        pointer = "/amount" if given.amount is not None else "/amountMinor"
        field = FieldError(pointer=pointer, code=error.code, detail=error.detail)
        if error.code == "amount_out_of_range":
            raise AmountOutOfRangeError(error.detail, errors=[field]) from None
        raise ValidationFailedError.of(field) from None


def check_version(if_match: str | None, version: int) -> None:
    """Compare If-Match with the stored version, strongly: a weak tag never matches (RFC 9110, 8.8.3.2 and 13.1.1).

    Raises
    ------
    VersionMismatchError
    """
    if if_match is None or if_match.strip() == "*":
        return
    is_list = not _ETAG.sub("", if_match).strip(" \t,")
    if not is_list or ("", str(version)) not in _ETAG.findall(if_match):
        raise VersionMismatchError(f"the stored version is {version}")


def validated(model: type[M], value: Any, *, pointer: str = "") -> M:
    """Validate a value that was merged from several.

    Raises
    ------
    ValidationFailedError
        With pointers below ``pointer``.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        wrong = ValidationFailedError.of(*field_errors(error.errors(include_input=False), pointer=pointer))
    # Raised out here, it does not keep pydantic's error, and with it all that was wrong: of a bulk request, thousands.
    raise wrong


def check_members(model: type[BaseModel], patch: Any, *, pointer: str = "") -> None:
    """Refuse members of a merge patch that a model does not have, null ones too: merging drops those, typos and all.

    Raises
    ------
    ValidationFailedError
        With pointers below ``pointer``.
    """
    try:
        model.model_validate(patch)
    except ValidationError as error:
        unknown = [found for found in error.errors(include_input=False) if found["type"] == "extra_forbidden"]
        if unknown:
            raise ValidationFailedError.of(*field_errors(unknown, pointer=pointer)) from None


def field_errors(errors: Sequence[Any], *, pointer: str = "", skip: int = 0) -> list[FieldError]:
    """Return pydantic's errors as the interface's: a JSON pointer, a code, a text that echoes nothing."""
    return [
        FieldError(
            pointer=pointer + "".join(f"/{_escape(part)}" for part in error["loc"][skip:]),
            code=str(error["type"]),
            detail=_DETAILS.get(error["type"]) or _SHOULD.sub(lambda m: "" if m[1] else "must ", error["msg"]),
        )
        for error in errors
    ]


def _escape(part: Any) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")[:100]


def refuse_members(given: Mapping[str, Any], names: Sequence[str], detail: str, *, pointer: str = "") -> None:
    """Refuse members of a list's query that say nothing where it is taken for a filter.

    Raises
    ------
    ValidationFailedError
    """
    there = [name for name in names if name in given]
    if there:
        fields = [FieldError(pointer=f"{pointer}/{name}", code="extra_forbidden", detail=detail) for name in there]
        raise ValidationFailedError.of(*fields)


def check_amount_filters(query: Any, *, pointer: str = "") -> None:
    """Refuse ``amountMin`` and ``amountMax`` without a currency, or that are no amounts of it.

    ``pointer`` is where the filters stand in a body, and ends with a slash; parameters of an address have none.

    Raises
    ------
    ValidationFailedError
    """
    errors = []
    for name, parameter in (("amount_min", "amountMin"), ("amount_max", "amountMax")):
        bound = getattr(query, name)
        if bound is None:
            continue
        if query.currency is None:
            detail = "needs the parameter currency"
            errors.append(FieldError(pointer=pointer + parameter, code="currency_required", detail=detail))
            continue
        try:
            parse_decimal(bound, query.currency)
        except MoneyError as error:
            errors.append(FieldError(pointer=pointer + parameter, code=error.code, detail=error.detail))
    if errors:
        raise ValidationFailedError.of(*errors)
