"""The reader of workbooks: where its rows come from. What becomes of a row is tested with the reader of CSV."""

from __future__ import annotations

import gzip
import io
import zipfile
from datetime import date
from typing import Any

import pytest

from payrec.domain.statements import Problem
from support.csv_files import entries, read, reason, rejected, signed, skipped
from support.xlsx_files import DATE, HEADINGS, Value, row, table, workbook

JAN_2 = (46024, DATE)
"""2 January 2026."""


def one(*rows: Any, headings: Any = HEADINGS, **options: Any) -> bytes:
    return workbook(table(*rows, headings=headings), **options)


def test_numbers_are_amounts_and_dates_are_dates() -> None:
    found = entries(
        one(
            (JAN_2, "a", "<c r='HERE'><v>0.30000000000000004</v></c>", "EUR"),
            ((46024.75, DATE), "b", -1234.56, "EUR"),
            (JAN_2, "c", 1000, "JPY"),
            (JAN_2, "d", 1.234, "KWD"),
        )
    )
    assert signed(found) == [30, -123456, 1000, 1234]
    assert {e.booking_on for e in found} == {date(2026, 1, 2)}
    assert [e.line for e in found] == [2, 3, 4, 5]


def test_a_number_with_more_decimals_than_its_currency_is_rejected_alone() -> None:
    data = one((JAN_2, "a", 0.301, "EUR"), (JAN_2, "b", 0.5, "EUR"))
    assert rejected(data) == [("amount_precision", 2)]
    assert signed(entries(data)) == [50]


@pytest.mark.parametrize(("text", "minor"), [("1.234,50", 123_450), ("(2,50)", -250), ("12,00", 1200)])
def test_amounts_that_are_text_have_a_decimal_sign_of_their_own(text: str, minor: int) -> None:
    found = entries(one((JAN_2, "a", text, "EUR"), (JAN_2, "b", 1234.5, "EUR"), (JAN_2, "c", 2.25, "EUR")))
    assert signed(found) == [minor, 123_450, 225]


def test_a_text_that_is_no_clear_amount_is_refused_and_a_number_never_is() -> None:
    assert signed(entries(one((JAN_2, "a", 1.234, "KWD")))) == [1234]
    assert reason(one((JAN_2, "a", "1.234", "EUR"))) == "csv_ambiguous_decimals"


def test_a_text_amount_behind_many_numbers_is_rejected_and_not_guessed() -> None:
    rows: list[tuple[Value, ...]] = [(JAN_2, "a", 1.5, "EUR")] * 300
    data = one(*rows, (JAN_2, "b", "1,234", "EUR"), (JAN_2, "c", "12", "EUR"))
    assert rejected(data) == [("invalid_amount", 302)]
    assert len(entries(data)) == 301


def test_dates_that_are_text_need_a_proof_that_may_stand_anywhere() -> None:
    rows: list[tuple[Value, ...]] = [("01/02/2026", "a", 1.5, "EUR")] * 300
    assert reason(one(*rows)) == "csv_ambiguous_dates"
    found = entries(one(*rows, ("31/01/2026", "b", 1.5, "EUR")))
    assert found[0].booking_on == date(2026, 2, 1)
    assert entries(one(*rows), date_order="mdy")[0].booking_on == date(2026, 1, 2)


def test_a_date_format_of_the_profile_is_for_texts_alone() -> None:
    data = one((JAN_2, "a", 1.5, "EUR"), ("2026|03|01", "b", 1.5, "EUR"))
    found = entries(data, profile={"format": "xlsx", "dateFormat": "%Y|%d|%m"})
    assert [e.booking_on for e in found] == [date(2026, 1, 2), date(2026, 1, 3)]


def test_dates_by_iso_text_by_custom_format_and_of_the_1904_system() -> None:
    iso = one(("<c r='HERE' t='d'><v>2026-01-02T10:00:00</v></c>", "a", 1.5, "EUR"))
    custom = one(((46024, 2), "a", 1.5, "EUR"), styles=(0, 14, 164), formats={164: r"dd\.mm\.yy"})
    old = one(((44562, DATE), "a", 1.5, "EUR"), from_1904=True)
    for data in (iso, custom, old):
        assert [e.booking_on for e in entries(data)] == [date(2026, 1, 2)]
    # A number that no format calls a date is none.
    assert reason(one(((46024, 0), "a", 1.5, "EUR"))) == "csv_no_header"


def test_cells_stand_where_their_reference_says() -> None:
    cells = "<c r='D2' t='inlineStr'><is><t>EUR</t></is></c><c r='A2' s='1'><v>46024</v></c><c r='C2'><v>1.5</v></c>"
    data = workbook(row(1, *HEADINGS) + f"<row r='2'>{cells}</row>" + row(9, JAN_2, None, 2.5, "EUR"))
    found = entries(data)
    assert [(e.line, e.amount_minor, e.remittance) for e in found] == [(2, 150, None), (9, 250, None)]


