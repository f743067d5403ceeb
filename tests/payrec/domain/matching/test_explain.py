from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.explain import AdjustmentFacts, ExpectedFacts, IncomingFacts, evidence, explanation
from payrec.domain.matching.explain_groups import GroupFacts, group_explanation
from payrec.domain.matching.rules import FEATURES, AdjustmentType, GroupLevel, Reason, Uniqueness
from payrec.domain.matching.weights import WEIGHTS

ITEM = ExpectedFacts(amount_minor=10_000, currency="EUR", due_on=date(2026, 5, 1), reference="INV-17")
LINE = IncomingFacts(amount_minor=10_000, currency="EUR", booking_on=date(2026, 5, 4))


def test_the_sentence_of_a_proof() -> None:
    levels = {"reference": 4, "amount": 1, "date": 1, "line": 1}
    assert explanation(levels, expected=ITEM, incoming=LINE) == (
        "Reference INV-17 is quoted in the remittance text, the amount is equal, booked 3 days after the due date; "
        "no other open item fits."
    )


def test_the_sentence_of_a_part_that_is_pending_and_contested() -> None:
    line = IncomingFacts(
        amount_minor=2_550, currency="EUR", booking_on=date(2026, 4, 30), counterparty_name="A\x00\n B"
    )
    levels = {"end_to_end": 2, "amount": 4, "date": 1, "account": 2, "name": 1, "own_account": 1, "line": 2}
    text = explanation(levels, expected=ITEM, incoming=line, status=Uniqueness.CONTESTED, rivals=1)
    assert text == (
        "The end-to-end id of the item is the payment's, 25.50 of 100.00 EUR is paid, the account of A B agrees, the "
        "counterparty's name differs, it arrived on another account than expected, booked 1 day before the due date, "
        "not booked yet; 1 other candidate fits as well."
    )


def test_evidence_names_the_levels_and_their_weights() -> None:
    assert evidence({"reference": 4, "amount": 1, "name": 0}) == [
        {"feature": "reference", "level": "full", "weight": 10_000},
        {"feature": "amount", "level": "equal", "weight": 5_000},
    ]
    with pytest.raises(ValueError, match="unknown features"):
        evidence({"colour": 1})
    with pytest.raises(ValueError, match="not a valid"):
        evidence({"amount": 99})


def test_every_level_has_a_weight_on_the_grid() -> None:
    assert list(WEIGHTS) == list(FEATURES)
    for feature, kind in FEATURES.items():
        assert [level.value for level in kind] == list(range(len(WEIGHTS[feature])))
        assert all(weight % 100 == 0 for weight in WEIGHTS[feature])


def test_reason_codes_are_the_interfaces() -> None:
    assert ", ".join(reason.code for reason in Reason) == (
        "no_candidate, ambiguous, amount_mismatch, date_out_of_window, currency_mismatch, duplicate, "
        "missing_reference, counterparty_mismatch, pending_only, budget_exhausted"
    )
    assert [reason.value for reason in Reason] == list(range(1, 11))


@settings(max_examples=100, deadline=None)
@given(
    levels=st.fixed_dictionaries({f: st.sampled_from([m.value for m in kind]) for f, kind in FEATURES.items()}),
    status=st.sampled_from(list(Uniqueness)),
    rivals=st.integers(0, 3),
    text=st.text(max_size=300),
    days=st.one_of(st.none(), st.dates()),
    span=st.tuples(st.one_of(st.none(), st.dates()), st.one_of(st.none(), st.dates())),
)
def test_any_levels_and_texts_make_one_bounded_line(
    levels: dict[str, int],
    status: Uniqueness,
    rivals: int,
    text: str,
    days: date | None,
    span: tuple[date | None, date | None],
) -> None:
    item = ExpectedFacts(
        amount_minor=2**63 - 1,
        currency="JPY",
        due_on=days,
        from_on=span[0],
        to_on=span[1],
        reference=text,
        end_to_end_id=text,
        counterparty_name=text,
    )
    line = IncomingFacts(amount_minor=1, currency="JPY", booking_on=days, counterparty_name=text)
    told = explanation(levels, expected=item, incoming=line, status=status, rivals=rivals)
    assert told.isprintable()
    assert told.endswith(".")
    assert len(told) < 1_000
    assert sum(e["weight"] for e in evidence(levels)) == sum(WEIGHTS[f][at] for f, at in levels.items())


