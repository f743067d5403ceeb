"""The CSV reader: what only the rows prove, which rows are no transactions, and what a profile changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest

from payrec.domain.statements import Entry, Problem, Skipped, StatementEnd
from payrec.errors import ValidationFailedError
from payrec.formats.csv.words import PENDING_WORDS
from support.csv_files import HEADER, entries, read, reason, rejected, signed, skipped

# Rule 4: decimals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amounts", "minor"),
    [
        (["1.234", "5,00"], [123400, 500]),
        (["1,234", "5.00"], [123400, 500]),
        (["1.234", "1.234.567"], [123400, 123456700]),
        (["1 234,56", "7"], [123456, 700]),
        (["(5.00)", "5.00-", "\u22125.00"], [-500, -500, -500]),
        (["12", "-3"], [1200, -300]),
    ],
)
def test_all_rows_prove_the_decimal_sign(amounts: list[str], minor: list[int]) -> None:
    assert signed(entries(HEADER + "".join(f"2026-01-02;a;{a};EUR\n" for a in amounts))) == minor


def test_amounts_that_prove_nothing_are_refused_and_the_profile_decides() -> None:
    text = HEADER + "2026-01-02;a;1.234;EUR\n2026-01-02;b;5.678;EUR\n"
    assert reason(text) == "csv_ambiguous_decimals"
    assert signed(entries(text, profile={"decimal": ","})) == [123400, 567800]
    assert rejected(text, profile={"decimal": "."}) == [("amount_precision", 2), ("amount_precision", 3)]


def test_the_proof_may_stand_far_behind_the_head() -> None:
    doubtful = "01/02/2026;a;1.234;EUR\n" * 5000
    assert reason(HEADER + doubtful) == "csv_ambiguous_decimals"
    assert reason(HEADER + doubtful + "01/02/2026;a;1,5;EUR\n") == "csv_ambiguous_dates"
    found = entries(HEADER + doubtful + "01/31/2026;a;1,5;EUR\n")
    assert len(found) == 5001
    assert (found[0].booking_on, found[0].amount_minor, found[-1].amount_minor) == (date(2026, 1, 2), 123400, 150)


def test_a_row_behind_the_head_that_contradicts_is_rejected_alone() -> None:
    text = HEADER + "31.01.2026;a;1,50;EUR\n" * 5000 + "01.31.2026;b;1,50;EUR\n31.01.2026;c;1,234.50;EUR\n"
    assert rejected(text) == [("invalid_date", 5002), ("invalid_amount", 5003)]


def test_a_garbled_value_among_many_is_no_doubt_but_one_among_few_is() -> None:
    rows = "31.01.2026;a;1,50;EUR\n" * 30
    assert rejected(HEADER + rows + "01.31.2026;b;1,50;EUR\n") == [("invalid_date", 32)]
    assert reason(HEADER + "31.01.2026;a;1,50;EUR\n01.31.2026;b;1,50;EUR\n") == "csv_ambiguous_dates"
    assert reason(HEADER + "31.01.2026;a;1,50;EUR\n31.01.2026;b;1.50;EUR\n") == "csv_ambiguous_decimals"


# Rule 5: dates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dates", "first"),
    [
        (["01/02/2026", "13/02/2026"], date(2026, 2, 1)),
        (["01/02/2026", "02/13/2026"], date(2026, 1, 2)),
        (["01.02.2026", "03.04.2026"], date(2026, 2, 1)),
        (["01.02.2026", "02.13.2026"], date(2026, 1, 2)),
        (["20260102"], date(2026, 1, 2)),
        (["2026.01.02."], date(2026, 1, 2)),
        (["2 Feb 2026"], date(2026, 2, 2)),
    ],
)
def test_all_rows_prove_the_order_of_day_and_month(dates: list[str], first: date) -> None:
    assert entries(HEADER + "".join(f"{d};a;1.50;EUR\n" for d in dates))[0].booking_on == first


def test_a_row_that_is_skipped_proves_the_order_as_well() -> None:
    text = HEADER + "12/31/2025;Opening balance;1.00;EUR\n01/02/2026;a;1.50;EUR\n"
    assert entries(text)[0].booking_on == date(2026, 1, 2)


def test_dates_that_prove_nothing_are_refused_and_the_option_decides() -> None:
    text = HEADER + "01/02/2026;a;1.50;EUR\n"
    assert reason(text) == "csv_ambiguous_dates"
    assert entries(text, date_order="dmy")[0].booking_on == date(2026, 2, 1)
    assert entries(text, date_order="mdy")[0].booking_on == date(2026, 1, 2)
    assert entries(text, profile={"dateOrder": "mdy"})[0].booking_on == date(2026, 1, 2)
    assert entries(text, profile={"dateFormat": "%m/%d/%Y"})[0].booking_on == date(2026, 1, 2)


# Rule 6: sign -----------------------------------------------------------------------------------------------------

BALANCED = ["5.00;105.00", "-3.00;102.00", "7.50;109.50"]


def balanced(rows: list[str], sign: int = 1) -> str:
    lines = [f"2026-01-02;a;{sign * float(r.split(';')[0]):.2f};{r.split(';')[1]};EUR\n" for r in rows]
    return "Date;Text;Amount;Balance;Currency\n" + "".join(lines)


def test_a_running_balance_proves_the_sign_in_either_order() -> None:
    assert signed(entries(balanced(BALANCED))) == [500, -300, 750]
    assert signed(entries(balanced(BALANCED[::-1]))) == [750, -300, 500]


@pytest.mark.parametrize("rows", [BALANCED, BALANCED[::-1]])
def test_a_sign_that_contradicts_the_balance_is_refused_and_the_profile_turns_it(rows: list[str]) -> None:
    assert reason(balanced(rows, -1)) == "csv_sign_contradicts_balance"
    assert signed(entries(balanced(rows, -1), profile={"sign": "inverted"})) == signed(entries(balanced(rows)))


def test_a_balance_that_fits_neither_sign_proves_nothing() -> None:
    assert len(entries(balanced(["5.00;1.00", "-3.00;9.00", "7.50;2.00"]))) == 3


# Rule 7: rows -----------------------------------------------------------------------------------------------------


def test_balance_and_total_rows_are_skipped_by_name_and_are_the_balances() -> None:
    text = (
        HEADER + "2026-01-01;Opening balance;10.00;EUR\n2026-01-02;a;1.50;EUR\n2026-01-02;Turnover;1.50;EUR\n"
        "2026-01-02;Closing balance;11.50;EUR\n;Total;1.50;EUR\nTotal;;1.50;\n;;;\n\n"
    )
    items, _ = read(text)
    statement = next(i.statement for i in items if isinstance(i, StatementEnd))
    assert [(b.signed_minor, b.on) for b in statement.balances] == [(1000, date(2026, 1, 1)), (1150, date(2026, 1, 2))]
    assert [i.rule for i in items if isinstance(i, Skipped)] == ["csv_balance_row"] * 5 + ["csv_blank_row"]
    assert not [i for i in items if isinstance(i, Problem)]


def test_balances_that_do_not_add_up_are_told() -> None:
    items, _ = read(
        HEADER + "2026-01-01;Opening balance;10.00;EUR\n2026-01-02;a;1.50;EUR\n2026-01-02;Closing balance;11.00;EUR\n"
    )
    assert [i.code for i in items if isinstance(i, Problem)] == ["balance_mismatch"]


def test_a_payee_called_total_is_a_payment() -> None:
    assert signed(entries("Date;Payee;Text;Amount;Currency\n2026-01-02;Total;Total;-40.00;EUR\n")) == [-4000]


def test_pending_instead_of_a_date_is_pending() -> None:
    found = entries(
        "Booking date;Value date;Text;Amount;Currency\nPending;2026-01-02;a;-1.50;EUR\n2026-01-01;;b;1.00;EUR\n"
    )
    assert [(e.status, e.booking_on) for e in found] == [
        ("pending", date(2026, 1, 2)),
        ("booked", date(2026, 1, 1)),
    ]


def test_a_status_column_says_what_is_pending() -> None:
    found = entries(
        "Date;Text;Amount;Currency;Info\n2026-01-02;a;1.50;EUR;Umsatz gebucht\n"
        "2026-01-02;b;1.50;EUR;Umsatz vorgemerkt\n"
    )
    assert [e.status for e in found] == ["booked", "pending"]


def test_an_info_is_a_status_only_where_it_says_nothing_else() -> None:
    """It is the text of other tables, and what people write may begin with any word."""
    header, row = "Date;Amount;Currency;Info\n", "2026-01-02;1.50;EUR;{}\n"
    texts = ("Cancelled order 55, refund", "invoice 7, pending since May", "Umsatz gebucht")
    text = header + "".join(map(row.format, texts))
    assert ([entry.status for entry in entries(text)], skipped(text)) == (["booked"] * 3, [])
    late = header + row.format("") * 300 + row.format("Cancelled order 55")
    assert len(entries(late)) == 301


def rows_with(statuses: Sequence[str]) -> str:
    """Return the table of a wallet or a provider: a row for each status."""
    return "Date;Text;Amount;Currency;Status\n" + "".join(f"2026-01-02;{s};1.50;EUR;{s}\n" for s in statuses)


def test_a_payment_that_waits_is_pending_in_whatever_language_its_status_is() -> None:
    waiting = [
        *PENDING_WORDS,
        *("Ausstehend", "In Bearbeitung", "offen", "open", "Authorized", "En cours", "À venir", "In sospeso"),
        *("Oczekująca", "Väntande", "Függőben", "Čekající", "Nezaúčtováno", "In afwachting", "On hold"),
    ]
    assert [e.remittance for e in entries(rows_with(waiting)) if e.status != "pending"] == []
    done = ["Abgeschlossen", "Completed", "paid", "Gebucht", "Opened", "Refunded", "Terminé", "Cleared", "Reversed"]
    assert [e.status for e in entries(rows_with(done))] == ["booked"] * len(done)


def test_a_payment_that_never_was_is_skipped_in_whatever_language_its_status_is() -> None:
    never = [
        *("Failed", "Canceled", "cancelled", "Expired", "Voided", "Storniert", "Verweigert", "Abgelaufen", "Annulé"),
        *("Échoué", "Geannuleerd", "Verlopen", "Cancelado", "Denegada", "Annullata", "Scaduto", "Anulowana", "Slettet"),
    ]
    assert skipped(rows_with(never)) == [("csv_not_done_row", line) for line in range(2, len(never) + 2)]


@pytest.mark.parametrize(
    ("heading", "impacts"),
    [("Balance Impact", ["Credit", "Memo", "Debit"]), ("Auswirkung auf Guthaben", ["Haben", "Memo", "Soll"])],
)
def test_what_paypal_says_has_no_impact_on_the_balance_is_skipped(heading: str, impacts: list[str]) -> None:
    sale, withdrawal = ("Website Payment", "50.00"), ("General Withdrawal", "-50.00")
    rows = zip((sale, ("Invoice Sent", "70.00"), withdrawal), impacts, strict=True)
    text = f"Date,Type,Description,Status,Currency,Gross,{heading}\n" + "".join(
        f"2026-01-14,{kind},INV-1,Completed,EUR,{gross},{impact}\n" for (kind, gross), impact in rows
    )
    assert (signed(entries(text)), skipped(text)) == ([5_000, -5_000], [("csv_not_done_row", 3)])


def test_what_is_found_of_statuses_can_be_given_as_a_profile() -> None:
    text = rows_with(["Completed", "Ausstehend", "Expired"])
    dialect = read(text)[1].file.dialect or {}
    again = {key: dialect[key] for key in ("pendingWhen", "skipWhen")}
    assert [e.status for e in entries(text, profile=again)] == ["booked", "pending"]


def test_another_number_of_fields_is_rejected_unless_the_surplus_is_empty() -> None:
    text = HEADER + "2026-01-02;a;1.50;EUR;;\n2026-01-02;b;1.50\n2026-01-02;c;1.50;EUR;x\n2026-01-02;d;1.50;EUR\n"
    assert rejected(text) == [("invalid_entry", 3), ("invalid_entry", 4)]
    assert [e.remittance for e in entries(text)] == ["a", "d"]


def test_a_bad_row_takes_no_neighbour_along() -> None:
    text = HEADER + (
        "2026-01-02;a;1.50;EUR\n2026-02-30;b;1.50;EUR\n2026-01-02;c;x;EUR\n2026-01-02;d;;EUR\n2026-01-02;e;1.505;EUR\n"
        ";f;1.50;EUR\n2026-01-02;g;1.50;XQQ\n2026-01-02;h;1.50;EUR\n"
    )
    assert rejected(text) == [
        ("invalid_date", 3),
        ("invalid_amount", 4),
        ("invalid_amount", 5),
        ("amount_precision", 6),
        ("missing_date", 7),
        ("invalid_entry", 8),
    ]
    assert [e.remittance for e in entries(text)] == ["a", "h"]


@pytest.mark.parametrize(
    "head",
    [
        ";Soll;;Haben;\nDatum;Betrag;Text;Betrag;Text\n",
        "Datum;Betrag;Text;Betrag;Text\n;Soll;;Haben;\n",
        "Datum;Betrag;Text;;Text\n;Soll;;Haben;\n",
        "Datum;Betrag;Text;Betrag;Text\n",
    ],
    ids=["sides above", "sides below", "one heading for both", "the same heading twice"],
)
def test_one_of_two_columns_of_amounts_is_not_taken_for_both(head: str) -> None:
    text = head + "15.01.2026;10,00;Miete;;\n16.01.2026;;;20,00;Kunde\n"
    assert reason(text, currency="EUR") == "csv_no_header"
    found = entries(text, currency="EUR", profile={"columns": {"debit": 1, "credit": 3}})
    assert signed(found) == [-1000, 2000]


def test_totals_above_the_header_and_a_second_amount_beside_the_first_are_no_doubt() -> None:
    totals = "Debits;10.00;Credits;20.00\n"
    table = "Date;Text;Amount;Currency;Amount\n2026-01-15;a;-10.00;EUR;-11.00\n2026-01-16;b;20.00;EUR;\n"
    assert signed(entries(totals + table)) == [-1000, 2000]


# Currency, profile, identity --------------------------------------------------------------------------------------


def test_without_any_currency_the_file_is_refused() -> None:
    text = "Date;Text;Amount\n2026-01-02;a;1.50\n"
    assert reason(text) == "csv_no_currency"
    assert reason(text.replace("1.50", "$1.50")) == "csv_no_currency"
    assert entries(text, currency="jpy", profile={"impliedDecimals": 0, "decimal": "."}) == []
    assert entries(text, currency="eur")[0].currency == "EUR"
    assert entries(text, profile={"currency": "KWD"})[0].amount_minor == 1500
    assert entries(text.replace("1.50", "€1.50"))[0].currency == "EUR"
    assert entries(text.replace("Amount", "Amount (GBP)"))[0].currency == "GBP"


def test_the_digits_are_those_of_each_rows_currency() -> None:
    found = entries(HEADER + "2026-01-02;a;1.50;EUR\n2026-01-02;b;1.500;KWD\n2026-01-02;c;15;JPY\n")
    assert [(e.amount_minor, e.currency) for e in found] == [(150, "EUR"), (1500, "KWD"), (15, "JPY")]


def test_an_amount_that_names_another_currency_is_rejected_alone() -> None:
    text = HEADER + "2026-01-02;a;USD 5000.00;EUR\n2026-01-02;b;EUR 1.50;EUR\n2026-01-02;c;$2.50;USD\n"
    assert rejected(text) == [("currency_mismatch", 2)]
    assert [(e.amount_minor, e.currency) for e in entries(text)] == [(150, "EUR"), (250, "USD")]
    alone = "Date;Text;Amount\n2026-01-02;a;5.00 USD\n2026-01-02;b;£5.00\n2026-01-02;c;€5.00\n"
    assert rejected(alone, currency="EUR") == [("currency_mismatch", 2), ("currency_mismatch", 3)]
    assert rejected(alone, profile={"currency": "GBP"}) == [("currency_mismatch", 2), ("currency_mismatch", 4)]


def test_a_profile_skips_marks_and_keeps_what_it_names() -> None:
    profile = {
        "footerRows": 1,
        "direction": {"column": "Kind", "credit": ["IN"]},
        "skipWhen": [{"column": "Text", "matches": "^internal", "rule": "internal_row"}],
        "pendingWhen": {"column": "Kind", "matches": "\\?$"},
        "metadata": ["Cost"],
        "columns": {"externalId": "Id"},
    }
    text = (
        "Id;Date;Text;Amount;Currency;Kind;Cost\nx1;2026-01-02;a;1.00;EUR;IN;7\nx2;2026-01-02;b;2.00;EUR;OUT;\n"
        "x3;2026-01-02;Internal c;3.00;EUR;IN;\nx4;2026-01-02;d;4.00;EUR;OUT?;\nend of the list\n"
    )
    found = entries(text, profile=profile)
    assert signed(found) == [100, -200, -400]
    assert [e.status for e in found] == ["booked", "booked", "pending"]
    assert [e.metadata for e in found] == [{"Cost": "7"}, {}, {}]
    assert (found[0].identity_kind, found[0].identity_value, found[0].external_id) == ("bank", "x1", "x1")
    assert skipped(text, profile=profile) == [("internal_row", 4), ("csv_footer_row", 6)]


def test_a_column_headed_transaction_id_is_no_identity() -> None:
    found = entries("Date;Transaction ID;Amount;Currency\n2026-01-02;t1;1.50;EUR\n2026-01-02;t1;1.50;EUR\n")
    assert [(e.identity_kind, e.occurrence) for e in found] == [("fingerprint", 0), ("fingerprint", 1)]
    assert found[0].metadata == {"Transaction ID": "t1"}


def test_twins_are_two_payments() -> None:
    found = entries(HEADER + "2026-01-02;Coffee;-3.50;EUR\n" * 2)
    assert found[0].identity_value == found[1].identity_value
    assert [e.occurrence for e in found] == [0, 1]


def test_a_header_row_of_the_profile_decides_alone() -> None:
    text = HEADER + "2025-01-01;old;9.00;EUR\n\n" + HEADER + "2026-01-02;a;1.50;EUR\n"
    assert [e.remittance for e in entries(text, profile={"headerRow": 4})] == ["a"]
    assert reason(text, profile={"headerRow": 99}) == "csv_no_header"


def test_a_profile_for_another_file_is_a_refusal_and_a_wrong_one_is_invalid() -> None:
    text = HEADER + "2026-01-02;a;1.50;EUR\n"
    assert reason(text, profile={"metadata": ["Kostenstelle"]}) == "csv_column_missing"
    assert reason(text, profile={"headerRow": 1, "columns": {"amount": 7}}) == "csv_column_missing"
    with pytest.raises(ValidationFailedError):
        read(text, profile={"sign": "turned"})
    assert signed(entries(text, profile={"format": "camt"})) == [150]


def test_a_creditor_reference_is_found_in_the_text() -> None:
    found = entries(HEADER + "2026-01-02;Invoice RF18539007547034 thanks;1.50;EUR\n")
    assert found[0].structured_reference == "RF18539007547034"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_and_line_ends(encoding: str, line_end: str) -> None:
    text = "Datum;Text;Betrag;Währung\n31.01.2026;Müller;-1,50;EUR\n30.01.2026;b;2,50;EUR\n"
    found = entries(text.replace("\n", line_end).encode(encoding))
    assert [(e.remittance, e.line) for e in found] == [("Müller", 2), ("b", 3)]


def test_bytes_that_cannot_be_decoded_are_told() -> None:
    data = (HEADER + "2026-01-02;é;1.50;EUR\n" * 4000).encode() + b"2026-01-02;\xff\xfe;1.50;EUR\n"
    items, _ = read(data)
    assert [i.code for i in items if isinstance(i, Problem)] == ["undecodable_bytes"]
    assert [i for i in items if isinstance(i, Entry)][-1].remittance == "\ufffd\ufffd"
