"""Returns: an amount of a payment is taken back, and what it settled is open again. By hand, or before each run."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.matching.returns import Line, Linked, linked
from payrec.domain.matching.rules import ENGINE_VERSION, Reason
from payrec.domain.money import format_minor
from payrec.domain.returns import Part, taken_from, takes_back
from payrec.domain.scope import TenantScope
from payrec.errors import (
    AmountExceedsOpenError,
    ConflictError,
    FieldError,
    NotFoundError,
    PayrecError,
    ValidationFailedError,
)
from payrec.models.incoming_transactions import (
    IncomingTransactionPublic,
    IncomingTransactionQuery,
    ReversalLinkCreate,
)
from payrec.services.incoming_transactions import public_of
from payrec.services.match_rivals import supersede_rivals
from payrec.services.validation import check_version, identifier
from payrec.services.work import Unit, Work
from payrec.storage.incoming_transactions import IncomingTransactionStore
from payrec.storage.open_rows import reopen
from payrec.storage.returns import ReturnStore

RETURNS_PER_RUN_MAX: Final = 1_000
"""Open returns that a run looks at, the newest."""

CANDIDATES_MAX: Final = 100
"""Lines of a return's end-to-end id, and as many of its amount, that are looked at."""

LINKS_PER_COMMIT_MAX: Final = 200
"""Links that are made in one transaction, which holds all that they touch."""

REVERSAL_LINKS_MAX: Final = 100
"""Links that one return may have."""

ATTEMPTS_MAX: Final = 3
"""How often a link is tried when what the payment settles changed before it was held."""

_CLOSED: Final = frozenset({"pending", "ignored", "classified"})
"""Statuses of lines that nothing is taken of."""

_LINE_FIELDS: Final = tuple(Line.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A link that is wanted; ``expected_id`` where a person says which item is open again."""

    return_id: UUID
    payment_id: UUID
    amount_minor: int
    expected_id: UUID | None = None


class ReturnService:
    """Links returns to the payments that they take back."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.returns")

    async def link(
        self, caller: Caller, return_id: str, given: ReversalLinkCreate, if_match: str | None
    ) -> IncomingTransactionPublic:
        """Link a return to a payment by hand.

        Raises
        ------
        NotFoundError, VersionMismatchError, ValidationFailedError
        AmountExceedsOpenError
            More than is open of the return, or than is left of the payment or of what it settled of the item.
        ConflictError
            It is no return, it is linked whole already, or one of the two is not to be linked at all.
        """
        wanted = identifier(return_id)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                public = await self._link(caller, wanted, given, if_match)
                break
            except _MovedError:
                if attempt == ATTEMPTS_MAX:
                    raise ConflictError("what the payment settles is changing") from None
        self._logger.info("return.linked", return_id=str(wanted))
        return public

    async def link_open(
        self, caller: Caller, scope: TenantScope, query: IncomingTransactionQuery | None
    ) -> dict[UUID, Reason]:
        """Link what open returns name, and return why the others stay open."""
        async with self._work.database.tenant(scope, readonly=True) as connection:
            store = ReturnStore(connection)
            returns = await store.open_returns(query, limit=RETURNS_PER_RUN_MAX)
            if not returns:
                return {}
            ids = [row["id"] for row in returns]
            payments = await store.payments(ids, limit=CANDIDATES_MAX)
            crowded = await store.crowded(ids, limit=CANDIDATES_MAX)
        payments = [row for row in payments if not _takes_back(row)]
        found = await asyncio.to_thread(_linked, returns, payments, crowded)
        reasons = {ids[place]: reason for place, reason in found.reasons.items()}
        links = (
            Wanted(return_id=ids[place], payment_id=payments[at]["id"], amount_minor=amount)
            for place, at, amount in found.links
        )
        made = 0
        while some := list(islice(links, LINKS_PER_COMMIT_MAX)):
            async with self._work.tenant(caller, scope, resumed=True) as unit:
                refused = await _take(unit, some, actor=f"engine:{ENGINE_VERSION}")
            reasons.update((wanted.return_id, Reason.AMBIGUOUS) for wanted in refused)
            made += len(some) - len(refused)
        self._logger.info("match_run.returns_linked", looked_at=len(returns), linked=made)
        return reasons

    async def _link(
        self, caller: Caller, return_id: UUID, given: ReversalLinkCreate, if_match: str | None
    ) -> IncomingTransactionPublic:
        payment_id = given.incoming_transaction_id
        async with self._work.tenant(caller) as unit:
            store = IncomingTransactionStore(unit.connection)
            row = await store.get(return_id)
            if row is None or await store.get(payment_id) is None:
                raise NotFoundError
            # Nobody else links either of them from here on, so what is read now is what is changed.
            await _hold(unit, [payment_id], [return_id])
            row, payment = await store.get(return_id) or {}, await store.get(payment_id) or {}
            check_version(if_match, row["version"])
            _check(row, payment)
            amount = given.amount_minor or row["open_amount_minor"]
            if amount > row["open_amount_minor"]:
                raise _exceeds("the return", row["open_amount_minor"], row["currency"])
            wanted = Wanted(
                return_id=return_id,
                payment_id=payment_id,
                amount_minor=amount,
                expected_id=given.expected_transaction_id,
            )
            await _take(unit, [wanted], actor=caller.principal.actor, strict=True)
            public = public_of(await store.get(return_id) or {})
            unit.answer(200, public, public.headers)
        return public


