"""JSON objects of other services: what could be read in two ways is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any


def strict_json(text: bytes) -> dict[str, Any]:
    """Read a JSON object in which no name comes twice and every number is finite.

    :raises ValueError: when it is anything else
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - bad input is a ValueError, whatever its type
    return document


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in pairs:
        if name in document:
            raise ValueError("a name comes twice")
        document[name] = value
    return document


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError("a number beyond the largest")
    return found


def _refuse_constant(_: str) -> None:
    raise ValueError("not a JSON number")
