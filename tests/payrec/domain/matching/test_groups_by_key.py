"""Batches by themselves: which line pays all items of a group id, why others do not, and what is in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from payrec.domain.matching import block
from payrec.domain.matching.groups import KEY_SCORE
from payrec.domain.matching.line_rules import Bounds, LineRule, Required, Scope
from payrec.domain.matching.rules import GROUP_LEGS_MAX, AmountLevel, GroupLevel, MatchingRules, Reason
from payrec.domain.matching.weights import WEIGHTS
from support.explicit_groups import RULES, Look, only, said
from support.matching_frames import DAY, DUE_IN_TIME, Item, Line

KEY = "PO-2026-7"
NEARLY = KEY_SCORE - WEIGHTS["amount"][AmountLevel.EQUAL]
AMOUNT, DATES, AGAIN = Reason.AMOUNT_MISMATCH, Reason.DATE_OUT_OF_WINDOW, Reason.AMBIGUOUS
BUDGET, OTHERS, SILENT = Reason.BUDGET_EXHAUSTED, Reason.COUNTERPARTY_MISMATCH, Reason.MISSING_REFERENCE


def batch(*amounts: int, group: str = KEY, **more: Any) -> list[Item]:
    return [Item(f"{group}/{at}", amount=amount, group=group, **more) for at, amount in enumerate(amounts)]


ONE, TWO = f"{KEY}/0", f"{KEY}/1"
PAYS = Line("x", amount=350, group=KEY)


def test_a_batch_is_one_group_with_the_amounts_of_its_items() -> None:
    found = Look(batch(100, 250), [PAYS, Line("other", amount=350)]).by_key()
    assert list(found.groups) == [frozenset({(ONE, "x"), (TWO, "x")})]
    assert found.amounts == {(ONE, "x"): 100, (TWO, "x"): 250}
    row = only(found)
    assert said(row) == (GroupLevel.BY_KEY, 1, 2, 0, False)
    assert (row["key"] is not None, row["coincidences_ppm"]) == (True, None)
    assert (found.findings, found.doubtful) == ({}, (set(), set()))
    assert len(found.claims) == 1


def test_each_batch_is_a_group_of_its_own_and_others_of_its_sum_are_counted() -> None:
    items = [*batch(100, 250), *batch(30, 40, 50, group="PO-2026-8")]
    lines = [
        *(replace(PAYS, id=name, text=f"no {at}", day=DAY + at) for at, name in enumerate(("x", "y", "z"))),
        Line("b", amount=120, group="PO-2026-8"),
    ]
    found = Look(items, lines).by_key()
    by_size = {len(ends): row for ends, row in found.groups.items()}
    assert [said(by_size[size]) for size in (2, 3)] == [
        (GroupLevel.BY_KEY, 1, 2, 2, False),
        (GroupLevel.BY_KEY, 1, 3, 0, False),
    ]
    assert by_size[2]["key"] != by_size[3]["key"]
    # The first by content is proposed; the others fit as well, and all items of the batch say so of the next one.
    assert found.findings == {
        (ONE, "y"): (AGAIN, True, 0, 0),
        (ONE, "z"): (AGAIN, True, 0, 0),
        (TWO, "y"): (AGAIN, True, 0, 0),
    }
    assert set(found.scores.values()) == {NEARLY}
    assert found.doubtful == (set(), set())


@pytest.mark.parametrize(("amount", "difference"), [(349, -1), (351, 1), (7, -343)])
def test_what_is_paid_less_than_a_batch_is_told_of_the_line_and_of_each_item(amount: int, difference: int) -> None:
    found = Look(batch(100, 250), [replace(PAYS, amount=amount)]).by_key()
    assert not found.groups
    assert found.findings == dict.fromkeys([(ONE, "x"), (TWO, "x")], (AMOUNT, False, 0, difference))
    assert len(found.claims) == 1, "it is claimed all the same"


@pytest.mark.parametrize(("due", "timely"), DUE_IN_TIME)
def test_a_batch_is_paid_within_the_window_of_each_of_its_items(*, due: int | None, timely: bool) -> None:
    for items in (batch(350, due=due), [*batch(100, due=due), replace(batch(0, 250)[1], due=DAY)]):
        found = Look(items, [PAYS]).by_key()
        assert len(found.groups) == timely
        assert set(found.findings.values()) == (set() if timely else {(DATES, False, 1, 0)})


def test_the_days_of_a_batch_are_those_that_all_of_its_items_have_in_common() -> None:
    early, late = batch(100, due=None, span=(DAY - 70, DAY - 65)), batch(0, 250, due=None, span=(DAY + 34, DAY + 40))
    found = Look([early[0], late[1]], [PAYS]).by_key()
    assert found.findings[ONE, "x"] == (DATES, False, 5, 0)
    assert Look([early[0], *batch(0, 250)[1:]], [PAYS]).by_key().findings[ONE, "x"] == (DATES, False, 5, 0)
    assert Look([*batch(100), late[1]], [PAYS]).by_key().findings[TWO, "x"] == (DATES, False, 4, 0)


def test_a_line_without_a_day_pays_a_batch_of_any() -> None:
    assert Look(batch(100, 250, due=DAY - 900), [replace(PAYS, day=None)]).by_key().groups


def of_line(**bounds: Any) -> MatchingRules:
    return replace(RULES, line_rules=(LineRule(name="r", scope=Scope(minor_min=350), bounds=Bounds(**bounds)),))


def test_the_window_of_a_batch_is_that_of_its_line() -> None:
    for due in (DAY - 3, DAY + 2):
        for bounds, groups in (((2, 3), 1), ((1, 3), due < DAY), ((2, 2), due > DAY)):
            before, after = bounds
            rules = of_line(date_window_days_before=before, date_window_days_after=after)
            assert len(Look(batch(100, 250, due=due), [PAYS], rules).by_key().groups) == groups


@pytest.mark.parametrize(
    ("required", "reason"),
    [
        (Required.NOTHING, None),
        (Required.REFERENCE, None),  # the group id is as good
        (Required.GROUP_KEY, None),
        (Required.END_TO_END_ID, SILENT),
        (Required.COUNTERPARTY_NAME, OTHERS),
        (Required.COUNTERPARTY_ACCOUNT, OTHERS),
        (Required.END_TO_END_ID | Required.COUNTERPARTY_NAME, SILENT),
    ],
)
def test_what_is_required_of_who_pays_a_batch(required: Required, reason: Reason | None) -> None:
    found = Look(batch(100, 250), [PAYS], replace(RULES, required=required)).by_key()
    assert len(found.groups) == (reason is None)
    assert {why[:2] for why in found.findings.values()} == (set() if reason is None else {(reason, False)})


def test_the_amount_is_told_before_the_dates_and_these_before_what_is_missing() -> None:
    strict = replace(RULES, required=Required.COUNTERPARTY_NAME)
    late = batch(100, 250, due=DAY - 61)
    assert {why[0] for why in Look(late, [replace(PAYS, amount=1)], strict).by_key().findings.values()} == {AMOUNT}
    assert {why[0] for why in Look(late, [PAYS], strict).by_key().findings.values()} == {DATES}


def test_a_batch_of_more_items_than_a_group_may_have_is_none() -> None:
    most = batch(*[1] * GROUP_LEGS_MAX)
    assert Look(most, [replace(PAYS, amount=GROUP_LEGS_MAX)]).by_key().groups
    more = [*most, Item("one more", amount=1, group=KEY)]
    found = Look(more, [replace(PAYS, amount=GROUP_LEGS_MAX + 1)]).by_key()
    assert not found.groups
    assert set(found.findings.values()) == {(BUDGET, False, 0, 0)}


QUOTED = [replace(item, reference=f"INV-1000{at}") for at, item in enumerate(batch(100, 250))]
PROVES = Line("y", amount=250, text="INV-10001")


def test_who_pays_an_item_of_a_batch_by_proof_leaves_doubt_of_the_batch() -> None:
    found = Look(QUOTED, [PAYS, PROVES]).by_key()
    assert not found.groups
    assert found.findings[ONE, "x"] == found.findings[TWO, "x"] == (AGAIN, True, 0, 0)
    assert found.doubtful == ({ONE, TWO}, {"x"})
    # A proof of another amount is no better.
    assert Look(QUOTED, [PAYS, replace(PROVES, amount=249)]).by_key().groups


def test_a_line_that_pays_an_item_by_proof_pays_no_batch() -> None:
    items = [*QUOTED, Item("own", amount=350, reference="INV-20000")]
    found = Look(items, [replace(PAYS, text="INV-20000")]).by_key()
    assert not found.groups
    assert found.doubtful == ({ONE, TWO}, {"x"})


def test_where_the_proof_says_the_same_as_the_batch_nobody_doubts() -> None:
    alone = replace(batch(350)[0], reference="INV-10000")
    found = Look([alone], [replace(PAYS, text="INV-10000")]).by_key()
    assert (found.groups, found.doubtful) == ({}, (set(), set()))
    # But whoever has the sum beside it does.
    found = Look([alone], [replace(PAYS, text="INV-10000"), replace(PAYS, id="z")]).by_key()
    assert (found.groups, found.doubtful) == ({}, ({ONE}, {"z"}))


def test_a_batch_of_which_a_pair_was_rejected_is_not_claimed_by_that_line() -> None:
    items = [*batch(100, 250), *batch(350, group="PO-2026-8")]
    line = replace(PAYS, text="PO-2026-8")
    found = Look(items, [line], rejected=[(TWO, "x")]).by_key()
    assert list(found.groups) == [frozenset({("PO-2026-8/0", "x")})]
    assert (found.findings, found.claims) == ({}, {("PO-2026-8/0", "x")})
    assert len(Look(items, [line]).by_key().groups) == 2


def test_what_was_rejected_of_one_batch_and_line_leaves_the_others() -> None:
    items, amounts = [], (350, 30, 40)
    for at, amount in enumerate(amounts):
        items += batch(amount, group=f"PO-2026-{at}")
    lines = [Line(f"x{at}", amount=amount, group=f"PO-2026-{at}") for at, amount in enumerate(amounts)]
    ends = [(item.id, line.id) for item, line in zip(items, lines, strict=True)]
    for rejected in ends:
        found = Look(items, lines, rejected=[rejected]).by_key()
        assert {pair for of_group in found.groups for pair in of_group} == found.claims == set(ends) - {rejected}


def test_without_group_ids_nothing_is_claimed() -> None:
    for items, lines in (([Item("e")], [PAYS]), (batch(350), [Line("x", amount=350)])):
        found = Look(items, lines).by_key()
        assert (found.groups, found.findings, found.claims, found.doubtful) == ({}, {}, set(), (set(), set()))


def test_the_sum_of_a_batch_does_not_wrap() -> None:
    most = 2**63 - 1
    found = Look(batch(most, most, 352), [PAYS]).by_key()
    assert not found.groups
    assert found.findings[ONE, "x"] == (AMOUNT, False, 0, None)


def test_the_ids_that_most_lines_name_are_not_looked_at_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "PAIRS_MIN", 1)
    # Eight rows, and nine namings: the id that four lines name is beyond the budget.
    items = [*batch(100, 250), *batch(7, group="PO-2026-8")]
    lines = [replace(PAYS, id=name, text="PO-2026-8", day=DAY + at) for at, name in enumerate("wxyz")]
    lines.append(Line("b", amount=7, group="PO-2026-8"))
    assert len(Look(items, lines).sides.expected) + len(lines) == 8
    found = Look(items, lines).by_key()
    assert [len(ends) for ends in found.groups] == [2]
    [of_both] = found.groups
    assert {i for _, i in of_both} == {"w"}
    beyond = {("PO-2026-8/0", name) for name in "wxyzb"}
    told = {ends: why for ends, why in found.findings.items() if ends in beyond}
    assert told == dict.fromkeys(beyond, (BUDGET, True, None, None))
    assert {found.scores[ends] for ends in beyond} == {KEY_SCORE}
    assert found.doubtful == (set(), set("wxyzb"))