def test_without_references_cells_and_rows_follow_each_other() -> None:
    cells = "<c s='1'><v>46024</v></c><c t='str'><v>a</v></c><c><v>1.5</v></c><c t='str'><v>EUR</v></c>"
    names = "".join(f"<c t='str'><v>{name}</v></c>" for name in HEADINGS)
    found = entries(workbook(f"<row>{names}</row><row>{cells}</row>"))
    assert [(e.line, e.amount_minor, e.remittance) for e in found] == [(2, 150, "a")]


def test_shared_texts_with_runs_and_without_their_phonetic_guides() -> None:
    runs = "<r><t>In</t></r><r><t xml:space='preserve'>voice </t></r><r><t>7</t></r>"
    guide = "<rPh sb='0' eb='1'><t>guide</t></rPh>"
    shared = [*(f"<t>{name}</t>" for name in HEADINGS), runs + guide, "<t>EUR</t>"]
    names = [f"<c r='HERE' t='s'><v>{n}</v></c>" for n in range(4)]
    data = workbook(
        row(1, *names)
        + row(2, JAN_2, "<c r='HERE' t='s'><v>4</v></c>", 1.5, "<c r='HERE' t='s'><v>5</v></c>")
        + row(3, JAN_2, "<c r='HERE' t='s'><v>6</v></c>", 2.5, "<c r='HERE' t='s'><v>5</v></c>"),
        shared=shared,
    )
    assert [e.remittance for e in entries(data)] == ["Invoice 7"]
    assert rejected(data) == [("invalid_entry", 3)]


def test_a_text_in_its_cell_has_runs_and_guides_too() -> None:
    inline = "<c r='HERE' t='inlineStr'><is><r><t>In</t></r><r><t>voice</t></r><rPh><t>guide</t></rPh></is></c>"
    assert [e.remittance for e in entries(one((JAN_2, inline, 1.5, "EUR")))] == ["Invoice"]


def test_a_formula_is_the_value_that_was_stored() -> None:
    data = one(
        (JAN_2, "<c r='HERE' t='str'><f>1+1</f><v>text</v></c>", "<c r='HERE'><f>A1</f><v>1.5</v></c>", "EUR"),
        (JAN_2, "<c r='HERE'><f>1+1</f><v></v></c>", 2.5, "EUR"),
        (JAN_2, "a", "<c r='HERE' t='e'><f>1/0</f><v>#DIV/0!</v></c>", "EUR"),
        (JAN_2, "<c r='HERE' t='b'><v>1</v></c>", 3.5, "EUR"),
    )
    assert [(e.remittance, e.amount_minor) for e in entries(data)] == [("text", 150), (None, 250), ("TRUE", 350)]
    assert rejected(data) == [("invalid_amount", 4)]


def test_preamble_total_and_blank_rows() -> None:
    data = workbook(
        row(1, "Konto", "DE89370400440532013000")
        + row(2, "Anfangssaldo", 10)
        + row(5, *HEADINGS)
        + row(6, JAN_2, "a", 2.5, "EUR")
        + "<row r='7'><c r='A7' s='1'/><c r='B7'/></row>"
        + row(8, " ")
        + row(9, None, "Total", 2.5)
    )
    found = entries(data)
    assert [(e.account, e.amount_minor, e.line) for e in found] == [("DE89370400440532013000", 250, 6)]
    assert skipped(data) == [("csv_blank_row", 8), ("csv_balance_row", 9)]


def test_what_stands_beside_the_table_is_no_column_of_it() -> None:
    rows = [row(n, JAN_2, "a", 1.5, "EUR") for n in range(2, 300)]
    found = entries(workbook(row(1, *HEADINGS) + "".join(rows) + row(300, JAN_2, "b", 2.5, "EUR", None, "a remark")))
    assert found[-1].amount_minor == 250


# Sheets -------------------------------------------------------------------------------------------------------------


def test_the_first_sheet_with_a_header_is_read_and_the_others_are_told() -> None:
    cover, first, second = (
        table(headings=("Cover", "page")),
        table((JAN_2, "a", 1.5, "EUR")),
        table((JAN_2, "b", 2.5, "EUR")),
    )
    items, result = read(workbook(cover, first, second))
    assert [i.code for i in items if isinstance(i, Problem)] == ["xlsx_sheets_not_read"]
    assert result.file.dialect is not None
    assert (result.file.format, result.file.dialect["sheet"], result.file.container) == ("xlsx", "Sheet 2", None)
    assert [e.remittance for e in entries(workbook(first, second, states=("hidden",)))] == ["b"]
    assert [e.remittance for e in entries(workbook(first, states=("veryHidden",)))] == ["a"]


@pytest.mark.parametrize("sheet", [1, "sheet 2"])
def test_the_profile_names_the_sheet(sheet: int | str) -> None:
    data = workbook(table((JAN_2, "a", 1.5, "EUR")), table((JAN_2, "b", 2.5, "EUR")), states=("visible", "hidden"))
    assert [e.remittance for e in entries(data, profile={"sheet": sheet})] == ["b"]
    assert reason(data, profile={"sheet": 2}) == "csv_column_missing"
    assert reason(data, profile={"sheet": "other"}) == "csv_column_missing"


