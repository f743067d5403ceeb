"""JSON as the interface takes it (RFC 8259): no NaN, no duplicate names, no bottomless nesting."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from payrec.constants import JSON_DEPTH_MAX
from payrec.errors import BadRequestError

_OPENERS: Final = b"[{"


def parse_json(body: bytes) -> Any:
    """Parse a request body.

    Raises
    ------
    BadRequestError
        ``malformed_body``; never with a piece of the body in its text.
    """
    if (body.count(b"[") + body.count(b"{")) > JSON_DEPTH_MAX:
        _check_depth(body)
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique,
            parse_int=_bounded_int,
            parse_float=_finite_float,
        )
    except UnicodeDecodeError:
        raise BadRequestError("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadRequestError(f"the body is not JSON: line {error.lineno}, column {error.colno}") from None


def _refuse_constant(_name: str) -> Any:
    raise BadRequestError("NaN and Infinity are not JSON")


def _bounded_int(text: str) -> int:
    if len(text) > 40:
        raise BadRequestError("a number has too many digits")
    return int(text)


def _finite_float(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise BadRequestError("a number is too large")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadRequestError("an object names a member twice")
    return found


def _check_depth(body: bytes) -> None:
    """Refuse nesting before the parser recurses into it; strings are skipped."""
    depth = 0
    in_string = escaped = False
    for byte in body:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in _OPENERS:
            depth += 1
            if depth > JSON_DEPTH_MAX:
                raise BadRequestError(f"the body is nested more than {JSON_DEPTH_MAX} deep")
        elif byte in b"]}":
            depth -= 1
