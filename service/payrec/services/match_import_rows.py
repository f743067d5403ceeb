"""Decisions of a file whose transactions are found: checked as if people stated them here, and made rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from hashlib import md5
from typing import Any, Final
from uuid import UUID

from payrec.constants.match_imports import CREATED_BY_IMPORT
from payrec.domain.approvals import Books, Limits, is_beyond
from payrec.errors import FieldError, PayrecError, SecondApproverRequiredError, ValidationFailedError
from payrec.formats.base import RecordError
from payrec.models.match_decisions import AdjustmentGiven, LegGiven, MatchCreate
from payrec.services.approvals import decided_of
from payrec.services.manual_matches import Key, Stated, read_stated
from payrec.services.work import Unit
from payrec.storage.allocations import Side
from payrec.storage.match_decisions import LEG_COLUMNS
from payrec.storage.match_imports import MatchImportStore

_BEYOND: Final = "is beyond a limit of settings.approval, and a file has no second person"


@dataclass(frozen=True, slots=True)
class FoundDecision:
    """A decision all of whose transactions are there."""

    decision: dict[str, Any]
    """Its staged row."""
    legs: list[dict[str, Any]]
    """With what was found."""
    content_key: bytes


@dataclass(frozen=True, slots=True)
class FoundDecisions:
    """Decisions whose transactions were looked up."""

    ones: list[FoundDecision]
    refused: list[tuple[int, RecordError]]
    ids: dict[Side, set[UUID]]

    @classmethod
    def of(cls, decisions: Sequence[dict[str, Any]], legs: Sequence[dict[str, Any]]) -> FoundDecisions:
        """Return what decisions join; one that names what is not there is refused."""
        of_decision: dict[int, list[dict[str, Any]]] = {}
        for leg in legs:
            of_decision.setdefault(leg["ordinal"], []).append(leg)
        found = cls([], [], {side: set() for side in Side})
        for decision in decisions:
            its = of_decision[decision["ordinal"]]
            if (error := _unknown(its)) is not None:
                found.refused.append((decision["line"], error))
                continue
            found.ones.append(FoundDecision(decision, its, _content_key(decision, its)))
            found.ids[Side.EXPECTED].update(leg["expected_id"] for leg in its)
            found.ids[Side.INCOMING].update(leg["incoming_id"] for leg in its)
        return found


def _unknown(legs: Sequence[Mapping[str, Any]]) -> RecordError | None:
    """Return what is wrong where a leg names a transaction that there is not, or not one alone."""
    for leg in legs:
        if leg["expected_id"] is None:
            return RecordError("unknown_transaction", "/expectedExternalId: there is no such transaction")
        if leg["incoming_id"] is None and leg["lines"]:
            return RecordError("ambiguous_transaction", f"{leg['lines']} lines are what the record says")
        if leg["incoming_id"] is None:
            return RecordError("unknown_transaction", "there is no such incoming transaction")
    return None


def _content_key(decision: Mapping[str, Any], legs: Sequence[Mapping[str, Any]]) -> bytes:
    """Return what is the same whenever the same is decided: what is joined, by which amounts, in whatever order.

    ``MatchImportStore.add_free`` has the same of a plain decision.
    """
    said = [f"{leg['expected_id']} {leg['incoming_id']} {leg['minor']}{_settled(leg)}" for leg in legs]
    for a in decision["adjustments"] or ():
        end = legs[a["leg"]][f"{a['of']}_id"]
        said.append(f"{a['type']} {end} {a['amount_minor']} {a['currency']} {a['rate']}")
    return md5("\n".join(sorted(said)).encode(), usedforsecurity=False).digest()


def _settled(leg: Mapping[str, Any]) -> str:
    """Return what a leg settles, where it is said and is something else than it takes."""
    return "" if leg["settled_minor"] in {None, leg["minor"]} else f" {leg['settled_minor']}"


@dataclass(slots=True)
class MatchImportRows:
    """Checks decisions one by one, each against what those before have left, and makes their rows."""

    unit: Unit
    import_id: UUID
    ends: dict[Key, dict[str, Any]]
    limits: Limits
    rates: Books
    refused: list[tuple[int, PayrecError]] = field(default_factory=list)
    matches: list[dict[str, Any]] = field(default_factory=list)
    legs: list[dict[str, Any]] = field(default_factory=list)
    imported: list[dict[str, Any]] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)

    def deduct(self, ends: Mapping[Key, dict[str, Any]]) -> set[bytes]:
        """Take off what these matches take of transactions that are looked at next; return what they decide."""
        for taken in self.taken:
            if (end := ends.get((Side(taken["side"]), taken["id"]))) is not None:
                end["left_minor"] -= taken["taken"]
        return {row["content_key"] for row in self.imported}

    async def store(self, store: MatchImportStore) -> None:
        """Store the rows."""
        await store.add(matches=self.matches, legs=self.legs, imported=self.imported, taken=self.taken)

    def write(self, ones: Sequence[FoundDecision]) -> None:
        """Make the rows of those that can be; the others are ``refused``."""
        for one in ones:
            try:
                self._write(one)
            except PayrecError as error:
                self.refused.append((one.decision["line"], error))

    def _write(self, one: FoundDecision) -> None:
        unit, decision, given = self.unit, one.decision, _given(one)
        for leg in one.legs:
            if leg["currency"] not in {None, self.ends[Side.INCOMING, leg["incoming_id"]]["currency"]}:
                detail = "is not the incoming transaction's currency"
                raise ValidationFailedError.of(FieldError(pointer="/currency", code="currency_mismatch", detail=detail))
        stated = read_stated(given, self._own(one))
        takes = stated.takes()
        match_id = decision["match_id"]
        lines = [end for key, end in stated.ends.items() if key[0] is Side.INCOMING]
        last_on = max(line["booking_on"] for line in lines)
        match = stated.match(match_id, given, at=unit.now, actor=CREATED_BY_IMPORT, effective_on=last_on)
        self._check_limits(stated, match)
        for take in takes:
            self.ends[take.side, take.transaction_id]["left_minor"] -= take.taken_minor
        self.taken += [
            {"side": int(t.side), "id": t.transaction_id, "amount": t.amount_minor, "taken": t.taken_minor}
            for t in takes
        ]
        self.matches.append(
            {
                **match,
                "decided_at": decision["decided_at"],
                "decided_by": decision["decided_by"],
                "decision_reason": decision["reason"],
                "adjustments": tuple(match["adjustments"]) if match["adjustments"] else None,
                "created_change_id": unit.change_id,
            }
        )
        columns = stated.legs()
        self.legs += [
            {
                "match_id": match_id,
                "ordinal": place,
                "valid_from": unit.change_id,
                **{name: columns[name][place] for name in LEG_COLUMNS},
            }
            for place in range(len(one.legs))
        ]
        self.imported.append(
            {
                "match_id": match_id,
                "import_id": self.import_id,
                "imported_at": unit.now,
                "reviewed": decision["reviewed"],
                "content_key": one.content_key,
                "imported_by": unit.caller.principal.actor,
            }
        )

    def _own(self, one: FoundDecision) -> dict[Key, dict[str, Any]]:
        """Return what the transactions of a decision are."""
        keys = [(Side.EXPECTED, leg["expected_id"]) for leg in one.legs]
        keys += [(Side.INCOMING, leg["incoming_id"]) for leg in one.legs]
        return {key: self.ends[key] for key in keys}

    def _check_limits(self, stated: Stated, match: dict[str, Any]) -> None:
        """Raise where somebody else would have to approve.

        Raises
        ------
        SecondApproverRequiredError
        """
        if not self.limits.hold:
            return
        settled = [(leg.settled_currency, leg.settled_minor) for leg in stated.joined]
        day: date | None = match["effective_on"]
        if is_beyond(decided_of(match, settled, day), self.limits, self.rates):
            raise SecondApproverRequiredError(_BEYOND)


def _given(one: FoundDecision) -> MatchCreate:
    """Return what a person would have stated; every part of it was validated when it was read."""
    legs = [
        LegGiven.model_construct(
            expected_transaction_id=leg["expected_id"],
            contra_expected_transaction_id=None,
            incoming_transaction_id=leg["incoming_id"],
            contra_incoming_transaction_id=None,
            amount_minor=leg["minor"],
            settled_minor=leg["settled_minor"],
            settled_currency=None,
        )
        for leg in one.legs
    ]
    adjustments = [
        AdjustmentGiven.model_construct(
            type=a["type"],
            expected_transaction_id=one.legs[a["leg"]]["expected_id"] if a["of"] == "expected" else None,
            incoming_transaction_id=one.legs[a["leg"]]["incoming_id"] if a["of"] == "incoming" else None,
            amount_minor=a["amount_minor"],
            currency=a["currency"],
            rate=a["rate"],
        )
        for a in one.decision["adjustments"] or ()
    ]
    return MatchCreate.model_construct(legs=legs, adjustments=adjustments, reason=one.decision["reason"] or "")
