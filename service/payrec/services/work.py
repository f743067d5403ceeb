"""The unit of work: what every changing use case does around its own statements, in one place.

It claims the Idempotency-Key first, hands out the change id, and writes change, audit records, events and the stored
answer last, in the transaction of the effect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

from pydantic import BaseModel

from payrec.domain.caller import Caller, Clock, IdempotentRequest, IdSource
from payrec.domain.changes import Record
from payrec.domain.scope import TenantScope
from payrec.services.blobs import Blobs
from payrec.storage.changes import ChangeStore
from payrec.storage.control_audit import ControlAuditStore
from payrec.storage.control_outbox import ControlOutboxStore
from payrec.storage.database import Connection, Database
from payrec.storage.idempotency import IdempotencyStore, StoredAnswer
from payrec.storage.rows import Ids


class ReplayedAnswer(Exception):  # noqa: N818 - not an error: the answer that the request already got
    """An earlier request with the same key and body was answered; this is its answer."""

    def __init__(self, answer: StoredAnswer) -> None:
        super().__init__("replayed")
        self.answer = answer


class LostLeaseError(Exception):
    """Another worker has taken over the job: this attempt's transaction is given up."""


class Unit:
    """One business transaction."""

    def __init__(self, connection: Connection, *, caller: Caller, now: datetime, change_id: UUID) -> None:
        self.connection = connection
        self.caller = caller
        self.now = now
        self.change_id = change_id
        self.records: list[Record] = []
        self.told: list[tuple[str, Ids]] = []
        self.discarded: list[UUID] = []
        self._answer: tuple[int, BaseModel, dict[str, str]] | None = None

    def record(self, record: Record) -> None:
        """Add what was done to the audit, and to the events where others are told."""
        self.records.append(record)

    def tell(self, event: str, resource_ids: Ids) -> None:
        """Add an event that is true of many resources, whose reason is recorded with something else."""
        self.told.append((event, resource_ids))

    def discard(self, *object_ids: UUID | None) -> None:
        """Have stored objects deleted after the commit, by which no row names them any more."""
        self.discarded.extend(object_id for object_id in object_ids if object_id is not None)

    def answer(self, status: int, body: BaseModel, headers: dict[str, str] | None = None) -> None:
        """Keep the answer for a repetition of the request with the same Idempotency-Key.

        A request of several transactions keeps a 202 with the row that it creates first, and the last one replaces it.
        """
        self._answer = (status, body, headers or {})

    async def save_answer(self, request: IdempotentRequest | None) -> None:
        """Store what ``answer`` was told."""
        if request is None or self._answer is None:
            return
        status, body, headers = self._answer
        store = IdempotencyStore(self.connection)
        text = body.model_dump_json(by_alias=True)
        await store.save(request, status=status, body=text, headers=headers)


class Work:
    """Opens units of work."""

    def __init__(self, *, database: Database, clock: Clock, ids: IdSource, blobs: Blobs) -> None:
        self.database = database
        self.clock = clock
        self.ids = ids
        self.blobs = blobs

    @asynccontextmanager
    async def tenant(
        self,
        caller: Caller,
        scope: TenantScope | None = None,
        *,
        resumed: bool = False,
        planned_once: bool = False,
    ) -> AsyncIterator[Unit]:
        """Open a change of a tenant environment; ``resumed`` is for a later transaction of the same request.

        ``planned_once`` as ``Database.tenant`` says.

        Raises
        ------
        ReplayedAnswer
            The request was answered before.
        IdempotencyInProgressError, IdempotencyKeyReusedError
            As ``IdempotencyStore.claim``.
        """
        scope = scope or caller.tenant
        async with self.database.tenant(scope, planned_once=planned_once) as connection:
            unit = Unit(connection, caller=caller, now=self.clock.now(), change_id=self.ids.new())
            if not resumed:
                await self._claim(unit)
            yield unit
            await unit.save_answer(caller.idempotency)
            await ChangeStore(connection).finish(
                unit.change_id,
                environment_id=scope.environment_id,
                actor=caller.principal.actor,
                request_id=caller.request_id,
                records=unit.records,
                told=unit.told,
            )
        if unit.discarded:
            await self.blobs.discard(scope, unit.discarded)

    @asynccontextmanager
    async def control(self, caller: Caller, *, resumed: bool = False) -> AsyncIterator[Unit]:
        """Open a change of the control schema; as ``tenant``."""
        async with self.database.control() as connection:
            unit = Unit(connection, caller=caller, now=self.clock.now(), change_id=self.ids.new())
            if not resumed:
                await self._claim(unit)
            yield unit
            await unit.save_answer(caller.idempotency)
            store = ControlAuditStore(connection)
            for record in unit.records:
                await store.add(self.ids.new(), record, caller)
            await ControlOutboxStore(connection).announce(unit.records, ids=self.ids.block)

    async def check(self, caller: Caller, *, in_control: bool) -> None:
        """Look whether the request was answered before; raises as ``tenant``. Changes nothing."""
        if caller.idempotency is None:
            return
        door = self.database.control() if in_control else self.database.tenant(caller.tenant)
        async with door as connection:
            unit = Unit(connection, caller=caller, now=self.clock.now(), change_id=self.ids.new())
            await self._claim(unit)

    async def keep_refusal(
        self, caller: Caller, *, in_control: bool, status: int, body: str, headers: dict[str, str]
    ) -> None:
        """Keep a final refusal (409) for a repetition of the request; what was tried has been rolled back.

        Raises
        ------
        ReplayedAnswer, IdempotencyInProgressError, IdempotencyKeyReusedError
            Another request with the key was faster.
        """
        if caller.idempotency is None:
            return
        door = self.database.control() if in_control else self.database.tenant(caller.tenant)
        async with door as connection:
            unit = Unit(connection, caller=caller, now=self.clock.now(), change_id=self.ids.new())
            await self._claim(unit)
            store = IdempotencyStore(connection)
            await store.save(caller.idempotency, status=status, body=body, headers=headers)

    @staticmethod
    async def _claim(unit: Unit) -> None:
        request = unit.caller.idempotency
        if request is None:
            return
        answer = await IdempotencyStore(unit.connection).claim(request)
        if answer is not None:
            raise ReplayedAnswer(answer)
