"""A match as a person reads it: the stored levels become evidence and a sentence when it is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from payrec.constants import EXPLANATION_MEMBERS_MAX
from payrec.domain.matching import explain, rules
from payrec.domain.money import format_minor
from payrec.models.matches import AlternativePublic, EvidencePublic, LegPublic, MatchPublic, UniquenessPublic

_FEATURES: Final = tuple(rules.FEATURES)


def rendered(row: dict[str, Any]) -> MatchPublic:
    """Return the resource of a stored match with its legs."""
    # A match of an earlier engine has fewer features: it is silent on the others.
    levels = dict(zip(_FEATURES, row["levels"] or (), strict=False))
    return MatchPublic.model_validate(
        {
            **row,
            "score": row["score"] / 1000,
            "amount": format_minor(row["amount_minor"], row["currency"]),
            "legs": [_leg(x) for x in row["legs"]],
            "adjustments": row["adjustments"] or [],
            "returned_amount_minor": row["returned_minor"],
            "evidence": [_evidence(e, row["legs"]) for e in explain.evidence(levels)],
            "explanation": _explanation(levels, row),
            "uniqueness": UniquenessPublic(
                status=row["uniqueness"],
                candidates=row["candidates"],
                bounds=(row["proof"] or {}).get("bounds", BOUNDS),
            ),
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
"""Within what the uniqueness of a pair was looked for."""


def _leg(leg: dict[str, Any]) -> LegPublic:
    return LegPublic(
        expected_transaction_id=leg["expected_id"],
        incoming_transaction_id=leg["incoming_id"],
        amount_minor=leg["amount_minor"],
        settled_minor=leg["settled_minor"],
        settled_currency=leg["settled_currency"],
    )


def _evidence(found: explain.Evidence, legs: list[dict[str, Any]]) -> EvidencePublic:
    expected, incoming = _sides(found["feature"], legs)
    return EvidencePublic(
        feature=found["feature"],
        level=found["level"],
        expected=expected,
        incoming=incoming,
        weight=found["weight"] / 1000,
    )


def _sides(feature: str, legs: list[dict[str, Any]]) -> tuple[str | None, str | None]:
    """Return what either side says about a feature."""
    match feature:
        case "reference":
            return _told(leg["reference"] for leg in legs), _told(_quotes(leg) for leg in legs)
        case "end_to_end":
            return _both("end_to_end_id", legs)
        case "amount":
            return _amount("expected", legs), _amount("incoming", legs)
        case "date":
            due = (leg["due_on"] or leg["expected_to_on"] or leg["expected_from_on"] for leg in legs)
            return _told(str(day) if day else None for day in due), _told(str(leg["booking_on"]) for leg in legs)
        case "account" | "name" | "own_account":
            return _both(feature, legs)
        case "group":
            return _told(leg["expected_group_key"] for leg in legs), _told(leg["incoming_group_key"] for leg in legs)
        case _:
            return None, "pending" if any(leg["pending"] for leg in legs) else "booked"


def _both(name: str, legs: list[dict[str, Any]]) -> tuple[str | None, str | None]:
    return _told(leg[f"expected_{name}"] for leg in legs), _told(leg[f"incoming_{name}"] for leg in legs)


def _told(texts: Iterable[str | None]) -> str | None:
    """Return different texts as one, and how many more there are."""
    different = list(dict.fromkeys(text for text in texts if text))
    if not different:
        return None
    more = len(different) - EXPLANATION_MEMBERS_MAX
    told = ", ".join(different[:EXPLANATION_MEMBERS_MAX])
    return f"{told} and {more} more" if more > 0 else told


def _quotes(leg: dict[str, Any]) -> str | None:
    text: str | None = leg["structured_reference"] or leg["remittance"]
    return text


def _amount(side: str, legs: list[dict[str, Any]]) -> str:
    """Return the amount of a side's transaction, or the sum of what the legs join of several."""
    if len(legs) == 1:
        minor = legs[0][f"{side}_minor"]
    else:
        minor = sum(leg["settled_minor" if side == "expected" else "amount_minor"] for leg in legs)
    return format_minor(minor, legs[0][f"{side}_currency"])


def _explanation(levels: dict[str, int], row: dict[str, Any]) -> str:
    legs, uniqueness = row["legs"], rules.Uniqueness[row["uniqueness"].upper()]
    expected, incoming = _expected(legs[0]), _incoming(legs[0])
    if not levels.get("group"):
        return explain.explanation(
            levels, expected=expected, incoming=incoming, status=uniqueness, rivals=row["candidates"] - 1
        )
    return explain.group_explanation(levels, group=_group(row), expected=expected, incoming=incoming, status=uniqueness)


def _group(row: dict[str, Any]) -> explain.GroupFacts:
    legs = row["legs"]
    if row["kind"] == "many_to_one":
        name = legs[0]["reference"] or legs[0]["expected_end_to_end_id"]
        members = [format_minor(leg["amount_minor"], leg["incoming_currency"]) for leg in legs]
    else:
        name = legs[0]["expected_group_key"]
        members = [leg["reference"] or leg["expected_end_to_end_id"] or leg["external_id"] for leg in legs]
    return explain.GroupFacts(
        amount_minor=row["amount_minor"],
        currency=row["currency"],
        members=members,
        named=row["proof"]["named"],
        name=name,
    )


def _expected(leg: dict[str, Any]) -> explain.ExpectedFacts:
    return explain.ExpectedFacts(
        amount_minor=leg["expected_minor"],
        currency=leg["expected_currency"],
        due_on=leg["due_on"],
        from_on=leg["expected_from_on"],
        to_on=leg["expected_to_on"],
        reference=leg["reference"],
        end_to_end_id=leg["expected_end_to_end_id"],
        counterparty_name=leg["expected_name"],
    )


def _incoming(leg: dict[str, Any]) -> explain.IncomingFacts:
    return explain.IncomingFacts(
        amount_minor=leg["incoming_minor"],
        currency=leg["incoming_currency"],
        booking_on=leg["booking_on"],
        counterparty_name=leg["incoming_name"],
    )
