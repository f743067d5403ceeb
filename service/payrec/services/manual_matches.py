"""Matches that a person states: legs and adjustments as they say, accepted at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.constants import SUM_MINOR_MAX
from payrec.domain.caller import Caller
from payrec.domain.fx_rates import FxRateError, converted, parse_rate
from payrec.domain.match_kinds import kind_of, money_kind_of
from payrec.domain.money import format_minor
from payrec.errors import AlreadyMatchedError, AmountExceedsOpenError, ConflictError, FieldError, ValidationFailedError
from payrec.models.match_decisions import AdjustmentGiven, LegGiven, MatchCreate
from payrec.models.matches import MatchPublic
from payrec.services.approvals import check_may_accept, needs_approval
from payrec.services.effective_days import effective_day
from payrec.services.match_decisions import NOT_OPEN, PENDING, accepted, allocate, ids_of
from payrec.services.match_rendering import rendered
from payrec.services.match_rivals import supersede_rivals
from payrec.services.work import Unit, Work
from payrec.storage.allocations import CLOSED, Side, Take
from payrec.storage.match_decisions import LEG_COLUMNS, MatchDecisionStore
from payrec.storage.matches import MatchStore
from payrec.storage.partitions import ensure_partitions

Key = tuple[Side, UUID]

UNSCORED: Final = {"score": 0, "status": "accepted", "confidence": "low", "uniqueness": "unbounded"}
"""Columns of a match that nobody has looked for, so that nothing is known of others that fit as well."""

_ENDS: Final = (
    ("expected_transaction_id", Side.EXPECTED, "settled"),
    ("contra_incoming_transaction_id", Side.INCOMING, "settled"),
    ("incoming_transaction_id", Side.INCOMING, "taken"),
    ("contra_expected_transaction_id", Side.EXPECTED, "taken"),
)
"""The ids that a leg may have, their sides, and at which end of it they stand."""

_ON_ITEM: Final = frozenset({"fee", "write_off", "discount", "withholding_tax", "bank_charge", "deduction"})
"""Adjustments of what is expected; an exchange and a rounding may be of either side."""


class ManualMatchService:
    """Stores matches that people of the caller's tenant environment state."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.matches")

    async def create(self, caller: Caller, given: MatchCreate) -> MatchPublic:
        """Match transactions by hand, which is accepted at once, and supersede what competes for the amounts.

        Beyond a limit of ``settings.approval`` it waits for a second person, and has its amounts all the same.

        Raises
        ------
        ForbiddenError
            The caller is an API key, which the settings do not let accept.
        ValidationFailedError
            A leg or an adjustment cannot be: what it names is not there, goes the wrong way, or is of two currencies
            without a rate; or two legs join the same.
        AmountExceedsOpenError
            More than is open of a transaction.
        ConflictError
            A transaction is pending, or closed.
        PeriodLockedError
            The given day is locked.
        """
        check_may_accept(caller)
        # Its own transaction, because it locks both tables; after the first match it only looks.
        async with self._work.database.tenant(caller.tenant) as connection:
            await ensure_partitions(connection)
        match_id = self._work.ids.new()
        try:
            async with self._work.tenant(caller) as unit:
                await self._store(unit, match_id, given)
                public = rendered(await MatchStore(unit.connection).get(match_id) or {})
                unit.answer(201, public, public.headers)
        except AlreadyMatchedError:
            # Somebody was faster, and the constraint has said so.
            raise AmountExceedsOpenError("less is open than a moment ago") from None
        self._logger.info("match.stated", match_id=str(match_id), legs=len(given.legs))
        return public

    async def _store(self, unit: Unit, match_id: UUID, given: MatchCreate) -> None:
        store = MatchDecisionStore(unit.connection)
        wanted = _ids(given.legs)
        rows = await store.ends(expected=wanted[Side.EXPECTED], incoming=wanted[Side.INCOMING])
        stated = read_stated(given, {(Side(row["side"]), row["id"]): row for row in rows})
        takes = stated.takes()
        await allocate(unit, takes)
        revisions = {(Side(row["side"]), row["id"]): row["revision"] for row in await store.ends(**ids_of(takes))}
        if any(revisions[key] != end["revision"] for key, end in stated.ends.items()):
            raise ConflictError("a transaction is changing")
        lines = [end for key, end in stated.ends.items() if key[0] is Side.INCOMING]
        last_on = max((line["booking_on"] for line in lines), default=None)
        day = await effective_day(unit, last_on, (line["account"] for line in lines), given.effective_on)
        match = stated.match(match_id, given, at=unit.now, actor=unit.caller.principal.actor, effective_on=day)
        settled = [(leg.settled_currency, leg.settled_minor) for leg in stated.joined]
        if await needs_approval(unit, match, settled, match["effective_on"]):
            match["status"] = "pending_approval"
        await store.add({**match, "created_change_id": unit.change_id}, stated.legs(), change_id=unit.change_id)
        unit.record(accepted(match_id, match["amount_minor"], reason=given.reason, before=None, status=match["status"]))
        await supersede_rivals(
            unit, **ids_of(takes), taken_by=dict.fromkeys((take.transaction_id for take in takes), match_id)
        )


