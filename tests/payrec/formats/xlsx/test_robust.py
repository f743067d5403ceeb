"""Workbooks that are torn, hostile or large: refused with a reason, within bounds, or read row by row."""

from __future__ import annotations

import io
import time
import zipfile
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import FIELD_BYTES_MAX
from payrec.domain.statements import Entry
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats import containers
from payrec.formats.base import ReadOptions
from payrec.formats.registry import parse
from payrec.formats.xlsx import workbook as workbook_module
from payrec.formats.xlsx.parts import Package, Part
from payrec.formats.xlsx.sheet import column_of
from support.csv_files import KNOWN_TABLES, entries, read, reason, rejected, signed
from support.fuzzing import attempt, mutations
from support.memory import peak_bytes
from support.samples import requires_samples, sample
from support.xlsx_files import DATE, HEADINGS, letters, part_of, row, table, with_part, workbook

JAN_2 = (46024, DATE)
GOOD = workbook(table((JAN_2, "a", 1.5, "EUR"), (JAN_2, "b", -2.5, "EUR")), shared=["<t>x</t>"])
SHEET = "xl/worksheets/sheet1.xml"
BOOKS = [k["file"] for k in KNOWN_TABLES if k["file"].endswith(".xlsx")]


def sheet_of(inner: str, before: str = "") -> bytes:
    return with_part(GOOD, SHEET, f"{before}<worksheet><sheetData>{inner}</sheetData></worksheet>".encode())


# Width, length, size ------------------------------------------------------------------------------------------------


def test_columns_have_names() -> None:
    assert [column_of(letters(n)) for n in range(20_000) if n < 18_278] == list(range(18_278))
    assert column_of("xfd") == 16_383
    for wrong in ("", "A1", "ABCD", "É", "-"):
        with pytest.raises(KeyError):
            column_of(wrong)


@requires_samples
@pytest.mark.parametrize("name", [name for name in BOOKS if "hostile" in name])
def test_cells_far_apart_take_neither_time_nor_memory(name: str) -> None:
    data = sample(name)
    began = time.process_time()
    assert peak_bytes(lambda: reason(data)) < 8 * 1024 * 1024
    assert time.process_time() - began < 1


def test_the_last_column_that_is_read_and_the_first_that_is_not() -> None:
    rows = table((JAN_2, "a", 1.5, "EUR"))
    assert signed(entries(sheet_of(rows.replace("</row>", "<c r='SR1'><v>1</v></c></row>", 1)))) == [150]
    assert reason(sheet_of(rows.replace("</row>", "<c r='SS1'><v>1</v></c></row>", 1))) == "xlsx_too_wide"
    # Formatted to the edge of the sheet, with nothing in it.
    assert signed(entries(sheet_of(rows.replace("</row>", "<c r='XFD1' s='1'/></row>", 1)))) == [150]


def test_the_last_row_of_a_sheet_costs_no_more_than_the_first() -> None:
    data = sheet_of(row(1, *HEADINGS) + row(1_048_576, JAN_2, "a", 1.5, "EUR"))
    assert [e.line for e in entries(data)] == [1_048_576]


@pytest.mark.parametrize("number", ["0", "-5", "x", "9" * 30, ""])
def test_a_row_without_a_good_number_follows_the_row_above(number: str) -> None:
    last = row(2, JAN_2, "a", 1.5, "EUR").replace('<row r="2">', f'<row r="{number}">')
    assert [e.line for e in entries(sheet_of(row(7, *HEADINGS) + last))] == [8]


def test_a_wrong_reference_or_a_text_that_is_too_long_rejects_its_row_alone() -> None:
    data = sheet_of(
        table(
            (JAN_2, "<c r='1'><v>5</v></c>", 1.5, "EUR"),
            (JAN_2, "x" * (FIELD_BYTES_MAX + 1), 1.5, "EUR"),
            (JAN_2, "x" * (3 * FIELD_BYTES_MAX), 1.5, "EUR"),
            (JAN_2, "x" * FIELD_BYTES_MAX, 1.5, "EUR"),
        )
    )
    assert rejected(data) == [("invalid_entry", 2), ("field_too_long", 3), ("field_too_long", 4)]
    assert [len(e.remittance or "") for e in entries(data)] == [FIELD_BYTES_MAX]


def test_a_text_that_is_too_long_rejects_its_row_also_where_no_column_is_known() -> None:
    data = sheet_of(table((JAN_2, "a", 1.5, "EUR", "x" * (FIELD_BYTES_MAX + 1)), (JAN_2, "b", 2.5, "EUR", "y")))
    assert rejected(data) == [("field_too_long", 2)]
    assert signed(entries(data)) == [250]


def test_a_row_that_is_too_long_is_refused() -> None:
    data = workbook(table() + row(2, JAN_2, *(["x" * 60_000] * 20)), compression=zipfile.ZIP_STORED)
    assert reason(data) == "line_too_long"