class _MovedError(Exception):
    """What a payment settles is not what it was before it was held: the transaction is given up."""


def _check(row: dict[str, Any], payment: dict[str, Any]) -> None:
    """Raise what keeps two lines from being a return and its payment."""
    if not _takes_back(row):
        raise ConflictError("the transaction is not a return")
    if row["status"] == "linked":
        raise ConflictError("the return is linked already")
    if len(row["reversal_of"] or []) >= REVERSAL_LINKS_MAX:
        raise ConflictError(f"the return has {REVERSAL_LINKS_MAX} links already")
    pointer = "/incomingTransactionId"
    if row["currency"] != payment["currency"]:
        raise ValidationFailedError.of(FieldError(pointer=pointer, code="currency_mismatch", detail="another currency"))
    if row["direction"] == payment["direction"]:
        detail = "a return goes the other way than its payment"
        raise ValidationFailedError.of(FieldError(pointer=pointer, code="direction_mismatch", detail=detail))
    if _takes_back(payment):
        detail = "is a return itself"
        raise ValidationFailedError.of(FieldError(pointer=pointer, code="not_a_payment", detail=detail))


def _takes_back(row: dict[str, Any]) -> bool:
    return takes_back(
        reversal=row["reversal"],
        bank_transaction_code=row["bank_transaction_code"],
        return_reason=row["return_reason"],
    )


def _exceeds(what: str, left_minor: int, currency: str) -> AmountExceedsOpenError:
    return AmountExceedsOpenError(f"only {format_minor(left_minor, currency)} {currency} is left of {what}")


def _linked(returns: list[dict[str, Any]], payments: list[dict[str, Any]], crowded: set[UUID]) -> Linked:
    """Decide over rows as they are stored."""
    places = {row["id"]: place for place, row in enumerate(returns)}
    candidates: dict[int, list[int]] = defaultdict(list)
    for at, row in enumerate(payments):
        for return_id in row["return_ids"]:
            candidates[places[return_id]].append(at)
    for row in returns:
        row["crowded"] = row["id"] in crowded
    lines, its_lines = (
        [Line(**{name: row[name] for name in _LINE_FIELDS if name in row}) for row in rows]
        for rows in (returns, payments)
    )
    return linked(lines, its_lines, candidates)