@dataclass(slots=True, kw_only=True)
class _Leg:
    """A leg with both of its transactions and all its amounts."""

    given: LegGiven
    settled: Key
    taken: Key
    amount_minor: int
    settled_minor: int
    settled_currency: str


_MINORS: Final = (attrgetter("amount_minor"), attrgetter("settled_minor"))
"""Both amounts of a leg."""


@dataclass(slots=True, kw_only=True)
class Stated:
    """What a person states, read against what is stored."""

    ends: dict[Key, dict[str, Any]]
    joined: list[_Leg] = field(default_factory=list)
    adjustments: list[dict[str, Any]] = field(default_factory=list)

    def minors(self) -> Counter[Key]:
        """Return what is taken of each transaction: its legs and its adjustments."""
        found: Counter[Key] = Counter()
        for leg in self.joined:
            found[leg.settled] += leg.settled_minor
            found[leg.taken] += leg.amount_minor
        for adjustment in self.adjustments:
            found[Side[adjustment["side"].upper()], UUID(adjustment["id"])] += adjustment["minor"]
        return found

    def takes(self) -> list[Take]:
        """Return what is to be allocated.

        Raises
        ------
        ConflictError, ValidationFailedError, AmountExceedsOpenError
        """
        found = []
        for key, minor in self.minors().items():
            end = self.ends[key]
            if end["status"] == "pending":
                raise ConflictError(PENDING)
            if end["status"] in CLOSED:
                raise ConflictError(NOT_OPEN)
            name = key[0].name.lower()
            if minor < 1:
                detail = f"adjustments leave nothing that is taken of the {name} transaction"
                raise _invalid("/adjustments", "nothing_taken", detail)
            if minor > end["left_minor"]:
                left = f"{format_minor(end['left_minor'], end['currency'])} {end['currency']}"
                raise AmountExceedsOpenError(f"only {left} is left of the {name} transaction {key[1]}")
            found.append(Take(side=key[0], transaction_id=key[1], amount_minor=end["whole_minor"], taken_minor=minor))
        return found

    def kind(self) -> str:
        """Return what kind of match the legs make."""
        sides = {(leg.settled[0], leg.taken[0]) for leg in self.joined}
        if len(sides) == 1 and (settled := sides.copy().pop())[0] is settled[1]:
            accounts = [end["account"] for end in self.ends.values()]
            return money_kind_of(of_items=settled[0] is Side.EXPECTED, own_accounts=accounts)
        return kind_of(settled={leg.settled for leg in self.joined}, taken={leg.taken for leg in self.joined})

    def match(
        self, match_id: UUID, given: MatchCreate, *, at: Any, actor: str, effective_on: date | None
    ) -> dict[str, Any]:
        """Return the row of ``match``. Nothing was looked for, so nothing is known of others that fit as well."""
        return {
            "id": match_id,
            "amount_minor": sum(leg.amount_minor for leg in self.joined),
            "created_at": at,
            "updated_at": at,
            "decided_at": at,
            "effective_on": effective_on,
            **UNSCORED,
            "kind": self.kind(),
            "currency": self.ends[self.joined[0].taken]["currency"],
            "created_by": actor,
            "decided_by": actor,
            "decision_reason": given.reason,
            "adjustments": self.adjustments or None,
        }

    def legs(self) -> dict[str, list[Any]]:
        """Return the values of LEG_COLUMNS."""
        rows = []
        for leg in self.joined:
            row: dict[str, Any] = dict.fromkeys(LEG_COLUMNS)
            row |= {
                "amount_minor": leg.amount_minor,
                "settled_minor": leg.settled_minor,
                "settled_currency": leg.settled_currency,
            }
            for name, side, _ in _ENDS:
                if (found := getattr(leg.given, name)) is not None:
                    end = name.removesuffix("_transaction_id")
                    row[f"{end}_id"] = found
                    row[f"{'contra' if end.startswith('contra') else end}_revision"] = self.ends[side, found][
                        "revision"
                    ]
            rows.append(row)
        return {name: [row[name] for row in rows] for name in LEG_COLUMNS}


