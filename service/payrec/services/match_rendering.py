"""A match as a person reads it: the stored levels become evidence and a sentence when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from payrec.constants import EXPLANATION_MEMBERS_MAX
from payrec.domain.matching import explain, explain_groups, explain_money, rules
from payrec.domain.money import format_minor
from payrec.models.matches import (
    AdjustmentPublic,
    AlternativePublic,
    EvidencePublic,
    LegPublic,
    MatchPublic,
    UniquenessPublic,
)

_KNOWN: Final = {feature: frozenset(kind) for feature, kind in rules.FEATURES.items()}
"""The levels of each feature that this engine knows."""

BY_HAND: Final = "Matched by hand."
"""The explanation of what a person has stated."""

ELSEWHERE: Final = "Decided elsewhere, and imported."
"""The explanation of what a file has told."""

NEWER: Final = "Found by a newer version, of whose reasons this one does not know all."
"""The explanation of what this engine cannot explain, beside newer workers or after a rollback."""


def rendered(row: dict[str, Any]) -> MatchPublic:
    """Return the resource of a stored match with its legs.

    Evidence and sentence tell of the transactions as they were when it was made: of what they state since, neither is
    true. Of one that waits for a blind review, what the engine thinks of it is not told until it is decided.
    """
    row = {**row, "legs": [{**leg, **leg.get("made_for", {})} for leg in row["legs"]]}
    public = _rendered(row)
    if row["levels"] is None:
        # Nobody but who stated it knows why.
        told = ELSEWHERE if row["imported"] else BY_HAND
        return public.model_copy(update={"score": None, "confidence": None, "explanation": told})
    if not (row["sampled"] and row["status"] == "proposed"):
        return public
    return public.model_copy(
        update={"score": None, "confidence": None, "evidence": [], "explanation": None, "alternatives": []}
    )


def _rendered(row: dict[str, Any]) -> MatchPublic:
    stored = row["levels"] or ()
    # A match of an earlier engine has fewer features: it is silent on the others. One of a newer engine may say more
    # than this one knows.
    levels = {name: level for (name, known), level in zip(_KNOWN.items(), stored, strict=False) if level in known}
    is_newer = len(levels) < len(stored)
    return MatchPublic.model_validate(
        {
            **row,
            "score": row["score"] / 1000,
            "amount": format_minor(row["amount_minor"], row["currency"]),
            "legs": [_leg(x) for x in row["legs"]],
            "adjustments": [_adjustment(x) for x in row["adjustments"] or ()],
            "returned_amount_minor": row["returned_minor"],
            "evidence": [
                evidence_of(e, row["legs"], row["adjustments"] or ())
                for e in explain.evidence(levels, row["corrections"])
            ],
            "explanation": NEWER if is_newer else _explanation(levels, row) + _by_rules(row),
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
    expected, incoming = leg["expected_contra"], leg["incoming_contra"]
    return LegPublic(
        expected_transaction_id=None if expected else leg["expected_id"],
        contra_expected_transaction_id=leg["incoming_id"] if incoming else None,
        incoming_transaction_id=None if incoming else leg["incoming_id"],
        contra_incoming_transaction_id=leg["expected_id"] if expected else None,
        amount_minor=leg["amount_minor"],
        settled_minor=leg["settled_minor"],
        settled_currency=leg["settled_currency"],
    )


def _adjustment(stored: dict[str, Any]) -> AdjustmentPublic:
    of_line = stored["side"] == "incoming"
    return AdjustmentPublic(
        type=stored["type"],
        expected_transaction_id=None if of_line else stored["id"],
        incoming_transaction_id=stored["id"] if of_line else None,
        amount_minor=stored["minor"],
        currency=stored["currency"],
        rate=stored.get("rate"),
    )


def evidence_of(
    found: explain.Evidence, legs: list[dict[str, Any]], adjustments: Sequence[dict[str, Any]] = ()
) -> EvidencePublic:
    """Return what a level says, with the texts of both sides."""
    expected, incoming = _sides(found, legs, adjustments)
    return EvidencePublic(
        feature=found["feature"],
        level=found["level"],
        expected=expected,
        incoming=incoming,
        weight=found["weight"] / 1000,
    )


_NAMED_BESIDE: Final = {"ultimate": "incoming_ultimate_name", "text": "remittance"}
"""Where a line has the item's name, by the level of it, if not in its own."""


def _sides(
    found: explain.Evidence, legs: list[dict[str, Any]], adjustments: Sequence[dict[str, Any]]
) -> tuple[str | None, str | None]:
    """Return what either side says about a feature."""
    match feature := found["feature"]:
        case "reference":
            return _told(leg["reference"] for leg in legs), _told(_quotes(leg) for leg in legs)
        case "end_to_end":
            return _both("end_to_end_id", legs)
        case "amount":
            return _amount("expected", legs, adjustments), _amount("incoming", legs, adjustments)
        case "date":
            due = (leg["due_on"] or leg["expected_to_on"] or leg["expected_from_on"] for leg in legs)
            return _told(str(day) if day else None for day in due), _told(str(leg["booking_on"]) for leg in legs)
        case "name" if beside := _NAMED_BESIDE.get(found["level"]):
            return _told(leg["expected_name"] for leg in legs), _told(leg[beside] for leg in legs)
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


def _amount(side: str, legs: list[dict[str, Any]], adjustments: Sequence[dict[str, Any]]) -> str:
    """Return the amount of a side's transaction, or the sum of what is matched of several."""
    if len(legs) == 1:
        minor = legs[0][f"{side}_minor"]
    else:
        minor = sum(leg["settled_minor" if side == "expected" else "amount_minor"] for leg in legs)
        minor += sum(its["minor"] for its in adjustments if its["side"] == side)
    return format_minor(minor, legs[0][f"{side}_currency"])


