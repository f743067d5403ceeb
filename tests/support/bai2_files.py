"""BAI2 files for tests: an account from its records, and the reader over them."""

from __future__ import annotations

import io
from typing import Any

from payrec.domain.statements import Entry
from payrec.formats.base import Detected, Head, ReadOptions
from payrec.formats.registry import parse
from support.samples import Collected, collect

DETECTED = Detected("bai2", "2")


def head_of(data: bytes) -> Head:
    return Head(data=data, encoding="utf-8", encoding_guessed=False, text=data.decode(errors="replace"), complete=True)


def file_of(
    *records: str,
    account: str = "03,123,USD,,,,/",
    group: str = "02,A,B,1,260102,2400,,2/",
    trailers: tuple[str, ...] = ("49,,/", "98,,,/", "99,,,/"),
    newline: str = "\n",
) -> str:
    return newline.join(("01,B,A,260103,0754,1,,,2/", group, account, *records, *trailers, ""))


def read(text: str, *, profile: dict[str, Any] | None = None, **options: Any) -> Collected:
    """Read the file as every caller does; the balances and counts are checked as well."""
    result = parse(
        io.BytesIO(text.encode()),
        name="x",
        options=ReadOptions(profile=profile or {}, **options),
        monotonic=lambda: 0.0,
    )
    collected = collect(result, format="bai2")
    assert result.file.format == "bai2"
    collected.version = result.file.version
    return collected


def codes(found: Collected) -> list[str]:
    return [problem.code for problem in found.problems]


def entry_of(*records: str, **options: Any) -> Entry:
    found = read(file_of(*records), **options)
    assert codes(found) == []
    (entry,) = found.entries[0]
    return entry


def rejection_of(*records: str, **options: Any) -> str:
    """Return why the record is rejected; its neighbours must survive."""
    found = read(file_of("16,142,100,,,,A/", *records, "16,475,200,,,,B/"), **options)
    assert [(e.amount_minor, e.remittance) for e in found.entries[0]] == [(100, "A"), (200, "B")]
    (problem,) = (p for p in found.problems if p.rejects)
    assert (problem.line, problem.statement) == (5, 0)
    return problem.code