def _ids(legs: list[LegGiven]) -> dict[Side, list[UUID]]:
    found: dict[Side, dict[UUID, None]] = {side: {} for side in Side}
    for leg in legs:
        for name, side, _ in _ENDS:
            if (given := getattr(leg, name)) is not None:
                found[side][given] = None
    return {side: list(ids) for side, ids in found.items()}


def read_stated(given: MatchCreate, ends: dict[Key, dict[str, Any]]) -> Stated:
    """Read legs and adjustments against what is stored.

    Raises
    ------
    ValidationFailedError
    """
    reader = _Reader(given, ends)
    reader.read_adjustments()
    reader.read_legs()
    if reader.faults:
        raise ValidationFailedError.of(*reader.faults)
    return Stated(ends=ends, joined=reader.joined, adjustments=reader.adjustments)


class _Reader:
    """Reads what is given, and collects what is wrong with it."""

    def __init__(self, given: MatchCreate, ends: dict[Key, dict[str, Any]]) -> None:
        self._given = given
        self._ends = ends
        self._rates: dict[Key, str] = {}
        self.joined: list[_Leg] = []
        self.adjustments: list[dict[str, Any]] = []
        self.faults: list[FieldError] = []

    def read_adjustments(self) -> None:
        """Read the adjustments: each is of a transaction of a leg, and in its currency."""
        named = {(side, found) for side, ids in _ids(self._given.legs).items() for found in ids}
        for index, adjustment in enumerate(self._given.adjustments):
            pointer = f"/adjustments/{index}"
            key = _key(adjustment)
            end = self._ends.get(key)
            target = "/expectedTransactionId" if key[0] is Side.EXPECTED else "/incomingTransactionId"
            if key not in named or end is None:
                self._fault(pointer + target, "not_in_legs", "is not a transaction of a leg")
                continue
            if adjustment.currency != end["currency"]:
                self._fault(f"{pointer}/currency", "currency_mismatch", "is not the transaction's currency")
            if (adjustment.type in _ON_ITEM and key[0] is not Side.EXPECTED) or (
                adjustment.type == "over_payment" and key[0] is not Side.INCOMING
            ):
                detail = f"an adjustment of type {adjustment.type} is of the other side"
                self._fault(pointer + target, "wrong_side", detail)
            if adjustment.rate is not None:
                if key in self._rates:
                    self._fault(pointer, "given_twice", "the transaction has an exchange already")
                self._rates[key] = str(parse_rate(adjustment.rate))
            stored = {
                "type": adjustment.type,
                "side": key[0].name.lower(),
                "id": str(key[1]),
                "minor": adjustment.amount_minor,
                "currency": adjustment.currency,
            }
            self.adjustments.append(stored | ({"rate": self._rates[key]} if adjustment.rate is not None else {}))

    def read_legs(self) -> None:
        """Read the legs: directions, currencies, that no pair is there twice, and what they come to."""
        seen: dict[frozenset[Key], int] = {}
        exchanged = set()
        for index, leg in enumerate(self._given.legs):
            pointer = f"/legs/{index}"
            found = self._keys(leg, pointer)
            if found is None:
                continue
            if (first := seen.setdefault(frozenset(found), index)) != index:
                self._fault(pointer, "given_twice", f"joins the same as leg {first}")
                continue
            if self._amounts(leg, *found, pointer):
                exchanged.add(found[0])
        for key in self._rates.keys() - exchanged:
            self._fault("/adjustments", "exchange_of_one_currency", f"{key[1]} is not paid in another currency")
        if len({self._ends[leg.taken]["currency"] for leg in self.joined}) > 1:
            self._fault("/legs", "currency_mismatch", "what the legs take is of several currencies")
        if any(sum(of_leg(leg) for leg in self.joined) > SUM_MINOR_MAX for of_leg in _MINORS):
            self._fault("/legs", "amount_out_of_range", f"come to more than {SUM_MINOR_MAX} minor units")

    def _keys(self, leg: LegGiven, pointer: str) -> tuple[Key, Key] | None:
        """Return the transactions at both ends, if they are there."""
        keys: dict[str, Key] = {}
        unknown = False
        for name, side, end in _ENDS:
            if (found := getattr(leg, name)) is None:
                continue
            keys[end] = (side, found)
            if keys[end] not in self._ends:
                field_name = LegGiven.model_fields[name].alias or name
                self._fault(f"{pointer}/{field_name}", "unknown_transaction", "there is no such transaction")
                unknown = True
        return None if unknown else (keys["settled"], keys["taken"])

    def _amounts(self, leg: LegGiven, settled: Key, taken: Key, pointer: str) -> bool:
        """Keep a leg with all its amounts; return whether it is of two currencies."""
        one, other = self._ends[settled], self._ends[taken]
        of_one_side = settled[0] is taken[0]
        if (one["direction"] == other["direction"]) is of_one_side:
            detail = "two of one side go opposite ways" if of_one_side else "both go the same way"
            self._fault(pointer, "direction_mismatch", f"{detail}, and these do not")
            return False
        crossing = bool(one["currency"] != other["currency"])
        minor = leg.amount_minor
        if crossing:
            rate = self._rates.get(settled)
            if rate is None:
                detail = f"{other['currency']} pays {one['currency']} only with an fx adjustment that has the rate"
                self._fault(pointer, "currency_mismatch", detail)
                return False
            try:
                minor = converted(leg.amount_minor, other["currency"], parse_rate(rate), one["currency"])
            except FxRateError as error:
                self._fault(pointer, error.code, error.detail)
                return True
        if leg.settled_minor not in {None, minor} or minor < 1:
            detail = f"{format_minor(minor, one['currency'])} {one['currency']} is what this amount settles"
            self._fault(f"{pointer}/settledMinor", "settled_mismatch", detail)
        if leg.settled_currency not in {None, one["currency"]}:
            detail = "is not the currency of what is settled"
            self._fault(f"{pointer}/settledCurrency", "currency_mismatch", detail)
        self.joined.append(
            _Leg(
                given=leg,
                settled=settled,
                taken=taken,
                amount_minor=leg.amount_minor,
                settled_minor=minor,
                settled_currency=one["currency"],
            )
        )
        return crossing

    def _fault(self, pointer: str, code: str, detail: str) -> None:
        self.faults.append(FieldError(pointer=pointer, code=code, detail=detail))


def _key(adjustment: AdjustmentGiven) -> Key:
    if adjustment.expected_transaction_id is not None:
        return Side.EXPECTED, adjustment.expected_transaction_id
    assert adjustment.incoming_transaction_id is not None, "the model has seen to it"
    return Side.INCOMING, adjustment.incoming_transaction_id


def _invalid(pointer: str, code: str, detail: str) -> ValidationFailedError:
    return ValidationFailedError.of(FieldError(pointer=pointer, code=code, detail=detail))
