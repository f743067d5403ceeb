from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from payrec.domain.matching.explain_money import EndFacts, money_explanation
from payrec.domain.matching.rules import MatchKind, Uniqueness

IN = EndFacts(amount_minor=10_000, currency="EUR", day=date(2026, 3, 12), own_account="SAVINGS")
OUT = EndFacts(amount_minor=10_000, currency="EUR", day=date(2026, 3, 10), own_account="GIRO")
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
            OUT,
            (
                "40.00 EUR of a payment of 100.00 EUR were given back, both quote the same reference, the"
                " counterparty's account differs, the name Alpha GmbH agrees, 2 days later; no other line fits."
            ),
        ),
        (
            MatchKind.CREDIT_NOTE,
            {"amount": 4, "reference": 4, "account": 2},
            replace(IN, reference="INV-1"),
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
