from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from payrec.domain.matching.explain_money import EndFacts, money_explanation
from payrec.domain.matching.rules import MatchKind, Uniqueness

IN = EndFacts(amount_minor=10_000, settled_minor=10_000, currency="EUR", day=date(2026, 3, 12), own_account="SAVINGS")
OUT = EndFacts(amount_minor=10_000, settled_minor=10_000, currency="EUR", day=date(2026, 3, 10), own_account="GIRO")
ALPHA: dict[str, Any] = {"counterparty_name": "Alpha GmbH"}


@pytest.mark.parametrize(
    ("kind", "levels", "credit", "debit", "told"),
    [
        (
            MatchKind.TRANSFER,
            {"amount": 1, "account": 2},
            replace(IN, counterparty_account="GIRO"),
            OUT,
            (
                "100.00 EUR moved from GIRO to SAVINGS, one names the account of the other, booked 2 days apart;"
                " no other line fits."
            ),
        ),
        (
            MatchKind.TRANSFER,
            {"amount": 1, "account": 2, "end_to_end": 2, "line": 2},
            replace(IN, counterparty_account="GIRO", end_to_end_id="T-1", day=date(2026, 3, 10)),
            replace(OUT, counterparty_account="SAVINGS"),
            (
                "100.00 EUR moved from GIRO to SAVINGS, both have the end-to-end id T-1, each names the account of the"
                " other, booked on the same day, not booked yet; no other line fits."
            ),
        ),
        (
            MatchKind.TRANSFER,
            {"amount": 1, "reference": 4},
            replace(IN, own_account=None),
            replace(OUT, group_key="PO-2026-7", day=None),
            "100.00 EUR moved from GIRO to another own account, both name the payout PO-2026-7; no other line fits.",
        ),
        (
            MatchKind.REFUND,
            {"amount": 1, "reference": 4, "account": 2, "name": 2},
            replace(OUT, **ALPHA),
            replace(IN, **ALPHA),
            (
                "A payment of 100.00 EUR was given back, both quote the same reference, name and account of Alpha GmbH"
                " agree, 2 days later; no other line fits."
            ),
        ),
        (
            MatchKind.REFUND,
            {"amount": 4, "reference": 4, "account": 1, "name": 2},
            replace(IN, amount_minor=4_000, **ALPHA),
            replace(OUT, settled_minor=4_000),
            (
                "40.00 EUR of a payment of 100.00 EUR were given back, both quote the same reference, the"
                " counterparty's account differs, the name Alpha GmbH agrees, 2 days later; no other line fits."
            ),
        ),
        (
            MatchKind.REFUND,
            {"amount": 4, "account": 2},
            replace(IN, amount_minor=4_000, day=date(2026, 3, 10)),
            replace(OUT, settled_minor=4_000),
            (
                "40.00 EUR of a payment of 100.00 EUR were given back, the account of the counterparty agrees, booked"
                " on the same day; no other line fits."
            ),
        ),
        (
            MatchKind.CREDIT_NOTE,
            {"amount": 4, "reference": 4, "account": 2},
            replace(IN, reference="INV-1", settled_minor=2_000),
            replace(OUT, reference="CN-1", amount_minor=2_000, **ALPHA),
            (
                "Credit note CN-1 of 20.00 EUR settles a part of invoice INV-1, one names the other, the account of"
                " Alpha GmbH agrees; no other item fits."
            ),
        ),
        (
            MatchKind.CREDIT_NOTE,
            {"amount": 1, "end_to_end": 2, "name": 1},
            replace(IN, end_to_end_id="E-1"),
            OUT,
            (
                "Credit note without a reference of 100.00 EUR settles all of invoice without a reference, both have"
                " the end-to-end id E-1, the counterparty's name differs; no other item fits."
            ),
        ),
    ],
)
def test_a_sentence_says_why_they_belong_together(
    kind: MatchKind, levels: dict[str, int], credit: EndFacts, debit: EndFacts, told: str
) -> None:
    assert money_explanation(kind, levels, credit=credit, debit=debit) == told


def told_of(kind: MatchKind, levels: dict[str, int], credit: EndFacts, debit: EndFacts) -> str:
    """Return what is said of the two, without what is said of others."""
    return money_explanation(kind, levels, credit=credit, debit=debit).partition("; ")[0]


NOBODY = EndFacts(amount_minor=10_000, settled_minor=10_000, currency="KWD")


@pytest.mark.parametrize(
    ("levels", "debit", "told"),
    [
        ({}, NOBODY, "nothing names payout of that amount but its amount"),
        ({"line": 1}, replace(NOBODY, group_key="PO-7"), "nothing names payout PO-7 but its amount"),
        ({"reference": 4}, NOBODY, "both name the payout by its id"),
        ({"end_to_end": 2}, NOBODY, "both have the end-to-end id of the other"),
        (
            {"end_to_end": 2, "name": 1},
            NOBODY,
            "both have the end-to-end id of the other, the names of their counterparties differ",
        ),
        ({"line": 2}, NOBODY, "nothing names payout of that amount but its amount, not booked yet"),
    ],
)
def test_a_transfer_by_what_nobody_says(levels: dict[str, int], debit: EndFacts, told: str) -> None:
    moved = "10.000 KWD moved from one own account to another own account"
    assert told_of(MatchKind.TRANSFER, levels, NOBODY, debit) == f"{moved}, {told}"


