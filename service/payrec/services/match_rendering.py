"""A match as a person reads it: the stored levels become evidence and a sentence when it is read."""

from __future__ import annotations

from typing import Any, Final

from payrec.domain.matching import explain, rules
from payrec.domain.money import format_minor
from payrec.models.matches import AlternativePublic, EvidencePublic, LegPublic, MatchPublic, UniquenessPublic

_FEATURES: Final = tuple(rules.FEATURES)


def rendered(row: dict[str, Any]) -> MatchPublic:
    """Return the resource of a stored match with its legs."""
    levels = dict(zip(_FEATURES, row["levels"] or (), strict=False))
    leg = row["legs"][0]
    uniqueness = rules.Uniqueness[row["uniqueness"].upper()]
    return MatchPublic.model_validate(
        {
            **row,
            "score": row["score"] / 1000,
            "amount": format_minor(row["amount_minor"], row["currency"]),
            "legs": [_leg(x) for x in row["legs"]],
            "adjustments": row["adjustments"] or [],
            "returned_amount_minor": row["returned_minor"],
            "evidence": [_evidence(e, leg) for e in explain.evidence(levels)],
            "explanation": _explanation(levels, leg, uniqueness, row["candidates"] - 1),
            "uniqueness": UniquenessPublic(status=row["uniqueness"], candidates=row["candidates"], bounds=BOUNDS),
            "alternatives": [
                AlternativePublic(
                    expected_transaction_id=a["expected"],
                    incoming_transaction_id=a["incoming"],
                    score=a["score"] / 1000,
                )
                for a in row["alternatives"] or []
            ],
        }
    )


BOUNDS: Final[dict[str, Any]] = {
    "itemsPerKey": rules.KEY_ITEMS_MAX,
    "candidatesPerLine": rules.LINE_CANDIDATES_MAX,
}
"""Within what uniqueness was looked for."""


def _leg(leg: dict[str, Any]) -> LegPublic:
    return LegPublic(
        expected_transaction_id=leg["expected_id"],
        incoming_transaction_id=leg["incoming_id"],
        amount_minor=leg["amount_minor"],
        settled_minor=leg["settled_minor"],
        settled_currency=leg["settled_currency"],
    )


def _evidence(found: explain.Evidence, leg: dict[str, Any]) -> EvidencePublic:
    expected, incoming = _sides(found["feature"], leg)
    return EvidencePublic(
        feature=found["feature"],
        level=found["level"],
        expected=expected,
        incoming=incoming,
        weight=found["weight"] / 1000,
    )


def _sides(feature: str, leg: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return what either side says about a feature."""
    match feature:
        case "reference":
            return leg["reference"], leg["structured_reference"] or leg["remittance"]
        case "end_to_end":
            return leg["expected_end_to_end_id"], leg["incoming_end_to_end_id"]
        case "amount":
            return (
                format_minor(leg["expected_minor"], leg["expected_currency"]),
                format_minor(leg["incoming_minor"], leg["incoming_currency"]),
            )
        case "date":
            due = leg["due_on"] or leg["expected_to_on"] or leg["expected_from_on"]
            return str(due) if due else None, str(leg["booking_on"])
        case "account":
            return leg["expected_account"], leg["incoming_account"]
        case "name":
            return leg["expected_name"], leg["incoming_name"]
        case "own_account":
            return leg["expected_own_account"], leg["incoming_own_account"]
        case _:
            return None, "pending" if leg["pending"] else "booked"


def _explanation(levels: dict[str, int], leg: dict[str, Any], uniqueness: rules.Uniqueness, rivals: int) -> str:
    return explain.explanation(
        levels,
        expected=explain.ExpectedFacts(
            amount_minor=leg["expected_minor"],
            currency=leg["expected_currency"],
            due_on=leg["due_on"],
            from_on=leg["expected_from_on"],
            to_on=leg["expected_to_on"],
            reference=leg["reference"],
            end_to_end_id=leg["expected_end_to_end_id"],
            counterparty_name=leg["expected_name"],
        ),
        incoming=explain.IncomingFacts(
            amount_minor=leg["incoming_minor"],
            currency=leg["incoming_currency"],
            booking_on=leg["booking_on"],
            counterparty_name=leg["incoming_name"],
        ),
        status=uniqueness,
        rivals=rivals,
    )
