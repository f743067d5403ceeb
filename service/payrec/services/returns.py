"""Returns: an amount of a payment is taken back, and what it settled is open again. By hand, or before each run."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.matching.returns import Line, Linked, linked
from payrec.domain.matching.rules import ENGINE_VERSION, Reason
from payrec.domain.money import format_minor
from payrec.domain.principal import ENGINE_ACTOR_PREFIX
from payrec.domain.returns import takes_back
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
from payrec.services.return_ledger import CLOSED, ReturnLedger, Wanted
from payrec.services.return_releases import newly_expected, release
from payrec.services.validation import check_version, identifier
from payrec.services.work import Unit, Work
from payrec.storage.database import Connection
from payrec.storage.incoming_transactions import IncomingTransactionStore
from payrec.storage.open_rows import reopen
from payrec.storage.return_candidates import ReturnCandidateStore
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

_ACTOR: Final = f"{ENGINE_ACTOR_PREFIX}{ENGINE_VERSION}"
"""Who links what nobody has linked by hand."""

_LINE_FIELDS: Final = tuple(Line.__dataclass_fields__)


class Returned(NamedTuple):
    """Why returns stay open, and which of them wait for a run to look at their payment."""

    reasons: dict[UUID, Reason]
    waiting: frozenset[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a run finds of returns before it reads."""

    early: frozenset[UUID] = frozenset()
    """Payments that are given back what was taken of them, because somebody expects them now."""
    links: Sequence[Wanted] = ()
    left: Returned = field(default_factory=lambda: Returned({}, frozenset()))
    count: int = 0
    """Open returns that were looked at."""


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

    @staticmethod
    async def look(connection: Connection, query: IncomingTransactionQuery | None) -> Seen:
        """Return what open returns name, of those that the query asks for, or first what is to be given back."""
        # A run over some lines might not look at what it would give back.
        early = await newly_expected(connection, limit=RETURNS_PER_RUN_MAX) if query is None else frozenset()
        return Seen(early=early) if early else await _named(connection, query)

    async def link_open(self, caller: Caller, scope: TenantScope, seen: Seen) -> Returned:
        """Link what open returns name, as it was ``seen``, and return why the others stay open.

        Before that, payments are given back what was taken of them while nobody expected them, where that has changed:
        they are to pay first, so that it does not matter whether the item came before the return.
        """
        given_back: set[UUID] = set()
        if seen.early:
            given_back = await release(self._work, caller, scope, seen.early)
            async with self._work.database.tenant(scope, readonly=True) as connection:
                seen = await _named(connection, None, but=given_back)
        left = seen.left
        reasons = left.reasons | dict.fromkeys(given_back, Reason.NO_CANDIDATE)
        rest = iter(seen.links)
        made = 0
        while some := list(islice(rest, LINKS_PER_COMMIT_MAX)):
            async with self._work.tenant(caller, scope, resumed=True) as unit:
                refused = await _take(unit, some, actor=_ACTOR)
            reasons.update((wanted.return_id, Reason.AMBIGUOUS) for wanted in refused)
            made += len(some) - len(refused)
        if seen.count:
            self._logger.info("match_run.returns_linked", looked_at=seen.count, linked=made)
        return Returned(reasons, left.waiting | given_back)

    async def link_seen(self, unit: Unit, waiting: Collection[UUID]) -> set[UUID]:
        """Link returns whose payments a run has only now looked at, in its commit; return those that are linked.

        What it has proposed, and has to be decided by a person, is left to him until the next run.
        The run decides alone, so nobody waits for it with what it takes here out of the order of locks.
        """
        if not waiting:
            return set()
        returns = await ReturnStore(unit.connection).open_returns(None, limit=RETURNS_PER_RUN_MAX)
        links, _ = await _found(unit.connection, [row for row in returns if row["id"] in waiting], proposals_wait=True)
        refused = await _take(unit, links, actor=_ACTOR) if links else []
        return {wanted.return_id for wanted in links} - {wanted.return_id for wanted in refused}

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
            # Of a return that other money has paid back nothing is left either, with an amount or without one.
            if not 0 < amount <= row["open_amount_minor"]:
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
    if CLOSED & {row["status"], payment["status"]}:
        raise ConflictError("a transaction that is pending, ignored or classified is not linked")
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


async def _named(connection: Connection, query: IncomingTransactionQuery | None, *, but: Collection[UUID] = ()) -> Seen:
    """Return what open returns name, all but some of them, of those that the query asks for."""
    returns = await ReturnStore(connection).open_returns(query, limit=RETURNS_PER_RUN_MAX)
    links, left = await _found(connection, [row for row in returns if row["id"] not in but])
    return Seen(links=links, left=left, count=len(returns))


async def _found(
    connection: Connection, returns: list[dict[str, Any]], *, proposals_wait: bool = False
) -> tuple[list[Wanted], Returned]:
    """Return what open returns name, and why others stay open."""
    if not returns:
        return [], Returned({}, frozenset())
    store = ReturnCandidateStore(connection)
    ids = [row["id"] for row in returns]
    payments = await store.payments(ids, limit=CANDIDATES_MAX)
    if crowded := await store.crowded(ids, limit=CANDIDATES_MAX):
        payments = await _with_asked(store, [row for row in returns if row["id"] in crowded], payments)
    payment_ids = [row["id"] for row in payments]
    waiting = await ReturnStore(connection).proposed(payment_ids) if proposals_wait else set()
    for row in payments:
        row["waits"] |= row["id"] in waiting
    payments = [row for row in payments if not _takes_back(row)]
    found = await asyncio.to_thread(_linked, returns, payments, crowded)
    links = [
        Wanted(return_id=ids[place], payment_id=payments[at]["id"], amount_minor=amount)
        for place, at, amount in found.links
    ]
    reasons = {ids[place]: reason for place, reason in found.reasons.items()}
    return links, Returned(reasons, frozenset(ids[place] for place in found.waiting))


async def _with_asked(
    store: ReturnCandidateStore, crowded: list[dict[str, Any]], payments: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the payments, and of the crowded returns also those whose items they quote."""
    quoting: dict[int, list[UUID]] = defaultdict(list)
    for row in crowded:
        for key in _line(row).quoted:
            quoting[key].append(row["id"])
    found = {row["id"]: row for row in payments}
    for row in await store.asked(quoting, limit=CANDIDATES_MAX) if quoting else ():
        there = found.setdefault(row["id"], {**row, "return_ids": []})
        there["asked"] = frozenset(row["asked"])
        there["return_ids"] = list({*there["return_ids"], *(each for key in row["asked"] for each in quoting[key])})
    return list(found.values())


def _line(row: dict[str, Any]) -> Line:
    return Line(**{name: row[name] for name in _LINE_FIELDS if name in row})


def _linked(returns: list[dict[str, Any]], payments: list[dict[str, Any]], crowded: set[UUID]) -> Linked:
    """Decide over rows as they are stored."""
    places = {row["id"]: place for place, row in enumerate(returns)}
    candidates: dict[int, list[int]] = defaultdict(list)
    for at, row in enumerate(payments):
        for return_id in row["return_ids"]:
            candidates[places[return_id]].append(at)
    for row in returns:
        row["crowded"] = row["id"] in crowded
    return linked([_line(row) for row in returns], [_line(row) for row in payments], candidates)


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
    ledger = ReturnLedger(lines, await ReturnStore(unit.connection).parts(payment_ids))
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