def test_a_few_bytes_cannot_name_a_long_text_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "FILE_BYTES_EXPANDED_MAX", 4 * 1024 * 1024)
    cell = "<c r='HERE' t='s'><v>0</v></c>"
    data = workbook(
        table(*[(JAN_2, cell, 1.5, "EUR") for _ in range(2_000)]), shared=[f"<t>{'x' * FIELD_BYTES_MAX}</t>"]
    )
    assert len(data) < 100_000
    with pytest.raises(PayloadTooLargeError):
        read(data)


def test_what_comes_out_is_counted_once_though_it_is_read_twice() -> None:
    # Text dates that only the last row proves: the sheet is read as a whole before.
    data = workbook(table(*[("01/02/2026", "a", 1.5, "EUR")] * 500, ("31/01/2026", "b", 1.5, "EUR")))
    result = parse(io.BytesIO(data), name="x", options=ReadOptions(), monotonic=lambda: 0.0)
    assert sum(isinstance(item, Entry) for item in result) == 501
    size = sum(len(part_of(data, name)) for name in zipfile.ZipFile(io.BytesIO(data)).namelist() if "Types" not in name)
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as patched:
        patched.setattr(containers, "FILE_BYTES_EXPANDED_MAX", len(data) + size)
        assert len(entries(data)) == 501
        patched.setattr(containers, "FILE_BYTES_EXPANDED_MAX", len(data) + size - 1)
        with pytest.raises(PayloadTooLargeError):
            read(data)


def test_shared_texts_and_lists_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = workbook(table((JAN_2, "a", 1.5, "EUR")), shared=[f"<t>{n:050}</t>" for n in range(5_000)])
    assert signed(entries(data)) == [150]
    with monkeypatch.context() as patched:
        patched.setattr(workbook_module, "XLSX_PART_BYTES_MAX", 200_000)
        assert reason(data) == "xlsx_too_large"
    for limit, book in (
        ("XLSX_SHEETS_MAX", workbook(*[table((JAN_2, "a", 1.5, "EUR"))] * 3)),
        ("XLSX_STYLES_MAX", workbook(table((JAN_2, "a", 1.5, "EUR")), styles=(0, 14, 0))),
    ):
        assert signed(entries(book)) == [150]
        with monkeypatch.context() as patched:
            patched.setattr(workbook_module, limit, 2)
            assert reason(book) == "xlsx_too_large"


def test_a_bomb_is_refused_by_its_ratio_in_whatever_part() -> None:
    bomb = b"<worksheet>" + b" " * 30_000_000 + b"</worksheet>"
    for name in (SHEET, "xl/styles.xml", "xl/sharedStrings.xml", "xl/workbook.xml"):
        data = with_part(GOOD, name, bomb)
        began = time.process_time()
        assert reason(data) == "container_ratio"
        assert time.process_time() - began < 1


def test_the_ratio_is_counted_from_what_comes_out() -> None:
    package = Package(io.BytesIO())
    package._spool.close()
    part = Part(package, "x", io.BytesIO(bytes(2_000_000)), 1_000)
    assert len(part.read(1_000_000)) == 1_000_000
    with pytest.raises(UnreadableFileError) as refused:
        part.read(100_000)
    assert refused.value.reason == "container_ratio"


def test_time_is_looked_at_also_where_nothing_is_yielded() -> None:
    data = sheet_of(table((JAN_2, "a", 1.5, "EUR")) + "".join(f"<row r='{n}'/>" for n in range(3, 100_000)))
    # Few looks while the archive is read, many while its one large part is: only those add up to the limit.
    ticks = iter(n * 0.3 for n in range(10_000))
    with pytest.raises(UnreadableFileError) as refused:
        list(parse(io.BytesIO(data), name="x", options=ReadOptions(), monotonic=lambda: next(ticks)))
    assert refused.value.reason == "time_limit"


def test_memory_does_not_grow_with_the_rows() -> None:
    def peak_of(count: int) -> int:
        data = workbook(table(*[(JAN_2, f"text {n}", n % 500 / 4, "EUR") for n in range(count)]))
        found: list[int] = []
        # The last entries are in no list: whatever grows is the reader's.
        peak = peak_bytes(
            lambda: found.append(
                sum(
                    isinstance(item, Entry)
                    for item in parse(io.BytesIO(data), name="x", options=ReadOptions(), monotonic=lambda: 0.0)
                )
            )
        )
        assert found == [count]
        return peak - len(data)

    # Identities take 11 bytes a slot, the spool as much as the file has.
    assert peak_of(6_000) < peak_of(3_000) + 512 * 1024