async def _hold(unit: Unit, payment_ids: Sequence[UUID], return_ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """Hold the allocations of lines and of what the payments settle."""
    store = ReturnStore(unit.connection)
    items = await store.items(payment_ids)
    lines = await store.lock(
        items=sorted(items), lines=[*payment_ids, *return_ids], change_id=unit.change_id, at=unit.now
    )
    if not await store.items(payment_ids) <= items:
        raise _MovedError
    return lines


async def _take(unit: Unit, links: Sequence[Wanted], *, actor: str, strict: bool = False) -> list[Wanted]:
    """Make links and all that follows from them; return those that cannot be, or raise why when ``strict``."""
    payment_ids = list({wanted.payment_id for wanted in links})
    try:
        lines = await _hold(unit, payment_ids, list({wanted.return_id for wanted in links}))
    except _MovedError:
        if strict:
            raise
        return list(links)
    ledger = _Ledger(lines, await ReturnStore(unit.connection).parts(payment_ids))
    refused = []
    takes: list[dict[str, Any]] = []
    for wanted in links:
        try:
            parts = ledger.take(wanted)
        except PayrecError:
            if strict:
                raise
            refused.append(wanted)
            continue
        takes += [
            {
                "return_id": wanted.return_id,
                "payment_id": wanted.payment_id,
                "expected_id": part.expected_id,
                "match_id": part.match_id,
                "amount_minor": part.amount_minor,
                "settled_minor": part.settled_minor,
            }
            for part in parts
        ]
    if takes:
        await _write(unit, takes, actor=actor)
    return refused


class _Ledger:
    """What may still be taken back of the payments that are held, from where, and what is open of the returns."""

    def __init__(self, lines: dict[UUID, dict[str, Any]], parts: list[dict[str, Any]]) -> None:
        self._left = {line_id: row["left_minor"] for line_id, row in lines.items()}
        self._allocated = {line_id: row["allocated_minor"] for line_id, row in lines.items()}
        self._closed = {line_id for line_id, row in lines.items() if row["status"] in _CLOSED}
        self._parts: dict[UUID, list[Part]] = defaultdict(list)
        self._bound: set[UUID] = set()
        for row in parts:
            if row["contra"]:
                self._bound.add(row["incoming_id"])
            elif row["amount_minor"] > 0:
                part = {name: row[name] for name in ("amount_minor", "settled_minor", "match_id", "expected_id")}
                self._parts[row["incoming_id"]].append(Part(**part))

    def take(self, wanted: Wanted) -> list[Part]:
        """Take an amount of a payment for a return, or raise why not and take nothing."""
        amount, payment_id = wanted.amount_minor, wanted.payment_id
        if self._closed & {wanted.return_id, payment_id}:
            raise ConflictError("a transaction that is pending, ignored or classified is not linked")
        if amount > self._left[wanted.return_id] - self._allocated[wanted.return_id] or amount > self._left[payment_id]:
            raise AmountExceedsOpenError("more than is left of the return or the payment")
        parts = self._places(payment_id)
        if wanted.expected_id is not None:
            parts = [part for part in parts if part.expected_id == wanted.expected_id]
            if not parts:
                detail = "is not settled by the payment"
                field = FieldError(pointer="/expectedTransactionId", code="not_settled", detail=detail)
                raise ValidationFailedError.of(field)
            if amount > sum(part.amount_minor for part in parts):
                raise AmountExceedsOpenError("more than the payment settles of the expected transaction")
        taken = taken_from(amount, parts)
        if taken is None:
            detail = "the payment settles several: say which of them is open again"
            field = FieldError(pointer="/expectedTransactionId", code="ambiguous", detail=detail)
            raise ValidationFailedError.of(field)
        self._left[wanted.return_id] -= amount
        self._left[payment_id] -= amount
        for part in taken:
            if part.match_id is not None:
                self._allocated[payment_id] -= part.amount_minor
                self._parts[payment_id] = _reduced(self._parts[payment_id], part)
        return taken

    def _places(self, payment_id: UUID) -> list[Part]:
        """Return from where of a payment can be taken: what matches settled of it, then what is open."""
        parts = list(self._parts[payment_id])
        adjusted = self._allocated[payment_id] - sum(part.amount_minor for part in parts)
        matches = {part.match_id for part in parts}
        if payment_id in self._bound or (adjusted and len(matches) != 1):
            raise ConflictError("the payment is matched with other money")
        if adjusted:
            # What a match took of the payment beside its legs, as what was paid over.
            parts.append(Part(amount_minor=adjusted, match_id=matches.pop()))
        unmatched = self._left[payment_id] - self._allocated[payment_id]
        return [*parts, Part(amount_minor=unmatched)] if unmatched else parts


def _reduced(parts: list[Part], taken: Part) -> list[Part]:
    """Return parts less what is taken of one of them."""
    left = []
    for part in parts:
        if (part.match_id, part.expected_id) == (taken.match_id, taken.expected_id):
            part = replace(  # noqa: PLW2901 - the same part, smaller
                part,
                amount_minor=part.amount_minor - taken.amount_minor,
                settled_minor=part.settled_minor - taken.settled_minor,
            )
        if part.amount_minor:
            left.append(part)
    return left


async def _write(unit: Unit, takes: list[dict[str, Any]], *, actor: str) -> None:
    """Write what is taken: links and allocations, open rows, matches, in the order in which everybody locks."""
    store = ReturnStore(unit.connection)
    changed = await store.link(takes, change_id=unit.change_id, actor=actor, at=unit.now)
    items = [row["id"] for row in changed if row["side"] == 1 and row["status"] != "void"]
    await reopen(unit.connection, expected=items, change_id=unit.change_id)
    opened = [(t["return_id"], t["amount_minor"]) for t in takes]
    opened += [(t["payment_id"], t["amount_minor"]) for t in takes if t["match_id"] is None]
    await store.close([line for line, _ in opened], [amount for _, amount in opened], change_id=unit.change_id)
    matched = [(t["match_id"], t["amount_minor"]) for t in takes if t["match_id"] is not None]
    lines = [row["id"] for row in changed if row["side"] != 1]
    await supersede_rivals(unit, incoming=lines)
    matches = await store.return_matches(
        [m for m, _ in matched], [minor for _, minor in matched], change_id=unit.change_id, at=unit.now
    )
    _tell(unit, takes, changed, matches)


def _tell(
    unit: Unit,
    takes: list[dict[str, Any]],
    changed: list[dict[str, Any]],
    matches: list[dict[str, Any]],
) -> None:
    """Record what became of each transaction and match."""
    of_returns: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for t in takes:
        link = {"incomingTransactionId": str(t["payment_id"]), "amountMinor": t["amount_minor"]}
        if t["expected_id"] is not None:
            link["expectedTransactionId"] = str(t["expected_id"])
        of_returns[t["return_id"]].append(link)
    for row in sorted(changed, key=lambda row: (row["side"], row["id"])):
        after = {"status": row["status"], "openAmountMinor": row["open_minor"]}
        if row["side"] == 1:
            action = "expected_transaction.reopened"
        elif row["returns"]:
            action, after["reversalOf"] = "incoming_transaction.updated", of_returns[row["id"]]
        else:
            action = f"incoming_transaction.{'reversed' if row['status'] == 'reversed' else 'updated'}"
            after["returnedAmountMinor"] = row["taken"]
        unit.record(Record(action=action, resource_id=row["id"], after=after))
    for row in matches:
        after = {"returnedAmountMinor": row["returned_minor"]}
        before = {"returnedAmountMinor": row["returned_minor"] - row["minor"]}
        unit.record(Record(action="match.returned", resource_id=row["id"], before=before, after=after))