def test_a_payout_is_named_by_whichever_side_has_its_id() -> None:
    told = told_of(MatchKind.TRANSFER, {"reference": 4}, replace(IN, group_key="PO-7"), OUT)
    assert told == "100.00 EUR moved from GIRO to SAVINGS, both name the payout PO-7, booked 2 days apart"


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ({"account": 2, "name": 2}, ["name and account of the counterparty agree"]),
        ({"account": 2, "name": 1}, ["the account of the counterparty agrees", "the counterparty's name differs"]),
        ({"name": 2}, ["the name the counterparty agrees"]),
        ({"reference": 3, "end_to_end": 3}, []),
        ({"end_to_end": 2}, ["both have the end-to-end id E-1"]),
    ],
)
def test_a_refund_without_a_name_or_a_day(levels: dict[str, int], told: list[str]) -> None:
    given_back = "A payment of 10.000 KWD was given back"
    credit = replace(NOBODY, end_to_end_id="E-1")
    assert told_of(MatchKind.REFUND, levels, credit, NOBODY) == ", ".join([given_back, *told])


@pytest.mark.parametrize(
    ("came", "went", "told"),
    [
        (IN.day, None, "40.00 EUR of a payment of 100.00 EUR were given back"),
        (None, OUT.day, "40.00 EUR of a payment of 100.00 EUR were given back"),
        (OUT.day, OUT.day, "40.00 EUR of a payment of 100.00 EUR were given back, booked on the same day"),
        (IN.day, OUT.day, "40.00 EUR of a payment of 100.00 EUR were given back, 2 days later"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_given_back_is_less_than_what_was_paid(
    came: date | None, went: date | None, told: str, *, turned: bool
) -> None:
    back, paid = replace(IN, amount_minor=4_000, day=came), replace(OUT, settled_minor=4_000, day=went)
    credit, debit = (paid, back) if turned else (back, paid)
    assert told_of(MatchKind.REFUND, {}, credit, debit) == told


INVOICE = EndFacts(
    amount_minor=10_000, settled_minor=10_000, currency="EUR", reference="INV-2026-1", end_to_end_id="E-1"
)
NOTE = EndFacts(amount_minor=10_000, settled_minor=10_000, currency="EUR", reference="CN-2026-1")


@pytest.mark.parametrize(
    ("invoice", "note", "told"),
    [
        # Who names the other is the credit note, however much either is of.
        ({}, {"group_key": "inv 2026-1"}, "CN-2026-1 of 100.00 EUR settles all of invoice INV-2026-1"),
        ({}, {"end_to_end_id": "INV-2026-1"}, "CN-2026-1 of 100.00 EUR settles all of invoice INV-2026-1"),
        (
            {"amount_minor": 6_000},
            {"group_key": "INV-2026-1"},
            "CN-2026-1 of 100.00 EUR settles all of invoice INV-2026-1",
        ),
        # Where neither does, or each the other, it is the smaller one.
        ({"group_key": "P-7"}, {"amount_minor": 1, "group_key": "P-7"}, "CN-2026-1 of 0.01 EUR settles a part of"),
        (
            {"group_key": "CN-2026-1"},
            {"amount_minor": 1, "group_key": "INV-2026-1"},
            "CN-2026-1 of 0.01 EUR settles a part of invoice INV-2026-1",
        ),
        (
            {"reference": None},
            {"amount_minor": 1},
            "CN-2026-1 of 0.01 EUR settles a part of invoice without a reference",
        ),
    ],
)
@pytest.mark.parametrize("owed", [True, False])
def test_which_of_the_two_is_the_credit_note(
    invoice: dict[str, Any], note: dict[str, Any], told: str, *, owed: bool
) -> None:
    ends = replace(INVOICE, **invoice), replace(NOTE, **note)
    settled = min(end.amount_minor for end in ends)
    ends = replace(ends[0], settled_minor=settled), replace(ends[1], settled_minor=settled)
    credit, debit = ends if owed else ends[::-1]
    assert told_of(MatchKind.CREDIT_NOTE, {}, credit, debit).startswith(f"Credit note {told}")


def test_of_equal_items_that_do_not_name_each_other_what_is_owed_is_the_invoice() -> None:
    told = told_of(MatchKind.CREDIT_NOTE, {}, INVOICE, NOTE)
    assert told == "Credit note CN-2026-1 of 100.00 EUR settles all of invoice INV-2026-1"


def test_what_is_left_of_a_credit_note_may_settle_a_part_of_what_is_less() -> None:
    left = replace(INVOICE, amount_minor=6_000, settled_minor=4_000), replace(NOTE, group_key="INV-2026-1")
    told = told_of(MatchKind.CREDIT_NOTE, {}, *left)
    assert told == "Credit note CN-2026-1 of 100.00 EUR settles a part of invoice INV-2026-1"


@pytest.mark.parametrize(
    ("status", "rivals", "told"),
    [
        (Uniqueness.UNIQUE, 1, "no other line fits as well"),
        (Uniqueness.CONTESTED, 1, "another line would fit as well, but less near"),
        (Uniqueness.AMBIGUOUS, 1, "another line fits just as well"),
        (Uniqueness.UNBOUNDED, 0, "not all that may fit was compared"),
    ],
)
def test_it_says_what_else_would_fit(status: Uniqueness, rivals: int, told: str) -> None:
    text = money_explanation(MatchKind.REFUND, {"line": 3}, credit=IN, debit=OUT, status=status, rivals=rivals)
    assert text.endswith(f", one of them repeats an earlier payment; {told}.")


def test_only_money_against_money_is_told() -> None:
    with pytest.raises(ValueError, match="one_to_one is not money against money"):
        money_explanation(MatchKind.ONE_TO_ONE, {}, credit=IN, debit=OUT)
