"""Records of decisions, read as they were given: what they name is looked up later, of all together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, Final
from uuid import UUID

from payrec.formats.base import RecordError
from payrec.models.match_imports import (
    RECORD_FIELDS,
    RECORD_FLAGS,
    RECORD_INTEGERS,
    ImportedDecision,
    ImportedLeg,
    MatchImportOptions,
)
from payrec.services.record_loading import RecordReading, minor_said
from payrec.services.validation import validated

_OF_LINE: Final = frozenset(
    {
        "incoming_account",
        "incoming_booking_date",
        "incoming_amount_minor",
        "incoming_direction",
        "incoming_end_to_end_id",
        "incoming_bank_reference",
    }
)
"""What names a line that has no externalId."""


@dataclass(frozen=True, slots=True)
class GivenDecision:
    """A decision as a record has it, in rows of plain values: what is kept by the thousand is no model."""

    decision: dict[str, Any]
    """Its staged row, but for what its place in the file says."""
    legs: list[dict[str, Any]]
    """Those of its legs, the same."""


class MatchImportReading(RecordReading[GivenDecision]):
    """Reads a file; what becomes of each record is known when its transactions are found."""

    def __init__(self, stream: BinaryIO, row: dict[str, Any], *, now: datetime, monotonic: Any) -> None:
        options = MatchImportOptions.model_validate(row["options"], by_name=True)
        super().__init__(stream, row, options, fields=RECORD_FIELDS, integers=RECORD_INTEGERS, monotonic=monotonic)
        self._now = now
        self._ordinal = 0

    def understood(self, record: dict[str, Any]) -> GivenDecision:
        """Return what a record says."""
        if isinstance(flag := record.get("reviewed"), str):
            record["reviewed"] = RECORD_FLAGS.get(flag, flag)
        decision = validated(ImportedDecision, record)
        if decision.decided_at > self._now:
            raise RecordError("decided_in_future", "/decidedAt: is in the future")
        legs = decision.all_legs()
        for adjustment in decision.adjustments:
            if adjustment.leg >= len(legs):
                raise RecordError("not_in_legs", "/adjustments: there is no such leg")
        adjustments = tuple(a.model_dump(mode="json") for a in decision.adjustments)
        row = {
            "decided_at": decision.decided_at,
            "decided_by": decision.decided_by,
            "reviewed": decision.reviewed,
            "reason": decision.reason,
            "has_legs": len(legs) > 1,
            "adjustments": adjustments or None,
        }
        return GivenDecision(row, [_staged_leg(leg, place) for place, leg in enumerate(legs)])

    def staged(
        self, piece: list[tuple[int, GivenDecision]], first_id: int
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rows of decisions and of legs that are staged; ids of matches follow each other from the first."""
        decisions, legs = [], []
        for place, (line, given) in enumerate(piece):
            self._ordinal += 1
            match_id = UUID(int=first_id + place)
            decisions.append({"ordinal": self._ordinal, "line": line, "match_id": match_id, **given.decision})
            legs += [{"ordinal": self._ordinal, **leg} for leg in given.legs]
        return decisions, legs


def _minor(leg: ImportedLeg) -> int:
    """Return what a leg takes, when it says enough.

    Raises
    ------
    RecordError
    """
    if leg.expected_external_id is None:
        raise RecordError("missing_external_id", "/expectedExternalId: is required")
    if leg.incoming_external_id is None and leg.incoming_booking_date is None:
        detail = "/incomingExternalId: is required, or incomingBookingDate and what else names the line"
        raise RecordError("missing_external_id", detail)
    says_more = _OF_LINE & leg.model_fields_set and any(getattr(leg, name) is not None for name in _OF_LINE)
    if leg.incoming_external_id is not None and says_more:
        raise RecordError("incoming_once", "/incomingExternalId: names the line, and nothing else does beside it")
    if leg.amount is not None and leg.amount_minor is None and leg.currency is None:
        raise RecordError("currency_required", "/amount: needs the currency")
    return minor_said(leg.amount_minor, leg.amount, leg.currency or "")


def _staged_leg(leg: ImportedLeg, place: int) -> dict[str, Any]:
    minor = _minor(leg)
    return {
        "place": place,
        "expected_external_id": leg.expected_external_id,
        "incoming_external_id": leg.incoming_external_id,
        "account": leg.incoming_account,
        "booking_on": leg.incoming_booking_date,
        "line_minor": minor if leg.incoming_amount_minor is None else leg.incoming_amount_minor,
        "currency": leg.currency,
        "direction": leg.incoming_direction,
        "end_to_end_id": leg.incoming_end_to_end_id,
        "bank_reference": leg.incoming_bank_reference,
        "minor": minor,
        "settled_minor": leg.settled_minor,
    }
