"""JSON as the interface takes it (RFC 8259): no NaN, no duplicate names, no bottomless nesting."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from payrec.constants import JSON_DEPTH_MAX
from payrec.errors import BadRequestError

CONTAINER_BYTES: Final = 200
"""Memory of an array or an object with a member or none, of which a body can say one in two to eight bytes."""

VALUE_BYTES: Final = 84
"""Memory of a short text, or of a number, beside its characters."""

_OPENERS: Final = b"[{"
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STRING: Final = re.compile(rb'"[^"]*"?')
"""A string without escaped quotes, or the rest of a body that ends within one."""
_OF_TWO_BYTES: Final = re.compile(rb"[\xc4-\xef]|\\u(?!00)")
_OF_FOUR_BYTES: Final = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
"""What makes each character of its text take so many (PEP 393)."""


def parsed_bytes(body: bytes) -> int:
    """Return how much memory what is in a body may take beside its bytes: up to forty times as much.

    What looks like punctuation within a text is counted as well.
    """
    wider = 3 if _OF_FOUR_BYTES.search(body) else 1 if _OF_TWO_BYTES.search(body) else 0
    containers = body.count(b"{") + body.count(b"[")
    return containers * CONTAINER_BYTES + body.count(b",") * VALUE_BYTES + wider * len(body)


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
    """Refuse nesting before the parser recurses into it; strings are skipped.

    The event loop waits for this, so only the brackets are looked at one by one: a bulk request is text for the most
    part.
    """
    depth = 0
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    for byte in _STRING.sub(b"", unescaped).translate(None, delete=_NO_BRACKETS):
        if byte in _OPENERS:
            depth += 1
            if depth > JSON_DEPTH_MAX:
                raise BadRequestError(f"the body is nested more than {JSON_DEPTH_MAX} deep")
        else:
            depth -= 1
