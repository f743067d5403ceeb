"""Which of several explicit groups is proposed, asked of the choice alone: what beats it, ties it, or is in doubt."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from payrec.domain.matching.advices import advised
from payrec.domain.matching.block import candidates, with_code
from payrec.domain.matching.group_choice import choose
from payrec.domain.matching.rules import (
    AdjustmentType,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Reason,
    Side,
    Uniqueness,
)
from payrec.domain.matching.score import scored, without
from support.chosen_groups import ChosenGroups, Sure, places
from support.matching_frames import DAY, Advice, Item, Line, advices_frame
from support.scored_pairs import ENDS, Ends

AUTO = MatchingRules(auto_accept=True)
EXACT = (Confidence.EXACT, Uniqueness.UNIQUE, True)
HIGH = (Confidence.HIGH, Uniqueness.UNIQUE, False)
CONTESTED = (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
UNBOUNDED = (Confidence.MEDIUM, Uniqueness.UNBOUNDED, False)
AMBIGUOUS = (Confidence.LOW, Uniqueness.AMBIGUOUS, False)


class Choice(ChosenGroups):
    """What is chosen of both sides, by names instead of row numbers."""

    def __init__(
        self,
        items: Sequence[Item],
        lines: Sequence[Line],
        rules: MatchingRules = AUTO,
        rejected: Iterable[Ends] = (),
        advices: Sequence[Advice] = (),
        *,
        apart: Iterable[Ends] = (),
        crowded: dict[str, int] | None = None,
        capped: Iterable[str] = (),
    ) -> None:
        super().__init__(items, lines, rules)
        refused = self.refused(rejected)
        found = candidates(self.sides, rules)
        crowding = [(self.lines.index(i), 1, full) for i, full in (crowded or {}).items()]
        found = replace(
            found,
            capped_items=places(self.items, capped),
            capped_lines=places(self.lines, capped),
            crowded=pl.DataFrame(
                crowding, schema={"i": pl.UInt32, "crowded": pl.Int32, "crowded_full": pl.Int32}, orient="row"
            ),
        )
        unsettled = [(self.items.index(e), self.items.index(c)) for e, c in apart]
        listed = advised(self.sides, advices_frame(advices), refused, rules, own=pl.Series(dtype=pl.UInt32))
        apart_codes = with_code(pl.DataFrame(unsettled, schema=ENDS, orient="row")).select("code")
        pairs = scored(without(found.pairs, refused), self.sides, rules)
        self.keep(choose(pairs, self.sides, found, refused, rules, listed, apart_codes))

    def only(self) -> tuple[GroupLevel, Sure]:
        [found] = self.sure().values()
        return found

    def why(self) -> dict[Ends, Reason]:
        reasons = zip(self.ends(self.chosen.findings), self.chosen.findings["reason"], strict=True)
        return {ends: Reason(reason) for ends, reason in reasons}


def quoted(*amounts: int, start: int = 0, prefix: str = "q", **more: Any) -> list[Item]:
    return [
        Item(f"{prefix}{at}", amount=amount, reference=f"INV-1000{at}", **more)
        for at, amount in enumerate(amounts, start)
    ]


def batch(*amounts: int, group: str = "PO-2026-7", prefix: str = "b", **more: Any) -> list[Item]:
    return [Item(f"{prefix}{at}", amount=amount, group=group, **more) for at, amount in enumerate(amounts)]


def of(amount: int, *items: Item, text: str = "", name: str = "x", **more: Any) -> Line:
    """Make a line that quotes items."""
    words = [*(item.reference or "" for item in items), text]
    return Line(name, amount=amount, text=" ".join(words), **more)


PARTY: dict[str, Any] = {"iban": "DE1", "name": "Ada Ltd"}
BATCH, PAIR = batch(100, 250), quoted(100, 250)
BY_BATCH, BY_PAIR = of(350, text="PO-2026-7"), of(350, *PAIR)


def test_alone_a_group_that_is_named_is_sure() -> None:
    found = Choice(BATCH, [BY_BATCH])
    assert found.sure() == {"b0 b1 by x": (GroupLevel.BY_KEY, EXACT)}
    [row] = found.groups().values()
    wanted = {
        "kind": MatchKind.ONE_TO_MANY, "size": 2, "amount_minor": 350, "difference_minor": 0, "rivals_expected": 0,
        "rivals_incoming": 0, "tried": 1, "named": 2, "coincidences_ppm": None, "pending": False, "e": 0, "i": 0,
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    assert (found.why(), set(found.rivals())) == ({}, set())
    assert (set(found.chosen.taken.items), set(found.chosen.taken.lines)) == ({0, 1}, {0})
    assert found.chosen.doubtful.items.is_empty()


def test_where_nothing_is_found_the_reasons_and_the_doubts_are_told() -> None:
    found = Choice(BATCH, [of(500, text="PO-2026-7")])
    assert (found.groups(), set(found.why().values())) == ({}, {Reason.AMOUNT_MISMATCH})
    assert found.chosen.taken.items.is_empty()
    assert Choice([Item("a")], [Line("x")]).chosen.findings.is_empty()
    # The item of a batch is paid by itself, so what the id claims is in doubt.
    items = [replace(BATCH[0], reference="INV-10009"), BATCH[1]]
    found = Choice(items, [BY_BATCH, Line("y", amount=100, text="INV-10009", day=DAY + 1)])
    assert found.groups() == {}
    assert {found.items[e] for e in found.chosen.doubtful.items} == {"b0", "b1"}
    assert {found.lines[i] for i in found.chosen.doubtful.lines} == {"x"}
    lines = [BY_BATCH, Line("y", amount=100, text="INV-10009"), of(150, text="INV-10000 INV-10001", name="z")]
    also = Choice([*items, *quoted(70, 80)], lines)
    assert set(also.groups()) == {"q0 q1 by z"}
    assert {also.items[e] for e in also.chosen.doubtful.items} == {"b0", "b1"}


def test_the_reasons_of_all_ways_are_told_beside_each_other() -> None:
    found = Choice([*batch(100, 250), *quoted(100, 250)], [of(500, text="PO-2026-7"), of(351, *PAIR, name="y")])
    assert set(found.why().values()) == {Reason.AMOUNT_MISMATCH}
    assert {i for _, i in found.why()} == {"x", "y"}
    # And beside what is found.
    found = Choice([*batch(100, 250), *quoted(100, 250)], [of(500, text="PO-2026-7"), of(350, *PAIR, name="y")])
    assert (set(found.groups()), {i for _, i in found.why()}) == ({"q0 q1 by y"}, {"x"})


def test_groups_of_several_ways_are_told_apart() -> None:
    items = [*batch(100, 250), *quoted(100, 250), *quoted(900, start=5)]
    lines = [BY_BATCH, of(350, *PAIR, name="y"), of(400, items[4], name="z"), of(500, items[4], name="w", day=DAY + 1)]
    other = batch(70, 80, 90, group="PO-2026-9", prefix="c")
    found = Choice([*items, *other], [*lines, of(240, text="PO-2026-9", name="v")])
    assert found.sure() == {
        "b0 b1 by x": (GroupLevel.BY_KEY, EXACT),
        "c0 c1 c2 by v": (GroupLevel.BY_KEY, EXACT),
        "q0 q1 by y": (GroupLevel.BY_REFERENCES, EXACT),
        "q5 by w z": (GroupLevel.BY_INSTALMENTS, EXACT),
    }


def test_a_group_with_a_row_that_a_proof_of_equal_amount_has_is_none() -> None:
    whole = Item("whole", amount=350, reference="INV-20000")
    found = Choice([*BATCH, whole], [of(350, whole, text="PO-2026-7")])
    assert found.groups() == {}
    one = of(100, PAIR[0], name="y", day=DAY + 1)
    assert Choice(PAIR, [BY_PAIR, one]).groups() == {}
    assert set(Choice(PAIR, [BY_PAIR, replace(one, amount=99)]).groups()) == {"q0 q1 by x"}


def test_of_the_same_group_found_twice_the_first_is_told() -> None:
    items = [replace(item, group="PO-2026-7") for item in PAIR]
    found = Choice(items, [of(350, *items, text="PO-2026-7")])
    assert found.sure() == {"q0 q1 by x": (GroupLevel.BY_KEY, EXACT)}
    # So it is of several of the quoted.
    more = [*items, *quoted(30, start=5)]
    assert Choice(more, [of(350, *more, text="PO-2026-7")]).only()[0] is GroupLevel.BY_KEY


def test_a_group_of_which_another_is_a_part_is_another_one() -> None:
    whole = [replace(item, group="PO-2026-7") for item in quoted(100, 250, **PARTY)]
    note = Item("n", amount=70, direction=-1, reference="CN-20001", **PARTY)
    items = [*whole, *quoted(70, start=5, **PARTY)]
    found = Choice([*items, note], [of(350, *items, text="CN-20001 PO-2026-7", iban="DE1")])
    assert found.sure() == {"q0 q1 by x": (GroupLevel.BY_KEY, AMBIGUOUS)}


def test_one_that_is_named_is_before_one_that_was_searched_however_well_that_fits() -> None:
    searched = quoted(100, 250, 33, name="Ada Ltd", iban="DE1")
    found = Choice([*BATCH, *searched], [of(350, *searched, text="PO-2026-7", name="x", iban="DE1")])
    assert found.sure() == {"b0 b1 by x": (GroupLevel.BY_KEY, CONTESTED)}
    assert {ends: found.why()[ends] for ends in (("q0", "x"), ("q1", "x"))} == dict.fromkeys(
        (("q0", "x"), ("q1", "x")), Reason.AMBIGUOUS
    )
    assert {item for side, (item, _) in found.rivals() if side is Side.EXPECTED} == {"q0", "q1", "q2"}


def test_of_two_that_are_named_the_better_is_proposed_and_both_are_in_doubt() -> None:
    good, poor = batch(100, 250, iban="DE1"), batch(110, 240, group="PO-2026-6", prefix="c", iban="DE2")
    for items in ([*good, *poor], [*poor, *good]):
        found = Choice(items, [of(350, text="PO-2026-7 PO-2026-6", iban="DE1")])
        assert found.sure() == {"b0 b1 by x": (GroupLevel.BY_KEY, AMBIGUOUS)}
        assert {ends for ends, reason in found.why().items() if reason is Reason.AMBIGUOUS} == {
            ("c0", "x"),
            ("c1", "x"),
        }


def test_of_two_as_good_content_decides() -> None:
    items = [*batch(100, 250), *batch(110, 240, group="PO-2026-6", prefix="c")]
    found = Choice(items, [of(350, text="PO-2026-7 PO-2026-6")])
    [(name, told)] = found.sure().items()
    assert told == (GroupLevel.BY_KEY, AMBIGUOUS)
    assert found.items[0] in name
    lines = [of(350, *PAIR), of(350, *PAIR, name="y")]
    found = Choice(PAIR, lines)
    assert found.sure() == {f"q0 q1 by {found.lines[0]}": (GroupLevel.BY_REFERENCES, AMBIGUOUS)}


def test_two_lines_that_name_one_group_id_leave_it_to_a_person() -> None:
    found = Choice(BATCH, [BY_BATCH, replace(BY_BATCH, id="y", day=DAY + 1)])
    assert found.only() == (GroupLevel.BY_KEY, AMBIGUOUS)
    assert set(found.rivals()) == {(Side.INCOMING, (found.items[0], "y"))}, "the first stands for its id"


@pytest.mark.parametrize(("items", "line"), [(BATCH, BY_BATCH), (PAIR, BY_PAIR)])
def test_of_rows_that_were_not_looked_at_whole_nothing_is_sure(items: list[Item], line: Line) -> None:
    for bound in ({"capped": [items[1].id]}, {"capped": ["x"]}, {"crowded": {"x": 1}}):
        assert Choice(items, [line], **bound).only()[1] == UNBOUNDED
    others = [Item("far", amount=7)], [Line("y", amount=8)]
    for bound in ({"capped": ["far"]}, {"capped": ["y"]}, {"crowded": {"x": 0, "y": 1}}):
        found = Choice([*items, *others[0]], [line, *others[1]], **bound)
        assert found.only()[1] == EXACT


@pytest.mark.parametrize(
    ("rules", "pending", "auto"),
    [
        (AUTO, False, True),
        (AUTO, True, False),
        (MatchingRules(auto_accept=True, auto_accept_min_confidence="high"), False, True),
        (MatchingRules(), False, False),
    ],
)
def test_what_needs_no_person(rules: MatchingRules, *, pending: bool, auto: bool) -> None:
    level, sure = Choice(BATCH, [replace(BY_BATCH, pending=pending)], rules).only()
    assert (level, sure) == (GroupLevel.BY_KEY, (Confidence.EXACT, Uniqueness.UNIQUE, auto))


def test_what_was_searched_for_needs_a_person_however_little_is_asked() -> None:
    items = quoted(100, 250, 33)
    found = Choice(items, [of(350, *items)], replace(AUTO, auto_accept_min_confidence="high"))
    assert found.sure() == {"q0 q1 by x": (GroupLevel.BY_SOME_REFERENCES, HIGH)}


def test_how_likely_a_group_is_falls_with_its_rivals() -> None:
    far = batch(100, 250, iban="DE2", due=DAY - 30, account="DE9")
    line = replace(BY_BATCH, account="DE8", pending=True)
    for count in range(3):
        others = [Item(f"r{at}", amount=10, group=f"PO-2025-{at}") for at in range(count)]
        named = " ".join(item.group or "" for item in others)
        [row] = Choice([*far, *others], [replace(line, text=f"PO-2026-7 {named}")]).groups().values()
        strength = round(1_000 * math.exp(row["score_milli"] / 1_000))
        assert row["rivals_expected"] == count
        assert row["probability_ppm"] == strength * 1_000_000 // (strength * (1 + count) + 1_000)


def test_twins_are_told_apart_by_chance_alone() -> None:
    items = [*BATCH, replace(BATCH[1], id="b2", tie="b1")]
    assert Choice(items, [of(600, text="PO-2026-7")]).only() == (GroupLevel.BY_KEY, EXACT)


def test_one_item_more_than_is_quoted_may_be_the_rest() -> None:
    items, rest = quoted(100, 130, **PARTY), Item("r", amount=250, **PARTY)
    line = of(350, items[0], name="x", iban="DE1")
    wanted = (GroupLevel.BY_REFERENCES_AND_ONE, (Confidence.MEDIUM, Uniqueness.UNIQUE, False))
    assert Choice([*items, rest], [line]).sure() == {"q0 r by x": wanted}
    # Who quotes or pays the rest by itself has it.
    by_itself = Line("y", amount=250, iban="DE1", day=DAY + 1)
    assert Choice([*items, rest], [line, by_itself]).groups() == {}
    named = replace(rest, reference="INV-10007")
    assert Choice([*items, named], [line, Line("y", amount=9, text="INV-10007")]).groups() == {}
    assert set(Choice([*items, named], [line]).groups()) == {"q0 r by x"}
    assert Choice([*items, rest], [line], rejected=[("r", "x")]).groups() == {}


def test_several_more_than_are_quoted_may_be_the_rest_where_no_one_is() -> None:
    rest = [Item(f"r{at}", amount=amount, due=DAY + at, **PARTY) for at, amount in enumerate((102_347, 58_813, 77_401))]
    items = [*quoted(50_021, **PARTY), *rest]
    line = of(50_021 + 102_347 + 58_813, items[0], name="x", iban="DE1")
    found = Choice(items, [line])
    assert found.only()[0] is GroupLevel.BY_REFERENCES_AND_MORE
    assert set(found.groups()) == {"q0 r0 r1 by x"}
    [row] = found.groups().values()
    assert row["coincidences_ppm"] > 0
    assert Choice(items, [line], rejected=[("r1", "x")]).groups() == {}
    one = Item("o", amount=102_347 + 58_813, due=DAY + 90, **PARTY)
    assert set(Choice([*items, one], [line, of(350, *PAIR, name="y")]).groups()) <= {"o q0 by x"}


def test_items_less_what_is_credited_of_them() -> None:
    items = [*quoted(450, 100, **PARTY), Item("n", amount=200, direction=-1, reference="CN-20001", **PARTY)]
    line = of(350, *items[:2], text="CN-20001", iban="DE1")
    found = Choice(items, [line])
    assert found.sure() == {"n q0 q1 by x": (GroupLevel.BY_REFERENCES_LESS, EXACT)}
    [row] = found.groups().values()
    assert row["reference_level"] == 4
    assert Choice(items, [line], apart=[("q0", "n")]).groups() == {}
    unnamed = of(350, *items[:2], iban="DE1")
    found = Choice(items, [unnamed])
    wanted = (GroupLevel.BY_CREDIT_NOTES, (Confidence.MEDIUM, Uniqueness.UNIQUE, False))
    assert found.sure() == {"n q0 q1 by x": wanted}


def test_a_credit_note_that_two_lines_claim_is_sure_of_neither() -> None:
    items = [*quoted(450, 450, **PARTY), Item("n", amount=100, direction=-1, reference="CN-20001", **PARTY)]
    lines = [of(350, items[at], text="CN-20001", name="xy"[at], iban="DE1") for at in (0, 1)]
    found = Choice(items, lines)
    assert [sure for _, sure in found.sure().values()] == [AMBIGUOUS]
    assert found.rivals()


def test_a_batch_less_what_is_credited_of_it() -> None:
    items = [*batch(450, 100, **PARTY), Item("n", amount=200, direction=-1, group="PO-2026-7", **PARTY)]
    line = of(350, text="PO-2026-7", iban="DE1")
    assert Choice(items, [line]).sure() == {"b0 b1 n by x": (GroupLevel.BY_KEY_LESS, EXACT)}
    assert Choice(items, [line], apart=[("b0", "n")]).groups() == {}
    kept = Choice(items, [replace(line, amount=345)])
    wanted = (GroupLevel.BY_KEY_NET, (Confidence.MEDIUM, Uniqueness.UNIQUE, False))
    assert kept.sure() == {"b0 b1 n by x": wanted}
    assert kept.chosen.settled["amount_minor"].to_list() == [5]


ADVICE = Advice((("INV-10000", 100, 0), ("INV-10001", 250, 0)), payment="RUN-2026-1")
ADVISED = of(350, text="RUN-2026-1")


def test_what_an_advice_lists_is_sure_unless_something_was_held_back() -> None:
    assert Choice(PAIR, [ADVISED], advices=[ADVICE]).sure() == {"q0 q1 by x": (GroupLevel.BY_ADVICE, EXACT)}
    held = replace(ADVICE, lines=(("INV-10000", 90, 10), ("INV-10001", 250, 0)))
    found = Choice([*PAIR, *BATCH], [replace(ADVISED, amount=340), replace(BY_BATCH, id="y")], advices=[held])
    assert found.sure() == {
        "q0 q1 by x": (GroupLevel.BY_ADVICE, (Confidence.EXACT, Uniqueness.UNIQUE, False)),
        "b0 b1 by y": (GroupLevel.BY_KEY, EXACT),
    }
    assert found.chosen.settled.select("type", "amount_minor").rows() == [(AdjustmentType.DEDUCTION.value, 10)]


def test_what_is_quoted_by_a_few_characters_as_well() -> None:
    items = [*quoted(100, **PARTY), Item("s", amount=250, reference="7771", **PARTY)]
    found = Choice(items, [of(350, *items, iban="DE1")])
    assert found.sure() == {"q0 s by x": (GroupLevel.BY_QUOTES, HIGH)}


def test_a_line_of_instalments_may_quote_others_by_a_few_characters() -> None:
    short = [Item(f"s{at}", amount=minor, reference=f"777{at}", **PARTY) for at, minor in enumerate((100, 250))]
    lines = [of(350, *quoted(700), *short, iban="DE1"), of(350, *quoted(700), name="y", iban="DE1", day=DAY + 1)]
    found = Choice([*quoted(700, **PARTY), *short], lines)
    assert [level for level, _ in found.sure().values()] == [GroupLevel.BY_INSTALMENTS]
    assert {item for (item, _), reason in found.why().items() if reason is Reason.AMBIGUOUS} == {"s0", "s1"}
