"""Pairs of two currencies, and differences that are adjusted: what is taken of each side is whole to the minor unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import AMOUNT_MINOR_MAX, FX_RATE_DIGITS_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.fx_rates import converted, parse_derived_rate, parse_rate
from payrec.domain.matching.columns import ColumnsError
from payrec.domain.matching.engine import Proposals, propose
from payrec.domain.matching.exchange import RATES_SCHEMA
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import AdjustmentType, AmountLevel, Confidence, MatchingRules, Reason, Uniqueness
from payrec.domain.rate_book import FX_DAYS_MAX, RateBook
from support.matching_frames import Item, Line, expected_frame, incoming_frame

REFERENCE = "INV-17017"
DAY = 20_600
ITEM = Item("e", reference=REFERENCE)
LINE = Line("i", text=REFERENCE, currency="USD", amount=10_856)
AUTO = MatchingRules(auto_accept=True, auto_accept_min_confidence="high", fee_tolerance_minor=10**6)

Rate = tuple[int, str, str, str]
USD: Rate = (DAY, "EUR", "USD", "1.08")


def rates_frame(rates: Sequence[Rate]) -> pl.DataFrame:
    rows = []
    for day, base, quote, text in rates:
        rate = parse_rate(text)
        rows.append((day, base, quote, rate.mantissa, rate.places))
    return pl.DataFrame(rows, schema=dict(RATES_SCHEMA), orient="row")


def run(
    items: Sequence[Item], lines: Sequence[Line], rates: Sequence[Rate] = (USD,), rules: MatchingRules = AUTO
) -> Proposals:
    return propose(expected_frame(items), incoming_frame(lines), rules, rates=rates_frame(rates))


def settled(result: Proposals) -> list[tuple[int, int, str]]:
    """Return what each leg settles, and by what and at which rate the rest is."""
    joined = result.legs.join(result.adjustments, on="proposal", suffix="_adjusted")
    return list(joined.select("settled_minor", "amount_minor_adjusted", "rate").iter_rows())


def test_a_line_of_another_currency_settles_the_item_at_the_rate_and_is_never_accepted_at_once() -> None:
    result = run([ITEM], [LINE])
    assert settled(result) == [(10_052, -52, "0.925925925926")]
    [match] = result.matches.iter_rows(named=True)
    assert (match["amount_level"], match["confidence"], match["auto"], match["difference_minor"]) == (
        AmountLevel.CONVERTED, Confidence.MEDIUM, False, 52,
    )  # fmt: skip


@pytest.mark.parametrize("days", [-FX_DAYS_MAX - 1, -FX_DAYS_MAX, 0, FX_DAYS_MAX, FX_DAYS_MAX + 1])
def test_a_rate_is_good_for_some_days(days: int) -> None:
    result = run([ITEM], [LINE], [(DAY + days, "EUR", "USD", "1.08")])
    if abs(days) <= FX_DAYS_MAX:
        assert result.matches.height == 1
    else:
        assert result.open_incoming["reason"].to_list() == [Reason.CURRENCY_MISMATCH]


def test_the_nearest_day_counts_then_the_direct_rate_then_the_base_currency() -> None:
    def rate(*rates: Rate) -> str:
        return str(RateBook(rates_frame(rates).iter_rows(), base_currency="EUR").rate(DAY, "USD", "GBP"))

    through = [(DAY, "EUR", "USD", "1.25"), (DAY, "EUR", "GBP", "0.5")]
    assert rate(*through) == "0.4"
    assert rate(*through, (DAY, "GBP", "USD", "2")) == "0.5"
    assert rate(*through, (DAY, "GBP", "USD", "2"), (DAY, "USD", "GBP", "0.6")) == "0.6"
    assert rate(*through, (DAY - 1, "USD", "GBP", "0.6")) == "0.4"
    assert rate((DAY + 1, "USD", "GBP", "0.7"), (DAY - 1, "USD", "GBP", "0.6")) == "0.6"
    assert rate((DAY + 1, "USD", "GBP", "0.7"), (DAY - 2, "USD", "GBP", "0.6")) == "0.7"
    assert rate((DAY, "CHF", "USD", "1.25"), (DAY, "CHF", "GBP", "0.5")) == "None"
    # Either way of a rate through the base currency counts by its own day, and the whole by that which is farther away.
    dollars = (DAY, "EUR", "USD", "1.25")
    assert rate(dollars, (DAY - 2, "EUR", "GBP", "0.9"), (DAY, "GBP", "EUR", "2")) == "0.4"
    assert rate(dollars, (DAY - 2, "EUR", "GBP", "0.5"), (DAY - 1, "USD", "GBP", "0.6")) == "0.6"


def test_whatever_the_base_currency_a_rate_may_go_through_the_euro_at_last() -> None:
    def rate(*rates: Rate) -> str:
        return str(RateBook(rates_frame(rates).iter_rows(), base_currency="CHF").rate(DAY, "USD", "GBP"))

    euros = [(DAY, "EUR", "USD", "1.25"), (DAY, "EUR", "GBP", "0.5")]
    assert rate(*euros) == "0.4"
    assert rate(*euros, (DAY, "CHF", "USD", "1.25"), (DAY, "CHF", "GBP", "0.75")) == "0.6"
    assert rate(*euros, (DAY - 1, "CHF", "USD", "1.25"), (DAY - 1, "CHF", "GBP", "0.75")) == "0.4"
    of_the_pair = RateBook(rates_frame(euros).iter_rows(), base_currency="USD")
    assert str(of_the_pair.rate(DAY, "USD", "GBP")) == "0.4"


@pytest.mark.parametrize(
    ("basis_points", "amount", "proposed"),
    [(100, 10_908, True), (100, 10_910, False), (100, 10_692, True), (100, 10_690, False), (0, 10_800, True),
     (0, 10_802, False), (0, 10_798, False)],
)  # fmt: skip
def test_the_tolerance_bounds_what_is_proposed(basis_points: int, amount: int, *, proposed: bool) -> None:
    rules = MatchingRules(fx_tolerance_basis_points=basis_points)
    result = run([ITEM], [replace(LINE, amount=amount)], rules=rules)
    assert result.matches.height == proposed
    if not proposed:
        assert result.open_incoming["reason"].to_list() == [Reason.AMOUNT_MISMATCH]


NAMED = replace(ITEM, reference=None, name="Alpha", iban="DE1")
BY_NAME = replace(LINE, text=None, name="Alpha")


def test_the_counterparty_names_an_item_whatever_the_line_quotes() -> None:
    assert run([NAMED], [BY_NAME]).matches.height == 1
    assert run([NAMED], [replace(BY_NAME, name=None, iban="DE1")]).matches.height == 1
    assert run([NAMED], [replace(BY_NAME, text="INV-99999")]).matches.height == 1
    assert run([NAMED], [replace(BY_NAME, name="Beta")]).matches.height == 0
    assert run([NAMED], [replace(BY_NAME, iban="DE2")]).matches.height == 0
    assert run([NAMED], [replace(BY_NAME, direction=-1)]).matches.height == 0
    assert run([NAMED], [replace(BY_NAME, reversal=True)]).matches.height == 0
    assert run([NAMED], [BY_NAME], rules=MatchingRules(required=Required.REFERENCE)).matches.height == 0
    second = replace(NAMED, id="f", amount=10_050, tie="f")
    assert run([NAMED, second], [BY_NAME]).matches.height == 0


def test_of_a_payer_alone_the_days_are_about_the_same() -> None:
    for days, near in ((0, True), (12, True), (15, False), (60, False)):
        assert run([replace(ITEM, due=DAY - days)], [LINE]).matches.height == 1
        assert run([replace(NAMED, due=DAY - days)], [BY_NAME]).matches.height == near


def test_what_is_quoted_in_part_is_meant_unless_somebody_else_pays() -> None:
    short, line = replace(ITEM, reference="4711", name="Alpha", iban="DE1", due=DAY - 20), replace(LINE, text="4711")
    assert run([short], [line]).matches.height == 1
    assert run([short], [replace(line, name="Alpha")]).matches.height == 1
    assert run([short], [replace(line, name="Beta")]).matches.height == 0
    assert run([short], [replace(line, iban="DE2")]).matches.height == 0
    # Who quotes it in full may pay for another.
    assert run([replace(short, reference=REFERENCE)], [replace(LINE, name="Beta")]).matches.height == 1


def test_a_debit_pays_a_debit_alone() -> None:
    owed = replace(ITEM, direction=-1)
    assert run([owed], [replace(LINE, direction=-1)]).matches.height == 1
    assert run([owed], [LINE]).matches.height == 0
    assert run([replace(NAMED, direction=-1)], [replace(BY_NAME, direction=-1)]).matches.height == 1


def test_a_rate_goes_through_the_base_currency_of_the_tenant() -> None:
    francs = [(DAY, "CHF", "USD", "1.25"), (DAY, "CHF", "EUR", "1.00")]
    line = replace(LINE, amount=12_500)
    assert run([ITEM], [line], francs).matches.height == 0
    assert settled(run([ITEM], [line], francs, replace(AUTO, base_currency="CHF"))) == [(10_000, 0, "0.8")]


def test_an_item_of_the_line_s_own_currency_comes_first() -> None:
    own = replace(ITEM, id="own", currency="USD", amount=10_856)
    result = run([ITEM, own], [LINE])
    assert result.legs["expected"].to_list() == [1]
    assert result.adjustments.is_empty()


def test_several_parts_of_an_item_leave_its_rest_open() -> None:
    most, little = replace(LINE, currency="EUR", amount=9_800), replace(LINE, id="j", currency="EUR", amount=100)
    assert run([ITEM], [most]).adjustments["amount_minor"].to_list() == [200]
    result = run([ITEM], [most, little], rules=MatchingRules())
    assert (result.legs.height, result.adjustments.height) == (2, 0)
    tolerated = run([ITEM], [most, little])
    assert (tolerated.legs.height, tolerated.adjustments.height, tolerated.matches["auto"].any()) == (1, 1, False)


def test_half_a_unit_is_rounded_up() -> None:
    rates = [(DAY, "JPY", "EUR", "0.005")]
    assert settled(run([replace(ITEM, amount=51)], [replace(LINE, currency="JPY", amount=101)], rates)) == [
        (51, 0, "0.005")
    ]


def test_what_no_amount_can_be_is_refused_and_not_wrapped() -> None:
    great, small = "9" * FX_RATE_DIGITS_MAX, "0.000000000001"
    most = replace(LINE, amount=2**63 - 1)
    assert run([ITEM], [most], [(DAY, "USD", "EUR", great)]).matches.height == 0
    finest, coarsest = replace(ITEM, currency="CLF"), replace(most, currency="JPY")
    assert run([finest], [coarsest], [(DAY, "JPY", "CLF", great)]).matches.height == 0
    assert run([replace(ITEM, amount=1)], [replace(LINE, amount=1)], [(DAY, "USD", "EUR", small)]).matches.height == 0


@pytest.mark.parametrize(
    ("column", "value"), [("mantissa", 0), ("mantissa", 10**FX_RATE_DIGITS_MAX), ("mantissa", None), ("places", 99)]
)
def test_a_rate_that_could_not_be_stored_is_refused(column: str, value: int | None) -> None:
    rates = rates_frame([USD]).with_columns(pl.lit(value, dtype=RATES_SCHEMA[column]).alias(column))
    with pytest.raises(ColumnsError) as refused:
        propose(expected_frame([ITEM]), incoming_frame([LINE]), AUTO, rates=rates)
    assert refused.value.column == column


CURRENCIES = st.sampled_from(["EUR", "USD", "JPY", "KWD"])
PER_EUR = {"EUR": "1", "USD": "1.08", "JPY": "163.2", "KWD": "0.335"}
RATES = [(DAY, "EUR", currency, text) for currency, text in PER_EUR.items() if currency != "EUR"]


@dataclass(frozen=True)
class Pair:
    item: Item
    line: Line


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Make an item and a line that quotes it, of amounts that are about the same."""
    number = draw(st.integers(0, 3))
    asked_in, paid_in = draw(CURRENCIES), draw(CURRENCIES)
    asked = draw(st.integers(1, 20_000) | st.integers(1, AMOUNT_MINOR_MAX // 10**6))
    share = Fraction(draw(st.integers(700, 1_300) | st.integers(990, 1_010)), 1_000)
    units = Fraction(asked, 10 ** MINOR_UNITS[asked_in]) / Fraction(PER_EUR[asked_in]) * Fraction(PER_EUR[paid_in])
    paid = max(round(units * 10 ** MINOR_UNITS[paid_in] * share), 1)
    limits = draw(st.sampled_from([(None, None), (asked // 2 or None, None), (None, asked * 2)]))
    name = draw(st.sampled_from([None, "Alpha"]))
    reference = f"INV-1701{number}"
    return Pair(
        Item("", amount=asked, currency=asked_in, reference=reference, name=name, band=limits),
        Line("", amount=paid, currency=paid_in, text=draw(st.sampled_from([reference, None])), name=name),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(pairs(), min_size=1, max_size=6), st.integers(0, 3_000), st.integers(0, 2_000))
def test_what_is_taken_of_each_side_balances_to_the_minor_unit(made: list[Pair], tolerance: int, points: int) -> None:
    items = [replace(pair.item, id=f"e{at}", tie=f"e{at}") for at, pair in enumerate(made)]
    lines = [replace(pair.line, id=f"i{at}", tie=f"i{at}") for at, pair in enumerate(made)]
    rules = replace(AUTO, amount_tolerance_minor=tolerance, fx_tolerance_basis_points=points)
    result = run(items, lines, RATES, rules)

    adjusted: dict[int, list[dict[str, Any]]] = {}
    for row in result.adjustments.iter_rows(named=True):
        adjusted.setdefault(row["proposal"], []).append(row)
    taken: Counter[tuple[str, int]] = Counter()
    for leg in result.legs.iter_rows(named=True):
        item, line = items[leg["expected"]], lines[leg["incoming"]]
        own = adjusted.get(leg["proposal"], [])
        assert leg["amount_minor"] > 0
        assert leg["settled_minor"] > 0
        if item.currency == line.currency:
            assert leg["amount_minor"] == leg["settled_minor"]
            assert all(row["amount_minor"] > 0 and row["rate"] is None for row in own)
        else:
            [fx] = own
            rate = parse_derived_rate(fx["rate"])
            assert fx["type"] == AdjustmentType.FX
            assert leg["settled_minor"] == converted(leg["amount_minor"], line.currency, rate, item.currency)
            assert abs(fx["amount_minor"]) <= -(-item.amount * points // 10_000)
        taken["e", leg["expected"]] += leg["settled_minor"]
        taken["i", leg["incoming"]] += leg["amount_minor"]
        for row in own:
            side = "e" if row["expected"] is not None else "i"
            taken[side, leg["expected" if side == "e" else "incoming"]] += row["amount_minor"]
        if own:
            # Whoever adjusts a difference leaves nothing open.
            assert taken["e", leg["expected"]] == item.amount
            assert taken["i", leg["incoming"]] == line.amount
    for (side, place), minor in taken.items():
        assert 0 < minor <= (items if side == "e" else lines)[place].amount
    crossing = result.matches.filter(pl.col("amount_level") == AmountLevel.CONVERTED.value)
    assert not crossing["auto"].any()


@settings(max_examples=20, deadline=None)
@given(st.lists(pairs(), min_size=2, max_size=6))
def test_the_order_of_rows_and_rates_changes_nothing(made: list[Pair]) -> None:
    items = [replace(pair.item, id=f"e{at}", tie=f"e{at}") for at, pair in enumerate(made)]
    lines = [replace(pair.line, id=f"i{at}", tie=f"i{at}") for at, pair in enumerate(made)]

    def told(items: list[Item], lines: list[Line], rates: list[Rate]) -> list[object]:
        result = run(items, lines, rates)
        names = {None: None} | dict(enumerate(items)), {None: None} | dict(enumerate(lines))
        adjustments = [
            (row["type"], names[0][row["expected"]], names[1][row["incoming"]], row["amount_minor"], row["rate"])
            for row in result.adjustments.iter_rows(named=True)
        ]
        legs = [(items[leg["expected"]].id, leg["settled_minor"]) for leg in result.legs.iter_rows(named=True)]
        return [*adjustments, *legs]

    assert told(items, lines, RATES) == told(items[::-1], lines[::-1], RATES[::-1])


def test_an_item_that_is_quoted_abroad_is_not_given_to_a_line_that_only_has_its_amount() -> None:
    payer: dict[str, Any] = {"name": "Bolt", "iban": "DE1"}
    items = [Item("e", reference=REFERENCE, **payer), Item("f", reference="INV-18018", **payer)]
    lines = [LINE, Line("n", amount=ITEM.amount, **payer)]
    result = run(items, lines)
    assert sorted(result.legs.select("expected", "incoming").iter_rows()) == [(0, 0), (1, 1)]
    # Without a rate nobody can tell, and two of one amount are as good.
    assert run(items, lines, rates=()).matches["status"].to_list() == [Uniqueness.AMBIGUOUS]
    # What a line of its own currency quotes as well is that one's.
    own = run(items, [*lines, Line("o", text=REFERENCE, amount=ITEM.amount)])
    assert (0, 2) in own.legs.select("expected", "incoming").rows()


def test_what_is_quoted_abroad_for_another_amount_is_nobodys() -> None:
    result = run([ITEM, Item("f", name="Bolt")], [replace(LINE, amount=90_000), Line("n", name="Bolt")])
    assert result.legs.select("expected", "incoming").rows() == [(1, 1)]
