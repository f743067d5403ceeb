"""What is quoted by itself: members and their sums, what is searched, what comes to nothing and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from payrec.domain.matching.groups import no_groups
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.rules import SUBSET_MEMBERS_MAX, GroupLevel, Reason
from support.explicit_groups import RULES, Found, Look, only, said
from support.matching_frames import Item, Line

AMOUNT, AGAIN, BUDGET = Reason.AMOUNT_MISMATCH, Reason.AMBIGUOUS, Reason.BUDGET_EXHAUSTED


def items_of(*amounts: int, **more: Any) -> list[Item]:
    return [Item(f"e{at}", amount=amount, reference=f"INV-1{at:04}", **more) for at, amount in enumerate(amounts)]


def all_of(items: Sequence[Item]) -> str:
    return " ".join(str(item.reference) for item in items)


def quoting(amount: int, items: Sequence[Item], **more: Any) -> Line:
    return replace(Line("x", amount=amount, text=all_of(items)), **more)


def parts(*amounts: int) -> list[Line]:
    return [Line(f"x{at}", amount=amount, text=f"INV-10000 {at}") for at, amount in enumerate(amounts)]


def test_what_is_quoted_and_sums_up_is_a_group_with_the_amounts_of_its_members() -> None:
    items = items_of(100, 250)
    found = Look(items, [quoting(350, items)]).by_items()
    assert said(only(found)) == (GroupLevel.BY_REFERENCES, 1, 2, 0, False)
    assert (found.amounts, found.findings) == ({("e0", "x"): 100, ("e1", "x"): 250}, {})
    found = Look(items_of(350), parts(100, 250)).by_lines()
    assert said(only(found)) == (GroupLevel.BY_INSTALMENTS, 1, 2, 0, False)
    assert (found.amounts, found.findings) == ({("e0", "x0"): 100, ("e0", "x1"): 250}, {})


def test_the_only_set_is_found_among_members_that_are_too_much() -> None:
    items = items_of(100, 250, 70)
    found = Look(items, [quoting(350, items)]).by_items()
    assert said(only(found)) == (GroupLevel.BY_SOME_REFERENCES, 8, 3, 0, False)
    assert found.amounts == {("e0", "x"): 100, ("e1", "x"): 250}
    found = Look(items_of(350), parts(100, 250, 70)).by_lines()
    assert said(only(found)) == (GroupLevel.BY_SOME_INSTALMENTS, 8, 3, 0, False)
    assert found.amounts == {("e0", "x0"): 100, ("e0", "x1"): 250}


def test_several_lines_have_a_group_each() -> None:
    items = items_of(100, 250, 30, 40, 50)
    lines = [quoting(350, items[:2]), quoting(80, items[2:], id="y")]
    found = Look(items, lines).by_items()
    assert set(found.groups) == {frozenset({("e0", "x"), ("e1", "x")}), frozenset({("e2", "y"), ("e4", "y")})}


def test_who_has_more_than_the_sum_of_one_quoted_item_has_no_group() -> None:
    found = Look(items_of(100), [quoting(350, items_of(100))]).by_items()
    assert (found.groups, found.findings) == ({}, {})


def test_why_quoted_items_are_no_group() -> None:
    for amounts, paid, why in (
        ((100, 250), 351, (AMOUNT, True, 0, 1)),
        ((100, 250, 30), 351, (AMOUNT, True, 0, -29)),
        ((100, 250, 250), 350, (AGAIN, True, 0, -250)),
    ):
        items = items_of(*amounts)
        look = Look(items, [quoting(paid, items)])
        found = look.by_items()
        assert not found.groups
        assert found.findings == {(item.id, "x"): why for item in items}
        # It is told before what keeps each from being a pair.
        scores = dict(zip(look.ends(look.proofs.fitting), look.proofs.fitting["score_milli"], strict=True))
        assert found.scores == {ends: score + 1 for ends, score in scores.items()}


def test_instalments_that_are_another_sum_are_parts_and_those_of_several_sets_ambiguous() -> None:
    for amounts in ((100, 249), (100, 251, 40)):
        found = Look(items_of(350), parts(*amounts)).by_lines()
        assert (found.groups, found.findings) == ({}, {})
    found = Look(items_of(350), parts(100, 250, 250)).by_lines()
    assert found.findings == {("e0", f"x{at}"): (AGAIN, True, 0, 250) for at in range(3)}


@pytest.mark.parametrize("of_lines", [True, False])
def test_a_search_is_among_a_few_and_a_sum_among_as_many_as_the_rules_say(*, of_lines: bool) -> None:
    few = SUBSET_MEMBERS_MAX

    def found(amounts: Sequence[int], target: int, size: int) -> Found:
        rules = replace(RULES, group_size_max=size)
        items = items_of(*amounts)
        if of_lines:
            return Look(items, [quoting(target, items)], rules).by_items()
        return Look(items_of(target), parts(*amounts), rules).by_lines()

    amounts = [2**at for at in range(few + 1)]
    assert only(found(amounts[:few], 2**few - 2, few - 1))["tried"] == 2**few
    assert {why[0] for why in found(amounts[:few], 2**few - 2, few - 2).findings.values()} == {BUDGET}
    beyond = found(amounts, 2**few + 2, 50)
    assert (beyond.groups, {why[0] for why in beyond.findings.values()}) == ({}, {BUDGET})
    # All of them together need no search.
    assert only(found(amounts, 2 ** (few + 1) - 1, few + 1))["tried"] == 1
    assert {why[0] for why in found(amounts, 2 ** (few + 1) - 1, few).findings.values()} == {BUDGET}


def test_what_is_quoted_and_not_in_time_is_claimed_and_no_member() -> None:
    items = [*items_of(100, 250), Item("old", amount=7, reference="INV-19999", due=20_000)]
    look = Look(items, [quoting(350, items)])
    assert said(only(look.by_items())) == (GroupLevel.BY_SOME_REFERENCES, 1, 3, 0, False)
    assert set(look.ends(look.proofs.claimed)) == {("e0", "x"), ("e1", "x"), ("old", "x")}
    assert set(look.ends(look.proofs.fitting)) == {("e0", "x"), ("e1", "x")}


def test_as_much_as_the_line_or_proved_in_whole_leaves_no_group() -> None:
    items = items_of(100, 250, 350)
    assert not Look(items, [quoting(350, items)]).by_items().groups
    assert Look(items_of(100, 250, 351), [quoting(350, items)]).by_items().groups


def test_a_repetition_proves_nothing() -> None:
    look = Look(items_of(100), [quoting(100, items_of(100), duplicate=True)])
    assert look.proofs.claimed.is_empty()
    look = Look(items_of(100), [quoting(100, items_of(100))])
    assert look.ends(look.proofs.claimed) == look.ends(look.proofs.settled) == [("e0", "x")]
    assert look.ends(Look(items_of(100), [quoting(99, items_of(100))]).proofs.settled) == []


def test_without_pairs_there_are_no_proofs() -> None:
    look = Look(items_of(100), [Line("x", amount=7)])
    assert (look.by_items().groups, look.by_lines().groups, look.by_short().groups) == ({}, {}, {})
    there = Look(items_of(100), [quoting(100, items_of(100))]).proofs
    for name in ("claimed", "settled"):
        assert getattr(look.proofs, name).schema == getattr(there, name).schema
    assert (look.proofs.fitting.columns, look.proofs.short.columns) == (there.fitting.columns, there.short.columns)
    assert no_groups() is no_groups()


PAYER: dict[str, Any] = {"name": "Alpha", "iban": "DE1"}


def short_items(*amounts: int) -> list[Item]:
    return [Item(f"e{at}", amount=amount, reference=f"{3670 + at}", **PAYER) for at, amount in enumerate(amounts)]


def short_line(amount: int, items: Sequence[Item], **more: Any) -> Line:
    return quoting(amount, items, **PAYER | more)


def test_short_references_of_the_payer_that_sum_up_are_a_group() -> None:
    items = short_items(100, 250)
    found = Look(items, [short_line(350, items)]).by_short()
    assert said(only(found)) == (GroupLevel.BY_QUOTES, 1, 2, 0, False)
    assert found.amounts == {("e0", "x"): 100, ("e1", "x"): 250}
    mixed = [replace(items[0], reference="INV-10000"), items[1]]
    assert said(only(Look(mixed, [short_line(350, mixed)]).by_short())) == (GroupLevel.BY_QUOTES, 1, 2, 0, False)
    # What is proved, and quoted by a short id as well, counts once.
    proved = [replace(mixed[0], end_to_end_id="3670"), items[1]]
    found = Look(proved, [short_line(350, mixed, end_to_end_id="3670")]).by_short()
    assert found.amounts == {("e0", "x"): 100, ("e1", "x"): 250}
    by_id = [items[0], replace(items[1], reference=None, end_to_end_id="3671")]
    assert Look(by_id, [short_line(350, items)]).by_short().groups
    two = [short_line(350, items), short_line(70, [], id="y", text="3672 3673")]
    more = [*items, *(replace(item, id=f"more{item.id}") for item in short_items(1, 1, 30, 40)[2:])]
    assert len(Look(more, two).by_short().groups) == 2


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({}, {"amount": 349}),
        ({}, {"amount": 351}),
        ({}, {"duplicate": True}),
        ({}, {"name": "Omega", "iban": "DE9"}),
        ({"due": 20_000}, {}),
        ({"amount": 350}, {}),
        ({"amount": 900}, {}),
    ],
)
def test_what_is_no_group_of_short_references(item: dict[str, Any], line: dict[str, Any]) -> None:
    items = short_items(100, 250)
    changed = [replace(items[0], **item), items[1]]
    assert not Look(changed, [replace(short_line(350, items), **line)]).by_short().groups


def test_short_references_are_no_group_beside_a_better_one_of_the_line() -> None:
    items = [*items_of(100, 250, **PAYER), Item("own", amount=350, reference="INV-20000", **PAYER)]
    short = [replace(item, id=f"s{item.id}") for item in short_items(100, 250)]
    quoted = short_line(350, [*items[:2], *short])
    assert Look(short, [quoted]).by_short().groups
    # A group by proof, or an item of its own amount.
    assert not Look([*items[:2], *short], [quoted]).by_short().groups
    of_own = short_line(350, [items[2], *short])
    assert not Look([items[2], *short], [of_own]).by_short().groups
    assert (
        not Look([replace(items[2], reference="3679"), *short], [replace(of_own, text="3679 3670 3671")])
        .by_short()
        .groups
    )


def test_short_references_are_as_many_as_the_rules_say() -> None:
    items = short_items(10, 20, 30)
    for size, groups in ((3, 1), (2, 0)):
        found = Look(items, [short_line(60, items)], replace(RULES, group_size_max=size)).by_short()
        assert len(found.groups) == groups


@pytest.mark.parametrize(
    ("required", "groups"), [(Required.COUNTERPARTY_NAME, 1), (Required.REFERENCE, 1), (Required.END_TO_END_ID, 0)]
)
def test_short_references_have_what_is_required_of_each(required: Required, groups: int) -> None:
    items = short_items(100, 250)
    found = Look(items, [short_line(350, items)], replace(RULES, required=required)).by_short()
    assert len(found.groups) == groups


def test_each_line_and_each_item_has_a_search_of_its_own() -> None:
    items = items_of(100, 250, 70, 30, 40, 50)
    lines = [quoting(350, items[:3]), quoting(90, items[3:], id="y")]
    found = Look(items, lines).by_items()
    assert set(found.groups) == {frozenset({("e0", "x"), ("e1", "x")}), frozenset({("e4", "y"), ("e5", "y")})}
    assert {row["tried"] for row in found.groups.values()} == {8}
    whole = [replace(item, amount=350) for item in items_of(0, 0)]
    instalments = [
        Line(f"{item.id}/{at}", amount=amount, text=f"{item.reference} {at}")
        for item in whole
        for at, amount in enumerate((100, 250, 70))
    ]
    found = Look(whole, instalments).by_lines()
    assert set(found.groups) == {frozenset({(e, f"{e}/0"), (e, f"{e}/1")}) for e in ("e0", "e1")}


def test_sums_of_what_is_quoted_do_not_wrap() -> None:
    most = 2**63 - 1
    items = items_of(most - 1, most - 1, most - 1)
    found = Look(items, [quoting(most, items)]).by_items()
    assert (found.groups, set(found.findings.values())) == ({}, {(AMOUNT, True, 0, None)})