def group_of(*members: str | None, **changes: Any) -> GroupFacts:
    facts = GroupFacts(amount_minor=30_000, currency="EUR", members=members, named=len(members) + 1, name="PO-7")
    return replace(facts, **changes)


OF_FEW = "Of the counterparty's 4 open invoices, A-1, A-2, A-3 sum to the payment's 300.00 EUR"
SUMS = {
    1: "The 3 invoices A-1, A-2, A-3 of group PO-7 sum to the payment's 300.00 EUR",
    2: "The 3 invoices A-1, A-2, A-3 that the payment quotes sum to its 300.00 EUR",
    3: "The 3 payments of A-1, A-2, A-3 that quote reference PO-7 sum to its 300.00 EUR",
    4: "Of the 4 invoices that the payment quotes, only A-1, A-2, A-3 sum to its 300.00 EUR",
    5: "Of the 4 payments that quote reference PO-7, only those of A-1, A-2, A-3 sum to its 300.00 EUR",
    6: "The 3 open invoices A-1, A-2, A-3, due one after the other, sum to the payment's 300.00 EUR",
    7: "The 3 open invoices A-1, A-2, A-3, due in a row but for one or two, sum to the payment's 300.00 EUR",
    8: OF_FEW,
    9: "The 3 equal payments of A-1, A-2, A-3 sum to the 300.00 EUR of reference PO-7",
    10: "The 3 invoices A-1, A-2, A-3 that the payment quotes, not all in full, sum to its 300.00 EUR",
    11: "A remittance advice lists the 3 invoices A-1, A-2, A-3 with the payment's 300.00 EUR",
    17: "The 3 invoices A-1, A-2, A-3 that the payment quotes, all but one, sum to its 300.00 EUR",
    18: f"{OF_FEW}, those that it quotes among them",
    15: "The 3 equal payments of A-1, A-2, A-3, not all of which say who pays, sum to the 300.00 EUR of reference PO-7",
}


@pytest.mark.parametrize(
    ("level", "told"),
    [
        (GroupLevel.BY_REFERENCES_LESS, "Invoice A-1 less credit note C-1, all quoted by the payment, leaves its"),
        (GroupLevel.BY_KEY_LESS, "Invoice A-1 less credit note C-1, all that is open of group PO-7, leaves the"),
        (GroupLevel.BY_CREDIT_NOTES, "Invoice A-1 that the payment quotes less credit note C-1 of the counterparty"),
        (GroupLevel.BY_KEY_NET, "Invoice A-1 less credit note C-1, all that is open of group PO-7, is paid with 300"),
    ],
)
def test_the_sentence_of_a_group_less_credit_notes(level: GroupLevel, told: str) -> None:
    assert {level for level in GroupLevel if level.less_credits} == set(LESS_ALONE)
    levels = {"amount": 1, "group": level.value}
    group = replace(group_of("A-1"), less=["C-1"], name="PO-7")
    sentence = group_explanation(levels, group=group, expected=ITEM, incoming=LINE)
    assert sentence.startswith(told)
    assert sentence.endswith(f"; {LESS_ALONE[level]}.")
    many = replace(group, members=["A-1", "A-2"], less=["C-1", "C-2"])
    sentence = group_explanation(levels, group=many, expected=ITEM, incoming=LINE)
    assert "the 2 invoices a-1, a-2" in sentence.lower()
    assert "less the 2 credit notes C-1, C-2" in sentence


LESS_ALONE = {
    GroupLevel.BY_REFERENCES_LESS: "nothing else claims any of them",
    GroupLevel.BY_KEY_LESS: "nothing else claims any of them",
    GroupLevel.BY_CREDIT_NOTES: "it names no credit note, and no other set of the open ones fits",
    GroupLevel.BY_KEY_NET: "nothing else claims any of them",
}