@pytest.mark.parametrize("part", ["sheet", "shared", "between"])
def test_a_text_without_end_is_not_kept(part: str) -> None:
    text = "".join(f"{n * 2654435761 % 2**32:08x}" for n in range(1_000_000))
    cell, shared, between = "a", ["<t>b</t>"], ""
    if part == "sheet":
        cell = text
    elif part == "shared":
        cell, shared = "<c r='HERE' t='s'><v>0</v></c>", [f"<r><t>{text}</t></r>" * 2]
    else:
        between = text
    rows = table((JAN_2, cell, 1.5, "EUR"), (JAN_2, "c", 2.5, "EUR")) + between
    data = workbook(rows, shared=shared, compression=zipfile.ZIP_STORED)
    found: list[Any] = []
    # The spool holds the file; eight megabytes of text would come on top of it.
    assert peak_bytes(lambda: found.extend(entries(data))) - len(data) < 3 * 1024 * 1024
    assert signed(found) == ([150, 250] if part == "between" else [250])


# Wrong XML ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (sheet_of("", before="<!DOCTYPE worksheet [<!ENTITY a 'b'>]>"), "xml_dtd_forbidden"),
        (sheet_of("<c>" * 70 + "</c>" * 70), "xml_too_deep"),
        (sheet_of("<row><c>"), "xml_malformed"),
        (sheet_of(f"<row r='1' {' ' * 3_000_000}/>"), "container_ratio"),
        (with_part(GOOD, SHEET, b""), "xml_malformed"),
        (with_part(GOOD, SHEET, "<worksheet/>".encode("utf-16")), "encoding_unsupported"),
        (with_part(GOOD, "xl/workbook.xml", b"<workbook>"), "xml_malformed"),
        (with_part(GOOD, "xl/workbook.xml", b"<workbook/>"), "csv_no_header"),
        (with_part(GOOD, "xl/workbook.xml", b"<workbook><a:sheet xmlns:a='b' name='x'/></workbook>"), None),
        (with_part(GOOD, "xl/_rels/workbook.xml.rels", b"<Relationships/>"), None),
        (GOOD.replace(b"worksheets/sheet1.xml", b"worksheets/sheet9.xml"), "container_truncated"),
        (GOOD.replace(b"xl/styles.xml", b"XL\\Styles.xml"), None),
    ],
)
def test_parts_that_are_wrong_or_only_unusual(data: bytes, expected: str | None) -> None:
    if expected is None:
        assert signed(entries(data)) == [150, -250]
    else:
        assert reason(data) == expected


def test_a_tag_that_never_ends_is_refused() -> None:
    random = "".join(f"{n * 2654435761 % 2**32:08x}" for n in range(400_000))
    assert reason(sheet_of(f"<row r='1' a='{random}'/>")) == "xml_token_too_long"


def test_a_damaged_member_is_told() -> None:
    data = bytearray(workbook(table((JAN_2, "a", 1.5, "EUR")), compression=zipfile.ZIP_STORED))
    at = data.index(b"<v>1.5</v>")
    data[at + 3] = ord("9")
    assert reason(bytes(data)) == "container_truncated"


@requires_samples
@pytest.mark.parametrize("name", BOOKS)
def test_every_mutation_of_a_sheet_is_read_or_refused(name: str) -> None:
    data = sample(name)
    pieces = [
        b"<c r='A1'>",
        b"</row>",
        b"<row r='-1'>",
        b"<v>1E400</v>",
        b" t='s'",
        b" s='1'",
        b"&#0;",
        b"<![CDATA[",
        b"9" * 40,
    ]
    for part in (SHEET, "xl/workbook.xml", "xl/styles.xml"):
        for mutated in mutations(part_of(data, part), seed=name + part, count=60, pieces=pieces):
            attempt(with_part(data, part, mutated), ReadOptions())


ROWS = st.lists(
    st.tuples(
        st.integers(0, 30_000),
        st.integers(-(10**9), 10**9),
        st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_a_workbook_and_a_csv_of_the_same_rows_are_the_same_payments(rows: list[tuple[int, int, str]]) -> None:
    first = date(1980, 1, 1)
    cells: list[Any] = []
    lines = ["Date;Description;Amount;Currency", '2026-01-31;"t";0.25;EUR']
    for days, minor, text in rows:
        on = first + timedelta(days)
        cells.append((((on - date(1899, 12, 30)).days, DATE), f"t{text}", minor / 100, "EUR"))
        quoted = text.replace('"', '""')
        lines.append(f'{on};"t{quoted}";{minor / 100:.2f};EUR')
    book = workbook(table((("46053", DATE), "t", 0.25, "EUR"), *cells))
    assert [e.fingerprint for e in entries(book)] == [e.fingerprint for e in entries("\n".join(lines))]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["<row>", "<row r='3'>", "</row>", "<c>", "<c r='B2'>", "</c>", "<v>", "</v>", "1", "<is>", "<t>", "</t>"]
        )
    )
)
def test_any_tags_are_read_or_refused(tags: list[str]) -> None:
    attempt(sheet_of(table((JAN_2, "a", 1.5, "EUR")) + "".join(tags)), ReadOptions())
