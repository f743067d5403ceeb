"""Which blind groups are proposed, asked of the choice alone: what is found, what rivals it, why the others fell."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from payrec.domain.matching import blind as chosen_blindly
from payrec.domain.matching.blind import blind
from payrec.domain.matching.block import candidates
from payrec.domain.matching.compete import Taken
from payrec.domain.matching.line_rules import Bounds, LineRule, Required, Scope
from payrec.domain.matching.rules import (
    ALTERNATIVES_MAX,
    BLIND_CLAIMS_MAX,
    BLIND_LINES_MAX,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Reason,
    Side,
    Uniqueness,
)
from support.blind_sets import AMOUNTS, AUTO, IBAN, MEDIUM, items_of, parts, paying
from support.chosen_groups import ChosenGroups, Sure, places
from support.matching_frames import Item, Line
from support.scored_pairs import Ends

OTHER = "DE02120300000000202051"
PROVED = (Confidence.HIGH, Uniqueness.UNIQUE, True)
UNSURE = (Confidence.LOW, Uniqueness.UNIQUE, False)
CONTESTED = (Confidence.LOW, Uniqueness.CONTESTED, False)
AMBIGUOUS = (Confidence.LOW, Uniqueness.AMBIGUOUS, False)
UNBOUNDED = (Confidence.LOW, Uniqueness.UNBOUNDED, False)


class Blind(ChosenGroups):
    """What is chosen of both sides, by names instead of row numbers."""

    def __init__(
        self,
        items: Sequence[Item],
        lines: Sequence[Line],
        rules: MatchingRules = AUTO,
        rejected: Iterable[Ends] = (),
        busy: Collection[str] = (),
    ) -> None:
        super().__init__(items, lines, rules)
        taken = [places(side, busy) for side in (self.items, self.lines)]
        found = candidates(self.sides, rules)
        self.keep(blind(self.sides, Taken(*taken), found, self.refused(rejected), rules))

    def groups(self) -> dict[str, dict[str, Any]]:
        told = super().groups()
        for row in told.values():
            ends = self.ends(self.chosen.legs.filter(g=row["g"]))
            items, lines = {e for e, _ in ends}, {i for _, i in ends}
            assert (len(ends), len(items) * len(lines)) == (row["size"], row["size"])
        return told

    def why(self) -> dict[Ends, tuple[Reason, bool, int]]:
        """Return the reason, whether it fits and the score of each finding."""
        rows = self.chosen.findings
        assert rows["days_outside"].null_count() == rows.height
        told = zip(rows["reason"], rows["fits"], rows["score_milli"], strict=True)
        return {
            ends: (Reason(reason), fits, score)
            for ends, (reason, fits, score) in zip(self.ends(rows), told, strict=True)
        }


RUN = items_of(*AMOUNTS)
PAYS = paying(RUN, 1, 2, 3)
LOOKED_UP = (Reason.AMBIGUOUS, True, -50_000)


def test_a_set_is_told_with_all_that_was_tried() -> None:
    found = Blind(RUN, [PAYS])
    assert found.sure() == {"e1 e2 e3 by x": (GroupLevel.BY_RUN, MEDIUM)}
    [row] = found.groups().values()
    wanted = {
        "kind": MatchKind.ONE_TO_MANY, "size": 3, "amount_minor": PAYS.amount, "difference_minor": 0, "tried": 238,
        "named": 8, "rivals_expected": 0, "rivals_incoming": 0, "pending": False, "i": 0,
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    # 28 runs among sums that go about as far as eight times the median.
    assert row["coincidences_ppm"] == 28 * 1_000_000 // (8 * 102_347)
    strength = round(1_000 * math.exp(row["score_milli"] / 1_000))
    assert row["probability_ppm"] == strength * 1_000_000 // (strength + 1_000)
    assert (found.why(), found.rivals()) == ({}, [])
    assert {found.items[e] for e in found.chosen.taken.items} == {"e1", "e2", "e3"}


@pytest.mark.parametrize(
    ("members", "level"),
    [
        ((1, 2, 3), GroupLevel.BY_RUN),
        ((1, 3, 4), GroupLevel.BY_RUN_MINUS),
        ((1, 4, 5), GroupLevel.BY_RUN_MINUS),
        ((0, 6), GroupLevel.BY_FEW),
        ((0, 3, 7), GroupLevel.BY_FEW),
    ],
)
def test_what_a_kind_of_set_is_called(members: tuple[int, ...], level: GroupLevel) -> None:
    assert [said for said, _ in Blind(RUN, [paying(RUN, *members)]).sure().values()] == [level]


NOTHING: dict[str, Any] = {
    "a group is a pair": {"rules": replace(AUTO, group_size_max=1)},
    "the line is taken": {"busy": ["x"]},
    "all items are": {"busy": [item.id for item in RUN]},
    "an item is": {"busy": ["e2"]},
    "something is required": {"rules": replace(AUTO, required=Required.REFERENCE)},
    "a pair was rejected": {"rejected": [("e2", "x")]},
}


@pytest.mark.parametrize("given", NOTHING.values(), ids=NOTHING)
def test_where_nothing_may_be_found_nothing_is_said(given: dict[str, Any]) -> None:
    found = Blind(RUN, [PAYS], **given)
    assert (found.groups(), found.why()) == ({}, {})
    assert found.chosen.taken.items.is_empty()


def test_two_are_a_group_where_no_more_may_be() -> None:
    pair = paying(RUN, 1, 2)
    assert set(Blind(RUN, [pair], replace(AUTO, group_size_max=2)).groups()) == {"e1 e2 by x"}


def test_of_a_line_of_which_something_is_required_nothing_is_found_beside_others() -> None:
    strict = LineRule(name="r", scope=Scope(minor_min=PAYS.amount), bounds=Bounds(required=Required.REFERENCE))
    other = [replace(item, id=f"o{item.id}", iban=OTHER, name="Bolt") for item in RUN]
    lines = [PAYS, replace(paying(RUN, 4, 5), id="y", iban=OTHER)]
    rules = replace(AUTO, line_rules=(strict,))
    assert set(Blind([*RUN, *other], lines, rules).groups()) == {"oe4 oe5 by y"}
    assert set(Blind([*RUN, *other], lines).groups()) == {"e1 e2 e3 by x", "oe4 oe5 by y"}


def test_parties_of_too_many_lines_are_said_to_be_beyond_the_budget() -> None:
    lines = [PAYS, *(Line(f"y{at}", amount=900_001 + at, iban=IBAN) for at in range(BLIND_LINES_MAX))]
    found = Blind(RUN, lines)
    assert found.groups() == {}
    assert set(found.why().values()) == {(Reason.BUDGET_EXHAUSTED, False, -50_000)}
    assert {i for _, i in found.why()} == {line.id for line in lines}
    # Beside another party as well.
    other = [replace(item, id=f"o{item.id}", iban=OTHER, name="Bolt") for item in RUN]
    also = Blind([*RUN, *other], [*lines, replace(PAYS, id="z", iban=OTHER)])
    assert (set(also.groups()), also.why()) == ({"oe1 oe2 oe3 by z"}, found.why())


def test_a_sum_that_chance_makes_says_nothing() -> None:
    items = items_of(*(1_000 * (at + 5) for at in range(8)))
    found = Blind(items, [paying(items, 0, 1, 2)])
    assert found.groups() == {}
    assert set(found.why().values()) == {LOOKED_UP}
    assert {i for _, i in found.why()} == {"x"}


@pytest.mark.parametrize(("beyond", "is_said"), [(0, True), (-1, False)])
def test_as_much_as_chance_may_make_is_said(monkeypatch: pytest.MonkeyPatch, beyond: int, *, is_said: bool) -> None:
    monkeypatch.setattr(chosen_blindly, "BLIND_COINCIDENCES_PPM_MAX", 28 * 1_000_000 // (8 * 102_347) + beyond)
    found = Blind(RUN, [PAYS])
    assert bool(found.groups()) == is_said
    assert found.why() == ({} if is_said else {(e, "x"): LOOKED_UP for e in ("e1", "e2", "e3")})


def test_sets_that_are_too_many_alike_are_said_to_be() -> None:
    items = [replace(item, due=20_600) for item in items_of(*[14_003] * (ALTERNATIVES_MAX + 3))]
    found = Blind(items, [Line("x", amount=28_006, iban=IBAN)])
    assert (found.groups(), list(found.why().values())) == ({}, [LOOKED_UP])


def test_less_simple_sets_of_the_sum_count_as_rivals() -> None:
    items = items_of(*AMOUNTS[:5], AMOUNTS[1])
    [row] = (found := Blind(items, [paying(items, 1, 2, 3)])).groups().values()
    assert found.sure() == {"e1 e2 e3 by x": (GroupLevel.BY_RUN, CONTESTED)}
    assert (row["rivals_expected"], row["rivals_incoming"]) == (1, 0)
    strength = round(1_000 * math.exp(row["score_milli"] / 1_000))
    assert row["probability_ppm"] == strength * 1_000_000 // (2 * strength + 1_000)
    # Of the party's sets that are as simple, none is less simple than the other.
    two = items_of(*AMOUNTS[:4], AMOUNTS[1], *AMOUNTS[5:])
    [row] = (found := Blind(two, [paying(two, 1, 2, 3)])).groups().values()
    assert [sure for _, sure in found.sure().values()] == [AMBIGUOUS]
    assert (row["rivals_expected"], row["rivals_incoming"]) == (1, 0)
    assert found.rivals() == [(Side.EXPECTED, ("e1", "x"))]
    assert {ends: why[:2] for ends, why in found.why().items()} == {
        (item, "x"): (Reason.AMBIGUOUS, True) for item in ("e1", "e2", "e3")
    }


def test_a_line_that_would_do_as_well_is_a_rival() -> None:
    found = Blind(RUN, [PAYS, replace(PAYS, id="y", day=20_601)])
    assert found.sure() == {"e1 e2 e3 by x": (GroupLevel.BY_RUN, AMBIGUOUS)}
    [row] = found.groups().values()
    assert (row["rivals_expected"], row["rivals_incoming"]) == (0, 1)
    assert found.rivals() == [(Side.INCOMING, (item, "y")) for item in found.items if item in {"e1", "e2", "e3"}]
    assert {ends: why[:2] for ends, why in found.why().items()} == {
        (f"e{at}", "y"): (Reason.AMBIGUOUS, True) for at in (1, 2, 3)
    }
    shared = Blind(RUN, [PAYS, paying(RUN, 2, 3, 4, id="y")])
    assert [sure for _, sure in shared.sure().values()] == [AMBIGUOUS]
    # What the other has beside is no other explanation of this one's rows.
    [name] = shared.groups()
    assert {side for side, _ in shared.rivals()} == {Side.INCOMING}
    assert {item for _, (item, _) in shared.rivals()} == {"e2", "e3"}
    assert {line for _, (_, line) in shared.rivals()} == {"x", "y"} - {name.rpartition(" ")[2]}


def test_a_simpler_set_has_what_a_less_simple_one_would() -> None:
    # The run of one line shares an item with the triple of the other.
    found = Blind(RUN, [paying(RUN, 0, 3, 7), paying(RUN, 1, 2, 3, id="y")])
    assert found.sure() == {"e1 e2 e3 by y": (GroupLevel.BY_RUN, CONTESTED)}
    assert {ends for ends, why in found.why().items() if why[0] is Reason.AMBIGUOUS} == {
        ("e0", "x"),
        ("e3", "x"),
        ("e7", "x"),
    }


def test_of_as_simple_ones_that_one_is_proposed_that_fits_best() -> None:
    lines = [replace(PAYS, day=20_640), replace(PAYS, id="y", name="Ada Ltd")]
    for both in (lines, lines[::-1]):
        assert Blind(RUN, both).sure() == {"e1 e2 e3 by y": (GroupLevel.BY_RUN, AMBIGUOUS)}


@pytest.mark.parametrize("lines", [BLIND_CLAIMS_MAX, BLIND_CLAIMS_MAX + 1])
def test_what_too_many_claim_is_nobodys(lines: int) -> None:
    claiming = [replace(PAYS, id=f"x{at}", day=20_600 + at) for at in range(lines)]
    other = paying(RUN, 5, 6, id="y")
    found = Blind(RUN, [*claiming, other])
    assert "e5 e6 by y" in found.groups()
    assert len(found.groups()) == 1 + (lines <= BLIND_CLAIMS_MAX)
    if lines > BLIND_CLAIMS_MAX:
        assert found.why() == {(f"e{at}", line.id): LOOKED_UP for at in (1, 2, 3) for line in claiming}
        assert found.rivals() == []


def test_where_simpler_sets_alone_were_tried_nothing_is_unique() -> None:
    items = items_of(*[14_003] * 9, 31_019)
    found = Blind(items, [paying(items, 8, 9)])
    assert found.sure() == {"e8 e9 by x": (GroupLevel.BY_RUN, UNBOUNDED)}
    assert [row["tried"] for row in found.groups().values()] == [45]


def test_parts_of_an_item_and_sets_of_a_line_are_told_apart() -> None:
    whole = Item("w", amount=100_007, iban=OTHER, name="Bolt", due=20_600)
    lines = [PAYS, *(replace(line, id=f"p{at}", iban=OTHER) for at, line in enumerate(parts(50_003, 50_004)))]
    found = Blind([*RUN, whole], lines)
    assert found.sure() == {
        "e1 e2 e3 by x": (GroupLevel.BY_RUN, MEDIUM),
        "w by p0 p1": (GroupLevel.BY_EQUAL_PARTS, PROVED),
    }
    told = found.groups()["w by p0 p1"]
    assert (told["kind"], told["named"], told["tried"]) == (MatchKind.MANY_TO_ONE, 2, 1)
    assert told["coincidences_ppm"] == 1_000_000 // 100_007


@pytest.mark.parametrize(
    ("rules", "pending", "sure"),
    [
        (AUTO, False, PROVED),
        (AUTO, True, MEDIUM),
        (MatchingRules(auto_accept=True), False, (Confidence.HIGH, Uniqueness.UNIQUE, False)),
        (MatchingRules(), False, (Confidence.HIGH, Uniqueness.UNIQUE, False)),
    ],
)
def test_what_is_proved_needs_no_person_where_so_much_is_enough(
    rules: MatchingRules, sure: Sure, *, pending: bool
) -> None:
    lines = [replace(line, pending=pending) for line in parts(50_003, 50_004)]
    assert list(Blind(items_of(100_007), lines, rules).sure().values()) == [(GroupLevel.BY_EQUAL_PARTS, sure)]


def test_parts_of_which_one_does_not_say_who_pays_are_never_sure() -> None:
    lines = parts(50_003, 50_004)
    silent = [lines[0], replace(lines[1], iban=None)]
    assert list(Blind(items_of(100_007), silent).sure().values()) == [(GroupLevel.BY_UNNAMED_PARTS, UNSURE)]
    assert Blind(items_of(100_007), lines[:1]).why() == {}


def test_parts_that_are_too_many_are_said_to_be() -> None:
    found = Blind(items_of(100_007), parts(50_003, 50_004, 50_004))
    assert (found.groups(), set(found.why().values())) == ({}, {LOOKED_UP})


def test_an_item_of_parts_that_is_one_of_a_set_is_ambiguous() -> None:
    items = items_of(*AMOUNTS[:7], 164_051)
    on_the_day = replace(paying(items, 6, 7), day=items[7].due)
    lines = [on_the_day, *(replace(line, id=f"p{at}") for at, line in enumerate(parts(82_025, 82_026)))]
    said = [replace(line, name="Ada Ltd") for line in lines]
    # A set whose last is due on the day is as good as parts, and of both the better is proposed.
    assert Blind(items, [said[0], *lines[1:]]).sure() == {"e6 e7 by x": (GroupLevel.BY_RUN, AMBIGUOUS)}
    assert Blind(items, [lines[0], *said[1:]]).sure() == {"e7 by p0 p1": (GroupLevel.BY_EQUAL_PARTS, AMBIGUOUS)}


def test_twins_are_told_apart_by_chance_alone() -> None:
    items = [*RUN[:4], replace(RUN[3], id="t", tie="e3"), *RUN[4:]]
    found = Blind(items, [paying(items, 2, 3, 4)])
    assert [sure for _, sure in found.sure().values()] == [AMBIGUOUS]


def test_of_equal_ones_the_first_is_proposed() -> None:
    found = Blind(RUN, [PAYS, replace(PAYS, id="y")])
    assert found.sure() == {f"e1 e2 e3 by {found.lines[0]}": (GroupLevel.BY_RUN, AMBIGUOUS)}
    found = Blind(
        [replace(item, due=20_600) for item in items_of(*[14_003] * 4)], [Line("x", amount=28_006, iban=IBAN)]
    )
    assert list(found.groups()) == [" ".join([*sorted(found.items[:2]), "by x"])]
