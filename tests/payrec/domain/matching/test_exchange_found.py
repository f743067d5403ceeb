"""Pairs of two currencies by themselves: what is converted, what is near enough, and what is claimed abroad."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from payrec.domain.fx_rates import parse_rate
from payrec.domain.matching.block import candidates
from payrec.domain.matching.compete import Taken
from payrec.domain.matching.exchange import RATES_SCHEMA, claimed, exchanged
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.reasons import FINDING_SCHEMA
from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    CLOSE_EARLY_DAYS,
    KEY_ITEMS_MAX,
    AmountLevel,
    MatchingRules,
    Reason,
)
from payrec.domain.matching.score import scored
from support.matching_frames import DAY, DUE_IN_TIME, Item, Line
from support.scored_pairs import Ends, NamedSides

Rate = tuple[int, str, str, str]

RULES = MatchingRules(fx_tolerance_basis_points=100)
EVEN: Rate = (DAY, "USD", "EUR", "1")
ITEM, LINE = Item("e", reference="INV-10001"), Line("i", currency="USD", text="INV-10001")
NAMED, BY_NAME = Item("e", name="Alpha", iban="DE1"), Line("i", currency="USD", name="Alpha")
AMOUNT, DATES, AGAIN = Reason.AMOUNT_MISMATCH, Reason.DATE_OUT_OF_WINDOW, Reason.AMBIGUOUS


def rates_of(rates: Iterable[Rate]) -> pl.DataFrame:
    rows = [(day, base, quote, parse_rate(text).mantissa, parse_rate(text).places) for day, base, quote, text in rates]
    return pl.DataFrame(rows, schema=dict(RATES_SCHEMA), orient="row")


class Look(NamedSides):
    """Both sides, what is exchanged of them, and what is claimed before anything is proposed."""

    def __init__(
        self,
        items: Sequence[Item],
        lines: Sequence[Line],
        rules: MatchingRules = RULES,
        *,
        rates: Sequence[Rate] = (EVEN,),
        rejected: Iterable[Ends] = (),
        busy: tuple[Sequence[str], Sequence[str]] = ((), ()),
    ) -> None:
        super().__init__(items, lines, rules)
        refused = self.refused(rejected)
        places = [
            pl.Series([names.index(name) for name in taken], dtype=pl.UInt32)
            for names, taken in zip((self.items, self.lines), busy, strict=True)
        ]
        found = candidates(self.sides, rules)
        frame = rates_of(rates)
        self.pairs, findings = exchanged(self.sides, Taken(*places), frame, found, refused, rules)
        assert findings.schema == FINDING_SCHEMA
        self.findings = {
            ends: (Reason(row["reason"]), row["fits"], row["difference_minor"])
            for ends, row in zip(self.ends(findings), findings.to_dicts(), strict=True)
        }
        of_one = scored(found.pairs, self.sides, rules)
        taken = claimed(self.sides, of_one, frame, refused, rules)
        assert {rows.dtype for rows in (taken.items, taken.lines)} == {pl.UInt32()}
        self.claimed = sorted(self.items[e] for e in taken.items), sorted(self.lines[i] for i in taken.lines)

    @property
    def chosen(self) -> list[Ends]:
        return self.ends(self.pairs.filter("chosen"))

    @property
    def settled(self) -> list[tuple[int, int, int, str]]:
        """Return what each pair takes of the line and settles of the item, the difference, and the rate."""
        return self.pairs.select("leg_minor", "settled_minor", "difference_minor", "rate").rows()


NOTHING: tuple[list[str], list[str]] = ([], [])
BOTH = (["e"], ["i"])


def test_a_line_settles_its_amount_in_the_currency_of_the_item() -> None:
    look = Look([ITEM], [replace(LINE, amount=20_100)], rates=[(DAY, "USD", "EUR", "0.5")])
    assert (look.chosen, look.settled) == ([("e", "i")], [(20_100, 10_050, 50, "0.5")])
    row = look.pairs.row(0, named=True)
    assert (row["amount_level"], row["equal"], row["auto"]) == (AmountLevel.CONVERTED, False, False)
    assert (look.findings, look.claimed) == ({}, BOTH)


@pytest.mark.parametrize(
    ("asked", "paid", "rate", "settled"),
    [
        (("EUR", 5_000), ("JPY", 10_000), "0.005", 5_000),  # of no minor unit
        (("JPY", 10_000), ("EUR", 5_000), "200", 10_000),
        (("KWD", 1_000), ("EUR", 300), "0.3333", 1_000),  # 999.9, rounded
        (("EUR", 300), ("KWD", 1_000), "2.996", 300),  # 299.6
        (("JPY", 10_000), ("KWD", 3_333), "3000", 9_999),
        (("KWD", 3_333), ("JPY", 10_000), "0.000333349", 3_333),  # 3,333.49
        (("EUR", 10_000), ("USD", 10_001), "0.99995", 10_000),  # 10,000.49995
        (("EUR", 10_001), ("USD", 10_000), "1.00005", 10_001),  # 10,000.5
        (("EUR", 10_000), ("USD", 10_000), "1.000049", 10_000),  # 10,000.49
    ],
)
def test_minor_units_are_those_of_each_currency_and_half_a_one_is_rounded_up(
    asked: tuple[str, int], paid: tuple[str, int], rate: str, settled: int
) -> None:
    item, line = (
        replace(side, currency=currency, amount=amount) for side, (currency, amount) in ((ITEM, asked), (LINE, paid))
    )
    look = Look([item], [line], rates=[(DAY, paid[0], asked[0], rate)])  # type: ignore[list-item]
    assert look.settled == [(paid[1], settled, settled - asked[1], rate)]


@pytest.mark.parametrize(
    ("asked", "points", "most"),
    [(10_000, 100, 100), (10_050, 100, 101), (10_001, 100, 101), (9_999, 100, 100), (100, 100, 1), (10_000, 0, 0)],
)
def test_what_a_converted_amount_may_differ_is_rounded_up(asked: int, points: int, most: int) -> None:
    rules = MatchingRules(fx_tolerance_basis_points=points)
    for difference, near in ((most, True), (-most, True), (most + 1, False), (-most - 1, False)):
        look = Look([replace(ITEM, amount=asked)], [replace(LINE, amount=max(asked + difference, 1))], rules)
        assert len(look.chosen) == near
        assert look.findings == ({} if near else {("e", "i"): (AMOUNT, False, max(difference, 1 - asked))})
        assert look.claimed == (BOTH if near else NOTHING)


@pytest.mark.parametrize(("due", "timely"), DUE_IN_TIME)
def test_what_is_quoted_is_within_the_window(*, due: int | None, timely: bool) -> None:
    look = Look([replace(ITEM, due=due)], [LINE])
    assert len(look.chosen) == timely
    assert look.findings == ({} if timely else {("e", "i"): (DATES, False, 0)})
    assert look.claimed == (BOTH if timely else NOTHING)


@pytest.mark.parametrize(
    ("due", "near"),
    [(DAY - CLOSE_DAYS, True), (DAY - CLOSE_DAYS - 1, False), (DAY + CLOSE_EARLY_DAYS, True),
     (DAY + CLOSE_EARLY_DAYS + 1, False), (None, False)],
)  # fmt: skip
def test_of_a_payer_alone_the_days_are_near_and_nothing_else_is_a_neighbour(due: int | None, *, near: bool) -> None:
    look = Look([replace(NAMED, due=due)], [BY_NAME])
    assert (len(look.chosen), look.findings, look.claimed) == (near, {}, NOTHING)
    assert Look([NAMED], [replace(BY_NAME, amount=10_101)]).findings == {}


@pytest.mark.parametrize(
    ("changes", "near"),
    [
        ({}, True),
        ({"name": None, "iban": "DE1"}, True),
        ({"name": "ALPHA GMBH"}, True),
        ({"name": None}, False),
        ({"iban": "DE2"}, False),
        ({"name": "Omega", "iban": "DE1"}, False),
        ({"name": "Omega", "iban": "DE9", "ultimate": "Alpha"}, True),
    ],
)
def test_who_pays_is_the_item_s_counterparty(changes: dict[str, Any], *, near: bool) -> None:
    assert len(Look([NAMED], [replace(BY_NAME, **changes)]).chosen) == near


def test_whose_name_is_alike_may_be_meant() -> None:
    named = replace(NAMED, name="Hartmann Maschinenbau", iban=None)
    assert Look([named], [replace(BY_NAME, name="HARTMAN MASCHINENBAU")]).chosen == [("e", "i")]
    # Beside a reference of too many items nobody is meant.
    crowd = [replace(ITEM, id=f"c{at:02}", amount=20_000 + at) for at in range(KEY_ITEMS_MAX + 1)]
    assert not Look([replace(ITEM, id="silent", reference=None), *crowd], [LINE]).chosen


def test_money_out_is_exchanged_as_money_in_is() -> None:
    out = Look([replace(ITEM, direction=-1)], [replace(LINE, direction=-1)])
    assert (out.chosen, out.claimed) == ([("e", "i")], BOTH)
    assert Look([replace(NAMED, direction=-1)], [replace(BY_NAME, direction=-1)]).chosen == [("e", "i")]
    assert not Look([replace(NAMED, direction=-1)], [BY_NAME]).chosen


def test_a_rate_goes_through_the_base_currency() -> None:
    francs = [(DAY, "CHF", "USD", "1.25"), (DAY, "CHF", "EUR", "1")]
    line = replace(LINE, amount=12_500)
    look = Look([ITEM], [line], replace(RULES, base_currency="CHF"), rates=francs)
    assert (look.settled, look.claimed) == ([(12_500, 10_000, 0, "0.8")], BOTH)
    assert Look([ITEM], [line], rates=francs).claimed == NOTHING


def test_of_several_that_are_near_by_chance_none_is_meant() -> None:
    two = [NAMED, replace(NAMED, id="f", amount=10_050)]
    assert not Look(two, [BY_NAME]).chosen
    assert not Look([NAMED], [BY_NAME, replace(BY_NAME, id="j", amount=10_050)]).chosen
    apart = [NAMED, replace(NAMED, id="f", amount=30_000)]
    assert Look(apart, [BY_NAME, replace(BY_NAME, id="j", amount=30_001)]).chosen == [("e", "i"), ("f", "j")]
    # What is quoted is meant, and not what is near beside it.
    quoted = replace(two[1], reference="INV-10001")
    assert Look([NAMED, quoted], [replace(BY_NAME, text="INV-10001")]).chosen == [("f", "i")]


def test_of_several_lines_that_quote_an_item_one_is_proposed_and_the_others_are_told() -> None:
    lines = [LINE, replace(LINE, id="j", day=DAY + 1)]
    look = Look([ITEM], lines)
    assert (look.chosen, look.claimed) == ([("e", "i")], (["e"], ["i", "j"]))
    assert look.findings == {("e", "j"): (AGAIN, True, 0)}
    # Nothing more of the item is a part.
    look = Look([ITEM], [*lines, replace(LINE, id="less", amount=9_000)])
    assert look.findings["e", "less"] == (AMOUNT, False, -1_000)


def test_a_counterparty_of_too_many_items_is_not_looked_at() -> None:
    def near(count: int) -> list[Ends]:
        items = [replace(NAMED, id=f"e{at}", amount=10_000 + 1_000 * at) for at in range(count)]
        return Look(items, [BY_NAME]).chosen

    assert near(KEY_ITEMS_MAX) == [("e0", "i")]
    assert near(KEY_ITEMS_MAX + 1) == []


@pytest.mark.parametrize("busy", [(["e"], []), ([], ["i"])])
def test_what_is_busy_is_not_exchanged(busy: tuple[list[str], list[str]]) -> None:
    others = [replace(ITEM, id="f", reference="INV-20000")], [replace(LINE, id="j", text="INV-20000")]
    look = Look([ITEM, *others[0]], [LINE, *others[1]], busy=busy)
    assert (look.chosen, look.findings) == ([("f", "j")], {})


def test_a_rejected_pair_is_neither_exchanged_nor_claimed() -> None:
    others = [replace(ITEM, id="f", reference="INV-20000")], [replace(LINE, id="j", text="INV-20000")]
    look = Look([ITEM, *others[0]], [LINE, *others[1]], rejected=[("e", "i")])
    assert (look.chosen, look.findings, look.claimed) == ([("f", "j")], {}, (["f"], ["j"]))


@pytest.mark.parametrize(
    ("line", "rates"),
    [
        ({}, []),
        ({}, [(DAY, "GBP", "EUR", "1")]),
        ({"currency": "EUR"}, [EVEN]),
        ({"day": None}, [EVEN]),
        ({"direction": -1}, [EVEN]),
        ({"reversal": True}, [EVEN]),
        ({"text": "INV-99999"}, [EVEN]),
    ],
)
def test_what_is_not_exchanged(line: dict[str, Any], rates: list[Rate]) -> None:
    look = Look([ITEM], [replace(LINE, **line)], rates=rates)
    assert (look.chosen, look.findings, look.claimed) == ([], {}, NOTHING)
    # And it says so in the columns of what is.
    assert dict(look.pairs.schema) == dict(Look([ITEM], [LINE]).pairs.schema)


def test_each_pair_has_the_rate_of_its_own_day_and_currencies() -> None:
    items = [ITEM, replace(ITEM, id="f", reference="INV-20000"), replace(ITEM, id="g", reference="INV-30000")]
    lines = [
        LINE,
        replace(LINE, id="j", text="INV-20000", amount=12_500, day=DAY + 9),
        replace(LINE, id="k", text="INV-30000", amount=5_000, currency="GBP"),
    ]
    rates = [EVEN, (DAY + 9, "USD", "EUR", "0.8"), (DAY, "GBP", "EUR", "2"), (DAY, "GBP", "USD", "7")]
    look = Look(items, lines, rates=rates)
    settled = {ends: row[1::2] for ends, row in zip(look.ends(look.pairs), look.settled, strict=True)}
    assert settled == {("e", "i"): (10_000, "1"), ("f", "j"): (10_000, "0.8"), ("g", "k"): (10_000, "2")}
    assert look.pairs["e"].to_list() == sorted(look.pairs["e"])


def test_what_is_quoted_by_a_few_characters_is_exchanged_and_claims_nothing() -> None:
    look = Look([replace(ITEM, reference="4711")], [replace(LINE, text="4711")])
    assert (look.chosen, look.claimed) == ([("e", "i")], NOTHING)
    look = Look([replace(ITEM, reference="4711")], [replace(LINE, text="4711", amount=1)])
    assert look.findings == {("e", "i"): (AMOUNT, False, -9_999)}


def test_of_whom_is_quoted_in_its_own_currency_nothing_is_claimed() -> None:
    own_line = replace(LINE, id="own", currency="EUR", amount=7)
    assert Look([ITEM], [LINE, own_line]).claimed == NOTHING
    own_item = replace(ITEM, id="own", currency="USD", amount=7)
    assert Look([ITEM, own_item], [LINE]).claimed == NOTHING
    assert Look([ITEM], [LINE, replace(own_line, text="INV-77777")]).claimed == BOTH


@pytest.mark.parametrize(
    ("required", "quoted", "named"),
    [
        (Required.NOTHING, 1, 1),
        (Required.REFERENCE, 1, 0),
        (Required.COUNTERPARTY_NAME, 0, 1),
        (Required.END_TO_END_ID, 0, 0),
    ],
)
def test_what_is_required_of_a_line_is_required_abroad(required: Required, quoted: int, named: int) -> None:
    rules = replace(RULES, required=required)
    look = Look([ITEM], [LINE], rules)
    assert (len(look.chosen), look.claimed) == (quoted, BOTH if quoted else NOTHING)
    assert len(Look([NAMED], [BY_NAME], rules).chosen) == named