def test_the_sentence_of_a_batch_of_which_something_was_kept() -> None:
    fee = AdjustmentFacts(
        type=AdjustmentType.FEE, amount_minor=260, currency="EUR", of_line=False, settled_minor=9_740, rate=None
    )
    levels = {"amount": 1, "group": GroupLevel.BY_KEY_NET.value}
    told = group_explanation(levels, group=group_of("A-1", "A-2"), expected=ITEM, incoming=LINE, adjustments=[fee])
    assert told == (
        "The 2 invoices A-1, A-2, all that is open of group PO-7, are paid with 300.00 EUR, 2.60 EUR less than asked,"
        " taken as a fee; nothing else claims any of them."
    )


@pytest.mark.parametrize("level", [level for level in GroupLevel if level and not level.less_credits])
def test_the_sentence_of_a_group(level: GroupLevel) -> None:
    levels = {"amount": 1, "group": level.value}
    whole = level.proves or level is GroupLevel.BY_QUOTES
    alone = "nothing else claims any of them" if whole else "no other set of them does"
    if level.blind:
        alone = "nobody named them, and no other set that was tried has the sum"
    if level is GroupLevel.BY_REFERENCES_AND_MORE:
        alone = "nobody named the others, and no other set with those that was tried has the sum"
    if level is GroupLevel.BY_REFERENCES_AND_ONE:
        alone = "no other open one of the counterparty is the rest"
    told = group_explanation(levels, group=group_of("A-1", "A-2", "A-3"), expected=ITEM, incoming=LINE)
    assert told == f"{SUMS[level]}; {alone}."


@pytest.mark.parametrize(
    ("level", "contested"),
    [
        (GroupLevel.BY_RUN, "nobody named them, and other sets have the sum as well."),
        (GroupLevel.BY_REFERENCES_AND_MORE, "others claim some of them as well."),
    ],
)
def test_the_sentence_of_a_set_beside_which_there_is_something_else(level: GroupLevel, contested: str) -> None:
    levels, status = {"amount": 1, "group": level.value}, Uniqueness.CONTESTED
    told = group_explanation(levels, group=group_of("A-1", "A-2"), expected=ITEM, incoming=LINE, status=status)
    assert told.endswith(f"; {contested}")


def test_the_sentence_of_a_group_with_all_there_is_to_say() -> None:
    levels = {"amount": 1, "date": 2, "name": 1, "line": 2, "group": 1}
    members = [f"A-{at}" for at in range(10)]
    told = group_explanation(
        levels, group=group_of(*members), expected=ITEM, incoming=LINE, status=Uniqueness.CONTESTED
    )
    assert told == (
        "The 10 invoices A-0, A-1, A-2, A-3, A-4, A-5 and 4 more of group PO-7 sum to the payment's 300.00 EUR, the "
        "counterparty's name differs, booked within 14 days of every due date, not booked yet; others claim some of "
        "them as well."
    )
    one = group_explanation(levels | {"name": 0}, group=group_of("A-0"), expected=ITEM, incoming=LINE)
    assert one.startswith("Invoice A-0 is all that is open of group PO-7 and has the payment's 300.00 EUR, booked")
    silent = group_explanation(levels, group=group_of(None, None), expected=ITEM, incoming=LINE)
    assert silent.startswith("The 2 invoices of group PO-7 sum")


@settings(max_examples=50, deadline=None)
@given(
    levels=st.fixed_dictionaries({f: st.sampled_from([m.value for m in kind]) for f, kind in FEATURES.items()}),
    status=st.sampled_from(list(Uniqueness)),
    members=st.lists(st.one_of(st.none(), st.text(max_size=300)), max_size=20),
)
def test_any_group_makes_one_bounded_line(
    levels: dict[str, int], status: Uniqueness, members: list[str | None]
) -> None:
    group = group_of(*members, name=members[0] if members else None)
    told = group_explanation(levels, group=group, expected=ITEM, incoming=LINE, status=status)
    assert told.isprintable()
    assert told.endswith(".")
    assert len(told) < 1_500
