"""Tables written in a test, read through the registry."""

from __future__ import annotations

import io
from typing import Any

import pytest

from payrec.domain.statements import Entry, Parsed, Problem, Skipped
from payrec.errors import UnreadableFileError
from payrec.formats.base import ReadOptions
from payrec.formats.registry import FileParse, parse
from support.samples import truth

HEADER = "Date;Description;Amount;Currency\n"

KNOWN_TABLES = [k for k in truth() if k["file"].endswith((".csv", ".xlsx")) and k.get("reason") != "empty_file"]
"""What is known of the tables among the sample files: of banks and of payment service providers, and in workbooks."""


def read(text: str | bytes, *, profile: dict[str, Any] | None = None, **options: Any) -> tuple[list[Parsed], FileParse]:
    data = text.encode() if isinstance(text, str) else text
    result = parse(
        io.BytesIO(data), name="x", options=ReadOptions(profile=profile or {}, **options), monotonic=lambda: 0.0
    )
    items = list(result)
    counts = result.file.counts
    assert counts.records == counts.accepted + counts.skipped + counts.rejected
    return items, result


def entries(text: str | bytes, **options: Any) -> list[Entry]:
    return [item for item in read(text, **options)[0] if isinstance(item, Entry)]


def signed(found: list[Entry]) -> list[int]:
    return [e.amount_minor if e.direction == "credit" else -e.amount_minor for e in found]


def reason(text: str | bytes, **options: Any) -> str:
    with pytest.raises(UnreadableFileError) as refused:
        read(text, **options)
    return refused.value.reason


def rejected(text: str | bytes, **options: Any) -> list[tuple[str, int | None]]:
    return [(i.code, i.line) for i in read(text, **options)[0] if isinstance(i, Problem) and i.rejects]


def skipped(text: str | bytes, **options: Any) -> list[tuple[str, int | None]]:
    return [(i.rule, i.line) for i in read(text, **options)[0] if isinstance(i, Skipped)]
