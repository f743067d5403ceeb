"""Questions about tables: whatever is in a file, an answer leads on, and to nothing that is not a profile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from payrec.constants import QUESTION_ALTERNATIVES_MAX
from payrec.domain.settings import merged
from payrec.errors import UnreadableFileError
from payrec.formats.csv.profile import validate_profile
from support.csv_files import entries, read, reason, signed

QUESTIONS_MAX = 6
"""Questions that one file may ask: delimiter, columns, currency, decimals, dates, sign."""

DATES = st.sampled_from(
    ["2026-03-02", "03/04/2026", "31/01/2026", "01.02.2026", "12/31/2026", "3 May 2026", "", "soon"]
)
AMOUNTS = st.sampled_from(
    ["1.50", "-1,50", "1.234", "1,234", "1.234,50", "(5.00)", "$2.00", "7", "", "none", "1.50 EUR"]
)
TEXTS = st.sampled_from(["rent", "invoice 7", "", "a;b", '"quoted"', "Total", "EUR", "kr 5"])
NAMES = st.sampled_from(
    ["Date", "Amount", "Debit", "Credit", "Text", "Currency", "Aika", "Summa", "Selite", "Net", "Fee", "Card", "7"]
)
ROWS = st.lists(st.tuples(DATES, TEXTS, AMOUNTS, AMOUNTS, TEXTS), min_size=1, max_size=6)


def refusal(data: str, answers: dict[str, Any]) -> UnreadableFileError | None:
    try:
        read(data, **{{"dateOrder": "date_order"}.get(name, name): value for name, value in answers.items()})
    except UnreadableFileError as refused:
        return refused
    return None


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    rows=ROWS,
    header=st.none() | st.lists(NAMES, min_size=5, max_size=5),
    delimiter=st.sampled_from([";", ",", "\t", "|", "^"]),
    picks=st.lists(st.integers(0, QUESTION_ALTERNATIVES_MAX - 1), min_size=QUESTIONS_MAX, max_size=QUESTIONS_MAX),
)
def test_every_answer_leads_on(
    rows: list[tuple[str, ...]], header: list[str] | None, delimiter: str, picks: list[int]
) -> None:
    lines = [delimiter.join(row) for row in ([tuple(header)] if header else []) + rows]
    data = "\n".join([*lines, ""])
    answers: dict[str, Any] = {}
    reasons: list[str] = []
    for pick in [*picks, None]:
        refused = refusal(data, answers)
        if refused is None or refused.question is None:
            return
        assert refused.reason not in reasons, "asked again"
        assert pick is not None, reasons
        reasons.append(refused.reason)
        question = refused.question
        assert 1 <= len(question.alternatives) <= QUESTION_ALTERNATIVES_MAX
        chosen = question.alternatives[pick % len(question.alternatives)].value
        answers = merged(answers, {question.option: chosen})
        validate_profile(answers.get("profile", {}))


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=5), st.sampled_from("/-"))
def test_dates_of_either_order_are_asked_for_and_read_as_it_is_said(pairs: list[tuple[int, int]], mark: str) -> None:
    lines = [f"{a:02}{mark}{b:02}{mark}2026;x;1.50;EUR" for a, b in pairs]
    data = "\n".join(["Date;Text;Amount;Currency", *lines, ""])
    assert reason(data) == "csv_ambiguous_dates"
    found = [(e.booking_on.month, e.booking_on.day) for e in entries(data, date_order="dmy") if e.booking_on]
    assert found == [(b, a) for a, b in pairs]
    found = [(e.booking_on.month, e.booking_on.day) for e in entries(data, date_order="mdy") if e.booking_on]
    assert found == pairs
    # One date that fits a single order decides for the whole file, wherever it stands.
    for position in range(len(lines) + 1):
        told = [*lines[:position], f"31{mark}01{mark}2026;x;1.50;EUR", *lines[position:]]
        proved = entries("\n".join(["Date;Text;Amount;Currency", *told, ""]))
        assert [(e.booking_on.month, e.booking_on.day) for e in proved if e.booking_on] == [
            *((b, a) for a, b in pairs[:position]),
            (1, 31),
            *((b, a) for a, b in pairs[position:]),
        ]


def test_a_year_of_two_digits_may_come_first() -> None:
    """The days of one month were those of 27 years."""
    lines = [f"26-01-{day};x;1.50;EUR" for day in ("02", "15", "28")]
    data = "\n".join(["Date;Text;Amount;Currency", *lines, ""])
    refused = refusal(data, {})
    assert refused is not None
    assert refused.question is not None
    assert (refused.reason, refused.question.option) == ("csv_ambiguous_dates", "dateOrder")
    assert [alternative.value for alternative in refused.question.alternatives] == ["ymd", "dmy", "mdy"]
    assert [str(e.booking_on) for e in entries(data, date_order="ymd")] == ["2026-01-02", "2026-01-15", "2026-01-28"]
    assert [str(e.booking_on) for e in entries(data, date_order="dmy")] == ["2002-01-26", "2015-01-26", "2028-01-26"]
    # A month and the next one, of days that are many and of a year that is one, are in doubt of nothing.
    plain = data.replace("26-01-02", "02-01-26").replace("26-01-15", "15-01-26").replace("26-01-28", "28-02-26")
    assert [str(e.booking_on) for e in entries(plain)] == ["2026-01-02", "2026-01-15", "2026-02-28"]


def test_what_a_profile_says_of_the_sign_is_not_compared_with_the_balance() -> None:
    data = "Date;Text;Amount;Balance;Currency\n2026-01-02;a;10.00;90.00;EUR\n2026-01-03;b;20.00;70.00;EUR\n"
    assert reason(data) == "csv_sign_contradicts_balance"
    for sign, direction in (("as_is", "credit"), ("inverted", "debit")):
        assert {e.direction for e in entries(data, profile={"sign": sign})} == {direction}


def test_a_running_balance_may_be_written_otherwise_than_the_amounts() -> None:
    data = "Date;Text;Amount;Balance;Currency\n2026-01-02;a;-10,50;1990.25;EUR\n2026-01-03;b;20,00;1990.25;EUR\n"
    assert [e.amount_minor for e in entries(data)] == [1050, 2000]
    doubtful = data.replace("-10,50", "-1,230").replace("20,00", "2,000")
    assert [e.amount_minor for e in entries(doubtful)] == [123_000, 200_000]


CARD = "Date;Text;{heading};Amount;Currency\n2026-01-02;a;1234;25.00;EUR\n2026-01-03;b;1234;{second};EUR\n"


@pytest.mark.parametrize("heading", ["Card Member", "Kartennummer", "Numéro de carte", "Karta"])
@pytest.mark.parametrize("second", ["31.20", "-120.00"])
def test_the_sign_of_a_card_is_asked_for_where_purchases_may_be_positive(heading: str, second: str) -> None:
    data = CARD.format(heading=heading, second=second)
    assert reason(data) == "csv_ambiguous_sign"
    for sign, minor in (("as_is", 2500), ("inverted", -2500)):
        assert signed(entries(data, profile={"sign": sign}))[0] == minor


def test_the_sign_of_a_card_is_not_asked_for_where_the_table_says_it() -> None:
    assert signed(entries(CARD.format(heading="Store", second="31.20"))) == [2500, 3120]
    negative = CARD.format(heading="Card Member", second="-1.00") + "2026-01-04;c;1234;-2.00;EUR\n"
    assert signed(entries(negative)) == [2500, -100, -200]
    sides = "Date;Text;Card Member;Debit;Credit;Currency\n2026-01-02;a;1234;25.00;;EUR\n2026-01-03;b;1234;3.00;;EUR\n"
    assert signed(entries(sides)) == [-2500, -300]
    marked = "Date;Text;Card Member;Amount;D/C;Currency\n2026-01-02;a;1;25.00;D;EUR\n2026-01-03;b;1;3.00;D;EUR\n"
    assert signed(entries(marked)) == [-2500, -300]
    proved = (
        "Date;Text;Card Member;Amount;Balance;Currency\n2026-01-02;a;1;25.00;75.00;EUR\n2026-01-03;b;1;5.00;80.00;EUR\n"
    )
    assert signed(entries(proved)) == [2500, 500]


TRANSFERS = """\
Created on,Fee amount,Fee currency,Source amount (net),Source currency,Holding Currency Amount,Holding Currency,Rate
2026-01-15,0.50,CHF,99.50,EUR,85.10,GBP,0.855
2026-01-16,0.70,CHF,10.00,USD,8.10,GBP,0.81
"""


def offered(text: str) -> list[tuple[dict[str, Any], str]]:
    refused = refusal(text, {})
    assert refused is not None
    assert refused.question is not None
    return [(alternative.value["columns"], alternative.example) for alternative in refused.question.alternatives]


def test_an_amount_that_is_offered_has_the_currency_of_its_name() -> None:
    """It had the first that there was: 85.10 GBP were 85.10 CHF."""
    found = [(columns["amount"], columns["currency"]) for columns, _ in offered(TRANSFERS)]
    assert found[:3] == [(1, 2), (3, 4), (5, 6)]
    # Also where all are the same in this file: the answer is for the next one as well.
    alike = TRANSFERS.replace("CHF", "EUR").replace("GBP", "EUR").replace("USD", "EUR")
    assert [(columns["amount"], columns["currency"]) for columns, _ in offered(alike)][:3] == found[:3]


def test_of_several_currencies_that_no_name_tells_one_is_chosen() -> None:
    nameless = [(columns["currency"], example) for columns, example in offered(TRANSFERS) if columns["amount"] == 7]
    assert [currency for currency, _ in nameless] == [2, 4, 6]
    assert nameless[1][1].endswith('signed amounts in column 7 "Rate", currencies in column 4 "Source currency"')
    # Those that say the same are no choice.
    one = "\n".join(f"2026-01-1{day};EUR;EUR;x;1.50" for day in (5, 6))
    assert [columns["currency"] for columns, _ in offered(one)] == [1]


def test_a_profile_finds_the_currency_of_an_amount_whose_name_has_more() -> None:
    for name, currencies in (("Source amount (net)", ["EUR", "USD"]), ("Holding Currency Amount", ["GBP"] * 2)):
        profile = {"columns": {"bookingDate": "Created on", "amount": name}}
        assert [entry.currency for entry in entries(TRANSFERS, profile=profile)] == currencies