def test_without_a_header_a_profile_is_needed() -> None:
    data = workbook(row(1, JAN_2, "a", 1.5))
    assert reason(data) == "csv_no_header"
    profile = {"headerRow": None, "columns": {"bookingDate": 0, "amount": 2, "remittance": 1}, "currency": "EUR"}
    assert signed(entries(data, profile=profile)) == [150]
    assert reason(workbook("")) == "csv_no_header"
    assert reason(workbook()) == "csv_no_header"


def test_the_row_of_the_header_may_be_far_down() -> None:
    data = workbook("".join(row(n, "x") for n in range(1, 400)) + row(400, "When", "How much") + row(401, JAN_2, 1.5))
    profile = {"headerRow": 400, "columns": {"bookingDate": "When", "amount": "How much"}, "currency": "EUR"}
    assert signed(entries(data, profile=profile)) == [150]


def test_a_profile_for_csv_says_nothing_here() -> None:
    data = one((JAN_2, "a", 1.5, "EUR"))
    assert signed(entries(data, profile={"format": "csv", "sign": "inverted"})) == [150]
    assert signed(entries(data, profile={"format": "xlsx", "sign": "inverted"})) == [-150]
    assert reason(data, format="mt940") == "unknown_format"


def test_a_running_balance_proves_the_sign() -> None:
    headings = ("Date", "Description", "Amount", "Balance", "Currency")
    rows = [(JAN_2, "a", 5, 95, "EUR"), (JAN_2, "b", 10, 85, "EUR"), (JAN_2, "c", 2.5, 82.5, "EUR")]
    assert reason(one(*rows, headings=headings)) == "csv_sign_contradicts_balance"


def test_a_report_of_a_payment_provider_is_not_read_as_a_bank_table() -> None:
    headings = ("balance_transaction_id", "created", "currency", "gross", "fee", "net", "description", "amount")
    data = one(("txn_1", JAN_2, "EUR", 1, 0, 1, "a", 1), headings=headings)
    assert reason(data) in {"unknown_format", "csv_no_header"}


# Containers ---------------------------------------------------------------------------------------------------------


def zipped(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("wrap", [gzip.compress, lambda data: zipped("a.xlsx", data)], ids=["gzip", "zip"])
def test_a_workbook_in_a_container(wrap: Any) -> None:
    assert signed(entries(wrap(one((JAN_2, "a", 1.5, "EUR"))))) == [150]


def test_a_workbook_in_a_zip_is_known_by_whatever_part_comes_first() -> None:
    large = "".join(f"<c r='A{n}' t='str'><v>{n:032x}</v></c>" for n in range(5000))
    out = io.BytesIO()
    data = one((JAN_2, "a", 1.5, "EUR"))
    with zipfile.ZipFile(out, "w") as new, zipfile.ZipFile(io.BytesIO(data)) as old:
        new.writestr("xl/media/first", large)
        for name in reversed(old.namelist()):
            new.writestr(name, old.read(name))
    assert signed(entries(zipped("a.xlsx", out.getvalue()))) == [150]


def test_an_archive_that_only_looks_like_a_workbook() -> None:
    assert reason(zipped("a.docx", zipped("docProps/app.xml", b"x"))) == "unknown_format"
    assert reason(zipped("a.zip", zipped("a.csv", b"x"))) == "container_nested"


@pytest.mark.parametrize(
    ("codes", "currency"),
    [
        (('#,##0.00 [$€-407]', '#,##0.00 [$€-407]'), "EUR"),
        (('#,##0.00\\ "€"', '#,##0.00 [$EUR]'), "EUR"),
        (('[$CHF-807] #,##0.00', '[$CHF-807] #,##0.00'), "CHF"),
        (('#,##0.00 [$€-407]', 'General'), "EUR"),
        (('#,##0.00 [$€-407]', '#,##0.00 [$£-809]'), None),
        (('[$$-409]#,##0.00', '[$$-409]#,##0.00'), None),
        (('#,##0.00 "pieces"', '0.00'), None),
    ],
)  # fmt: skip
def test_the_formats_of_numbers_name_the_currency_where_no_text_does(
    codes: tuple[str, str], currency: str | None
) -> None:
    rows = [(JAN_2, "a", (1.5, 2)), (JAN_2, "b", (2.5, 3))]
    data = workbook(
        table(*rows, headings=("Date", "Description", "Amount")),
        formats={164 + n: code for n, code in enumerate(codes)},
        styles=(0, 14, 164, 165),
    )
    if currency is None:
        assert reason(data) == "csv_no_currency"
    else:
        assert {e.currency for e in entries(data)} == {currency}
    named = workbook(
        table(*rows, headings=("Date", "Description", "Amount (USD)")), formats={164: codes[0]}, styles=(0, 14, 164, 0)
    )
    assert {e.currency for e in entries(named)} == {"USD"}
