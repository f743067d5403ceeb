"""Whose items a line may settle when nobody names any: which party, what is kept of it, and how closely it is seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.domain.matching import blind_parties
from payrec.domain.matching.blind_parties import ROUND, Tier, coincidences_ppm, outside, parties, roundness, sets
from payrec.domain.matching.block import BeyondBudgetError, of_part
from payrec.domain.matching.compete import Taken
from payrec.domain.matching.line_rules import Bounds, LineRule, Scope
from payrec.domain.matching.rules import (
    BLIND_ITEMS_MAX,
    BLIND_LINES_MAX,
    BLIND_PARTIES_MAX,
    BLIND_SEARCH_ITEMS_MAX,
    MatchingRules,
)
from support.matching_frames import DAY, Item, Line
from support.scored_pairs import RULES, NamedSides

IBAN = "DE89370400440532013000"
OTHER = "DE02120300000000202051"


class Look(NamedSides):
    """The parties of both sides; a party is told by the names of its items, in due order."""

    def __init__(
        self, items: Sequence[Item], lines: Sequence[Line], rules: MatchingRules = RULES, busy: Iterable[str] = ()
    ) -> None:
        super().__init__(items, lines, rules)
        taken = [
            pl.Series([at for at, name in enumerate(side) if name in set(busy)], dtype=pl.UInt32)
            for side in (self.items, self.lines)
        ]
        self.found = parties(self.sides, Taken(*taken), rules)
        self.over = set() if self.found.over.is_empty() else set(self.ends(self.found.over))

    def named(self) -> dict[int, str]:
        """Return the items of each party that a line speaks for."""
        if self.found.members.is_empty():
            return {}
        rows = self.found.members.group_by("party", maintain_order=True).agg("e").iter_rows()
        return {party: " ".join(self.items[e] for e in members) for party, members in rows}

    def spoken(self) -> dict[str, list[str]]:
        """Return which parties each line speaks for."""
        named, told = self.named(), dict[str, list[str]]()
        for i, party in () if self.found.lines.is_empty() else self.found.lines.select("i", "party").iter_rows():
            told.setdefault(self.lines[i], []).append(named[party])
        return {line: sorted(its) for line, its in told.items()}

    def rows(self) -> list[dict[str, object]]:
        """Return the members in their order, by name."""
        return [{**row, "e": self.items[row["e"]]} for row in self.found.members.to_dicts()]


def of(*amounts: int, iban: str | None = IBAN, name: str | None = "Ada Ltd", prefix: str = "e") -> list[Item]:
    """Make items of one counterparty, one due a day after the other."""
    return [
        Item(f"{prefix}{at}", amount=amount, iban=iban, name=name, due=DAY + at) for at, amount in enumerate(amounts)
    ]


def accounts(count: int) -> list[Item]:
    """Make items of one name, each of an account of its own."""
    return [Item(f"a{at}", amount=900 + at, iban=f"DE{at}", name="Ada Ltd", due=DAY + at) for at in range(count)]


BY_ACCOUNT, BY_NAME = Line("x", amount=2_000, iban=IBAN), Line("x", amount=2_000, name="ADA LTD")
BOTH = replace(BY_ACCOUNT, name="Ada Ltd")
SILENT = Item("s", amount=700, name="Ada Ltd", due=DAY + 99)

SPOKEN = {
    "the account": (of(700, 800), BY_ACCOUNT, ["e0 e1"]),
    "another account": (of(700, 800), replace(BY_ACCOUNT, iban=OTHER), []),
    "the account, whatever the name": (of(700, 800), replace(BY_ACCOUNT, name="Bolt"), ["e0 e1"]),
    "the account, and not another of the name": (
        [*of(700, 800), *of(701, 801, iban=OTHER, prefix="o")],
        BOTH,
        ["e0 e1"],
    ),
    "a name, where the account is nobody's": (of(700, 800), replace(BOTH, iban=OTHER), ["e0 e1"]),
    "a name": (of(700, 800), BY_NAME, ["e0 e1"]),
    "a name of no account": (of(700, 800, iban=None), BY_NAME, ["e0 e1"]),
    "an account, where the items have none": (of(700, 800, iban=None), BY_ACCOUNT, []),
    "an account of items without a name": (of(700, 800, name=None), BY_ACCOUNT, ["e0 e1"]),
    "a name of items without one": (of(700, 800, name=None), BY_NAME, []),
    "the account, and who is told by its name alone": ([*of(700, 800), SILENT], BY_ACCOUNT, ["e0 e1 s"]),
    "a name, one item of it without the account": ([*of(700, 800), SILENT], BY_NAME, ["e0 e1 s"]),
    "a name of two accounts": ([*accounts(2), SILENT], BY_NAME, ["a0 s", "a1 s"]),
    "an account of two of the name": ([*accounts(2), SILENT], replace(BOTH, iban="DE1"), ["a1 s"]),
    "a name of as many accounts as may be": (
        [*accounts(BLIND_PARTIES_MAX), SILENT],
        BY_NAME,
        [f"a{at} s" for at in range(BLIND_PARTIES_MAX)],
    ),
    "a name of one account too many": ([*accounts(BLIND_PARTIES_MAX + 1), SILENT], BY_NAME, []),
    "an account of one too many of the name": (
        [*accounts(BLIND_PARTIES_MAX + 1), SILENT, replace(SILENT, id="t", iban="DE1")],
        replace(BOTH, iban="DE1"),
        ["a1 t"],
    ),
    "a name that is nearly the items'": (
        of(700, 800, name="Hartmann Maschinenbau GmbH"),
        replace(BY_NAME, name="HARTMAN MASCHINENBAU"),
        ["e0 e1"],
    ),
    "nothing": (of(700, 800), Line("x", amount=2_000), []),
    "nothing, as the items": (of(700, 800, iban=None, name=None), Line("x", amount=2_000), []),
    "another currency": (of(700, 800), replace(BOTH, currency="USD"), []),
    "another direction": (of(700, 800), replace(BOTH, direction=-1), []),
}


@pytest.mark.parametrize(("items", "line", "spoken"), SPOKEN.values(), ids=SPOKEN)
def test_whom_a_line_speaks_for(items: list[Item], line: Line, spoken: list[str]) -> None:
    assert Look(items, [line]).spoken().get("x", []) == spoken


def test_what_something_has_is_nobodys() -> None:
    items, lines = of(700, 800, 900), [BY_ACCOUNT, replace(BY_ACCOUNT, id="y", day=DAY + 1)]
    assert Look(items, lines).spoken() == {"x": ["e0 e1 e2"], "y": ["e0 e1 e2"]}
    assert Look(items, lines, busy=["e1", "x"]).spoken() == {"y": ["e0 e2"]}
    assert Look(items, lines, busy=["x", "y"]).spoken() == {}


@pytest.mark.parametrize(
    ("amounts", "target", "is_possible"),
    [
        pytest.param((10, 30), 15, True, id="half"),
        pytest.param((10, 30), 16, False, id="more than half"),
        pytest.param((10, 31), 16, True, id="half, rounded up"),
        pytest.param((10, 31), 17, False, id="more than half, rounded up"),
        pytest.param((10, 30), 19, False, id="less than the least twice"),
        pytest.param((10, 30), 20, True, id="the least twice"),
        pytest.param((11, 30), 21, False, id="less than the least twice by one"),
        pytest.param((30,), 15, True, id="half of one"),
        pytest.param((30,), 16, False, id="more than half of one"),
        pytest.param((30,), 60, False, id="twice one"),
        pytest.param((30, 31), 10**9, True, id="more than all"),
    ],
)
def test_only_what_may_be_a_sum_or_a_part_is_looked_at(
    amounts: tuple[int, ...], target: int, *, is_possible: bool
) -> None:
    look = Look(of(*amounts), [replace(BY_ACCOUNT, amount=target)])
    assert bool(look.spoken()) == is_possible
    # Where one line is looked at, the other is none the more.
    both = Look(of(*amounts), [replace(BY_ACCOUNT, amount=target), replace(BY_ACCOUNT, id="y", amount=1)])
    assert set(both.spoken()) == {"y", *(["x"] if is_possible else [])}


def test_of_each_party_its_own_amounts_count() -> None:
    items = [*of(10, 30), *of(1_000, 3_000, iban=OTHER, name="Bolt", prefix="o")]
    lines = [Line("x", amount=1_400, iban=OTHER), Line("y", amount=1_600, iban=OTHER), Line("z", amount=16, iban=IBAN)]
    assert Look(items, lines).spoken() == {"x": ["o0 o1"]}


@pytest.mark.parametrize("side", ["item", "line"])
def test_amounts_whose_sums_might_wrap_are_left_out(side: str) -> None:
    for amount, is_there in ((AMOUNT_MINOR_MAX, True), (AMOUNT_MINOR_MAX + 1, False)):
        items = of(700, amount) if side == "item" else of(700, 800)
        line = replace(BY_ACCOUNT, amount=2_000 if side == "item" else amount)
        spoken = Look(items, [line]).spoken()
        assert (
            spoken.get("x", [])
            == {
                ("item", True): ["e0 e1"],
                ("item", False): [],
                ("line", True): ["e0 e1"],
                ("line", False): [],
            }[side, is_there]
        )


DUES = {
    "the due day": (DAY + 7, (DAY - 4, DAY + 9), DAY + 7, DAY - 4, DAY + 9),
    "the due day alone": (DAY + 7, (None, None), DAY + 7, DAY + 7, DAY + 7),
    "a span": (None, (DAY - 4, DAY + 9), DAY - 4, DAY - 4, DAY + 9),
    "a first day": (None, (DAY - 4, None), DAY - 4, DAY - 4, 2**40),
    "a last day": (None, (None, DAY + 9), DAY + 9, -(2**40), DAY + 9),
    "no day": (None, (None, None), None, -(2**40), 2**40),
}


@pytest.mark.parametrize(("due", "span", "at", "opens", "closes"), DUES.values(), ids=DUES)
def test_the_days_of_an_item(
    due: int | None, span: tuple[int | None, int | None], at: int | None, opens: int, closes: int
) -> None:
    item = replace(of(700)[0], due=due, span=span)
    rows = {row["e"]: row for row in Look([item, *of(800, prefix="o")], [BY_ACCOUNT]).rows()}
    assert (rows["e0"]["due"], rows["e0"]["opens"], rows["e0"]["closes"]) == (at, opens, closes)


def test_items_stand_in_due_order_those_without_a_day_last() -> None:
    days = (DAY + 5, None, DAY - 5, DAY, DAY)
    items = [replace(item, due=due) for item, due in zip(of(100, 200, 300, 400, 500), days, strict=True)]
    other = [Item(f"o{at}", amount=30 + at, iban=OTHER, due=DAY - at) for at in range(2)]
    look = Look([*items, *other], [BY_ACCOUNT, Line("y", amount=61, iban=OTHER)])
    own = [row for row in look.rows() if str(row["e"]).startswith("e")]
    assert [(row["e"], row["at"], row["before"], row["amount"]) for row in own] == [
        ("e2", 0, 0, 300),
        ("e3", 1, 300, 400),
        ("e4", 2, 700, 500),
        ("e0", 3, 1_200, 100),
        ("e1", 4, 1_300, 200),
    ]
    theirs = [(row["e"], row["at"], row["before"]) for row in look.rows() if row not in own]
    assert theirs == [("o1", 0, 0), ("o0", 1, 31)]


def test_a_line_says_what_it_asks_for_and_in_which_days() -> None:
    bounds = Bounds(date_window_days_before=3, date_window_days_after=5)
    rule = LineRule(name="r", scope=Scope(minor_min=3_000), bounds=bounds)
    lines = [BY_ACCOUNT, replace(BY_ACCOUNT, id="y", amount=3_000), replace(BY_ACCOUNT, id="z", day=None)]
    look = Look(of(700, 900, 1_001), lines, replace(RULES, line_rules=(rule,)))
    told = {look.lines[row["i"]]: row for row in look.found.lines.to_dicts()}
    assert {name: (row["target"], row["day"], row["since"], row["until"]) for name, row in told.items()} == {
        "x": (2_000, DAY, DAY - 60, DAY + 30),
        "y": (3_000, DAY, DAY - 5, DAY + 3),
        "z": (2_000, None, None, None),
    }
    assert {(row["n"], row["reach"], row["depth"]) for row in told.values()} == {(3, 2_700, 4)}
    assert look.found.lines["i"].is_sorted()


def test_lines_that_do_not_say_who_pays_are_told_apart() -> None:
    mute = Line("m", amount=350)
    lines = [BY_ACCOUNT, mute, replace(mute, id="n", currency="USD", day=None), replace(BY_NAME, id="o", name="Bolt")]
    look = Look([*of(700, 900), Item("u", currency="USD")], lines)
    part = dict(look.sides.incoming.select("row", "part").iter_rows())
    rows = {look.lines[row["i"]]: row for row in look.found.unnamed.to_dicts()}
    assert rows == {
        name: {"i": i, "part": part[i], "target": 350, "since": since, "until": until}
        for name, since, until in (("m", DAY - 60, DAY + 30), ("n", None, None))
        if (i := look.lines.index(name)) is not None
    }


DEPTHS = [
    pytest.param((3, 9), 0, id="too little for any"),
    pytest.param((3, 10), 2, id="enough for pairs without one"),
    pytest.param((3, 19), 2, id="too little for pairs"),
    pytest.param((3, 20), 4, id="enough for pairs"),
    *(
        pytest.param((3, 7, middle, 99_999, 99_999), depth, id=f"five of about {middle}")
        for middle, depth in ((79, 0), (80, 1), (99, 1), (100, 2), (139, 2), (140, 3), (179, 3), (180, 4))
    ),
    pytest.param((3, 7, 49, 99_999), 0, id="four of which the third is little"),
    pytest.param((3, 7, 50, 99_999), 1, id="four of which the third is enough"),
    pytest.param((300, 700, 7_900, 990_100, 990_200), 0, id="too round"),
    pytest.param((300, 700, 8_000, 990_100, 990_200), 1, id="round but enough"),
    pytest.param((303, 700, 8_000, 990_100, 990_200), 4, id="but for one round"),
    pytest.param((103_003,) * blind_parties.BLIND_EQUAL_MAX, 4, id="as many alike as may be"),
    pytest.param((103_003,) * (blind_parties.BLIND_EQUAL_MAX + 1), 0, id="one alike too many"),
    pytest.param((*(103_003,) * (blind_parties.BLIND_EQUAL_MAX + 1), 7, 7), 0, id="one alike too many, beside others"),
    pytest.param(tuple(103_003 + at for at in range(BLIND_SEARCH_ITEMS_MAX)), 4, id="as many as are searched"),
    pytest.param(tuple(103_003 + at for at in range(BLIND_SEARCH_ITEMS_MAX + 1)), 0, id="one more than is searched"),
]


@pytest.mark.parametrize(("amounts", "depth"), DEPTHS)
def test_how_closely_a_party_is_looked_at(amounts: tuple[int, ...], depth: int) -> None:
    look = Look(of(*amounts), [replace(BY_ACCOUNT, amount=1)])
    assert look.found.lines.select("n", "depth").rows() == [(len(amounts), depth)]
    assert set(look.found.members["depth"]) == {depth}
    assert look.found.lines["reach"].item() == len(amounts) * sorted(amounts)[len(amounts) // 2]


def test_too_many_items_are_said_to_be_beside_the_first_line_and_lines_beside_the_first_item() -> None:
    lines = [BY_ACCOUNT, replace(BY_ACCOUNT, id="y", day=DAY + 1), Line("z", amount=1_500, iban=OTHER)]
    few = of(700, 800, iban=OTHER, name="Bolt", prefix="o")
    items = of(*range(500, 501 + BLIND_ITEMS_MAX))
    look = Look([*items[1:], *few], lines)
    assert (set(look.spoken()), look.over) == ({"x", "y", "z"}, set())
    look = Look([*items, *few], lines)
    assert look.spoken() == {"z": ["o0 o1"]}
    first = min((item.id for item in items), key=look.items.index)
    assert look.over == {*((item.id, "x") for item in items), (first, "x"), (first, "y")}


def test_too_many_lines_are_said_to_be_beside_the_first_item() -> None:
    lines = [Line(f"y{at}", amount=2_000 + at, iban=IBAN, day=DAY + at) for at in range(BLIND_LINES_MAX + 1)]
    look = Look(of(700, 800), lines[1:])
    assert (len(look.spoken()), look.over) == (BLIND_LINES_MAX, set())
    look = Look(of(700, 800), lines)
    assert (look.spoken(), look.named()) == ({}, {})
    assert look.over == {("e1", look.lines[0]), *(("e0", line.id) for line in lines)}


def test_of_those_with_as_many_sums_the_first_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [replace(item, iban=f"DE{at}", name=None) for at in range(9) for item in of(700, 801, prefix=f"e{at}-")]
    lines = [Line(f"x{at}", amount=1_501, iban=f"DE{at}") for at in range(9)]
    every = sorted(Look(items, lines).named())
    monkeypatch.setattr(blind_parties, "BLIND_SETS_MIN", 4 * 5)
    monkeypatch.setattr(blind_parties, "BLIND_SETS_PER_ROW_MAX", 0)
    assert sorted(Look(items, lines).named()) == every[:5]


def test_rows_come_in_one_order() -> None:
    alone = [replace(SILENT, id=f"s{at}", amount=800 + at, due=DAY + at % 2) for at in range(4)]
    lines = [replace(BY_NAME, id=f"x{at}", day=DAY + at) for at in range(4)]
    found = Look([*accounts(3), *alone], lines).found
    for frame, order in ((found.members, ("party", "due", "e")), (found.lines, ("i", "party"))):
        told = frame.select(order).rows()
        assert told == sorted(told)
    assert found.members.schema["at"] == pl.Int32
    asked, known = {"i", "target", "day", "since", "until", "n", "reach"}, {"party", "depth"}
    assert set(found.lines.columns) == asked | known
    its = {"e", "part", "amount", "due", "opens", "closes", "at", "before"}
    assert set(found.members.columns) == its | known


SMALL, LARGE = of(700, 801), of(600, 500, 403, iban=OTHER, name="Bolt", prefix="o")


@pytest.mark.parametrize(
    ("least", "per_row", "left"),
    [
        # 2 * 2 of one line and 3 * 3 of two; eight rows.
        pytest.param(4 + 18, 0, {"x", "y", "z"}, id="enough"),
        pytest.param(4 + 17, 0, {"x"}, id="too little for the larger"),
        pytest.param(4, 0, {"x"}, id="enough for the smaller"),
        pytest.param(3, 0, set(), id="too little for either"),
        pytest.param(0, 2, {"x"}, id="too little by rows"),
        pytest.param(0, 3, {"x", "y", "z"}, id="enough by rows"),
        pytest.param(22, 1, {"x", "y", "z"}, id="the more of both"),
    ],
)
def test_those_with_the_most_sums_are_left_out_for_the_budget(
    monkeypatch: pytest.MonkeyPatch, least: int, per_row: int, left: set[str]
) -> None:
    monkeypatch.setattr(blind_parties, "BLIND_SETS_MIN", least)
    monkeypatch.setattr(blind_parties, "BLIND_SETS_PER_ROW_MAX", per_row)
    lines = [
        Line("y", amount=1_100, iban=OTHER),
        Line("z", amount=1_003, iban=OTHER),
        replace(BY_ACCOUNT, amount=1_501),
    ]
    look = Look([*SMALL, *LARGE], lines)
    assert set(look.spoken()) == left
    assert {line for _, line in look.over} == {"x", "y", "z"} - left
    assert {item for item, _ in look.over} == {
        item.id for its, of_line in ((SMALL, "x"), (LARGE, "y")) if of_line not in left for item in its
    }
    with of_part(is_part=True):
        if left == {"x", "y", "z"}:
            assert set(Look([*SMALL, *LARGE], lines).spoken()) == left
        else:
            with pytest.raises(BeyondBudgetError):
                Look([*SMALL, *LARGE], lines)


def test_a_party_of_which_runs_alone_are_tried_costs_as_many_as_it_has_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blind_parties, "BLIND_SETS_PER_ROW_MAX", 0)
    items, line = of(*[103_003] * (blind_parties.BLIND_EQUAL_MAX + 1)), replace(BY_ACCOUNT, amount=206_006)
    for budget, is_there in ((blind_parties.BLIND_EQUAL_MAX + 1, True), (blind_parties.BLIND_EQUAL_MAX, False)):
        monkeypatch.setattr(blind_parties, "BLIND_SETS_MIN", budget)
        assert bool(Look(items, [line]).spoken()) == is_there


@pytest.mark.parametrize(
    ("n", "counts"),
    [(1, (0, 0, 0, 0, 0)), (2, (1, 1, 1, 2, 2)), (3, (3, 4, 4, 7, 8)), (8, (28, 84, 154, 182, 238))],
)
def test_how_many_sets_there_are_up_to_a_kind(n: int, counts: tuple[int, ...]) -> None:
    frame = pl.DataFrame({"n": [n] * 5, "depth": [*Tier], "reach": 70_007, "unit": 7})
    assert frame.select(sets(pl.col("depth"))).to_series().equals(pl.Series(counts, dtype=pl.Int64))
    told = frame.select(sets(tier.value).alias(tier.name) for tier in Tier)
    assert (told.row(0), set(told.dtypes)) == (counts, {pl.Int64()})
    expected = [count * 1_000_000 // 10_001 for count in counts]
    assert frame.select(coincidences_ppm(pl.col("depth"))).to_series().to_list() == expected


@pytest.mark.parametrize(
    ("since", "until", "is_outside"),
    [(1, 4, True), (1, 5, False), (9, 12, False), (10, 12, True), (5, 9, False), (None, None, False)],
)
def test_days_before_and_behind_those_of_an_item_are_outside(
    since: int | None, until: int | None, *, is_outside: bool
) -> None:
    days = {"opens": 5, "closes": 9, "since": since, "until": until}
    frame = pl.DataFrame([days], schema=dict.fromkeys(days, pl.Int64))
    assert frame.select(outside()).item() is is_outside


@given(st.lists(st.one_of(st.integers(1, AMOUNT_MINOR_MAX), st.sampled_from(ROUND)), min_size=1))
def test_how_round_an_amount_is_tells_the_largest_round_number_that_divides_it(amounts: list[int]) -> None:
    found = pl.DataFrame({"amount": amounts}, schema={"amount": pl.Int64}).select(roundness("amount")).to_series()
    assert found.to_list() == [max(unit for unit in ROUND if amount % unit == 0) for amount in amounts]