def _explanation(levels: dict[str, int], row: dict[str, Any]) -> str:
    legs, uniqueness = row["legs"], rules.Uniqueness[row["uniqueness"].upper()]
    if legs[0]["expected_contra"] or legs[0]["incoming_contra"]:
        return _of_money(levels, row)
    expected, incoming = _expected(legs[0]), _incoming(legs[0])
    if not levels.get("group"):
        # All that was open of the smaller one, of which matches before may have taken a part, is what the leg takes.
        if levels.get("amount") in {rules.AmountLevel.SMALLER, rules.AmountLevel.CONVERTED}:
            incoming = replace(incoming, amount_minor=legs[0]["amount_minor"])
        elif levels.get("amount") == rules.AmountLevel.LARGER:
            expected = replace(expected, amount_minor=legs[0]["settled_minor"])
        return explain.explanation(
            levels,
            expected=expected,
            incoming=incoming,
            adjustments=[_adjusted(x, legs[0]) for x in row["adjustments"] or ()],
            status=uniqueness,
            rivals=row["candidates"] - 1,
        )
    return explain_groups.group_explanation(
        levels,
        group=_group(row, rules.GroupLevel(levels["group"])),
        expected=expected,
        incoming=incoming,
        adjustments=_summed([_adjusted(x, legs[0]) for x in row["adjustments"] or ()]),
        status=uniqueness,
    )


def _summed(adjustments: list[explain.AdjustmentFacts]) -> list[explain.AdjustmentFacts]:
    """Return the adjustments of a group, those of one type together."""
    sums: dict[rules.AdjustmentType, explain.AdjustmentFacts] = {}
    for one in adjustments:
        before = sums.get(one.type)
        sums[one.type] = one if before is None else replace(one, amount_minor=before.amount_minor + one.amount_minor)
    return list(sums.values())


def _by_rules(row: dict[str, Any]) -> str:
    """Return whose bounds these are, where they are not those of the settings."""
    names = (row["proof"] or {}).get("rules", [])
    return f" Within the bounds of the rule{'s' * (len(names) > 1)} {', '.join(names)}." if names else ""


def _of_money(levels: dict[str, int], row: dict[str, Any]) -> str:
    leg = row["legs"][0]
    # The contra transaction stands at the end of the other side, and takes out what the other brings in.
    ends = {end: _end(leg, end) for end in ("expected", "incoming")}
    credit = "incoming" if leg["expected_contra"] else "expected"
    return explain_money.money_explanation(
        rules.MatchKind[row["kind"].upper()],
        levels,
        credit=ends.pop(credit),
        debit=ends.popitem()[1],
        status=rules.Uniqueness[row["uniqueness"].upper()],
        rivals=row["candidates"] - 1,
    )


def _end(leg: dict[str, Any], end: str) -> explain_money.EndFacts:
    return explain_money.EndFacts(
        amount_minor=leg[f"{end}_minor"],
        settled_minor=leg["settled_minor"],
        currency=leg[f"{end}_currency"],
        day=leg["due_on" if end == "expected" else "booking_on"],
        reference=leg["reference" if end == "expected" else "structured_reference"],
        end_to_end_id=leg[f"{end}_end_to_end_id"],
        group_key=leg[f"{end}_group_key"],
        counterparty_name=leg[f"{end}_name"],
        counterparty_account=leg[f"{end}_account"],
        own_account=leg[f"{end}_own_account"],
    )


def _adjusted(stored: dict[str, Any], leg: dict[str, Any]) -> explain.AdjustmentFacts:
    return explain.AdjustmentFacts(
        type=rules.AdjustmentType[stored["type"].upper()],
        amount_minor=stored["minor"],
        currency=stored["currency"],
        of_line=stored["side"] == "incoming",
        settled_minor=leg["settled_minor"],
        rate=stored.get("rate"),
    )


def _group(row: dict[str, Any], level: rules.GroupLevel) -> explain_groups.GroupFacts:
    legs = row["legs"]
    if level.less_credits:
        return _less_credits(row)
    if row["kind"] == "many_to_one":
        name = legs[0]["reference"] or legs[0]["expected_end_to_end_id"]
        members = [format_minor(leg["amount_minor"], leg["incoming_currency"]) for leg in legs]
    else:
        name = legs[0]["expected_group_key"]
        members = [leg["reference"] or leg["expected_end_to_end_id"] or leg["external_id"] for leg in legs]
    # What was too much counts on the payment, and is no part of its legs.
    beyond = sum(its["minor"] for its in row["adjustments"] or () if its["side"] == "incoming")
    return explain_groups.GroupFacts(
        amount_minor=row["amount_minor"] + beyond,
        currency=row["currency"],
        members=members,
        named=row["proof"]["named"],
        name=name,
    )


def _less_credits(row: dict[str, Any]) -> explain_groups.GroupFacts:
    items = {leg["expected_id"]: leg["reference"] or leg["expected_end_to_end_id"] for leg in row["legs"]}
    notes = [leg for leg in row["legs"] if leg["incoming_contra"]]
    return explain_groups.GroupFacts(
        amount_minor=sum(leg["amount_minor"] for leg in row["legs"] if not leg["incoming_contra"]),
        currency=row["currency"],
        members=list(items.values()),
        named=row["proof"]["named"],
        name=row["legs"][0]["expected_group_key"],
        less=list({n["incoming_id"]: n["structured_reference"] or n["incoming_end_to_end_id"] for n in notes}.values()),
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
