"""Seals the audit log of each tenant environment, after the commit of what it tells: nobody who writes waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from payrec.constants.upkeep import AUDIT_CHANGES_SEALED_AT_ONCE, AUDIT_RECORDS_READ
from payrec.domain.audit_chain import FIRST_ROOT, SALT_BYTES, SealHash, commitment, content_hash
from payrec.domain.caller import Caller
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.metrics import Metrics
from payrec.services.rounds import go_on
from payrec.services.work import Unit, Work
from payrec.storage.audit_seals import AuditSealStore
from payrec.storage.tenants import TenantStore, standing

ACTOR: Final = "audit-sealer"
"""Who seals."""

_BEFORE_ALL: Final = (UUID(int=0), 0)


class Sealed(NamedTuple):
    """What one seal has."""

    records: int
    is_all: bool
    """Nothing else had waited when it was made."""


class AuditSealer:
    """Chains what was recorded. One environment that fails keeps none of the others waiting."""

    def __init__(self, *, work: Work, metrics: Metrics, token_bytes: Callable[[int], bytes]) -> None:
        self._work = work
        self._metrics = metrics
        self._token_bytes = token_bytes
        self._logger = structlog.get_logger("payrec.audit")

    async def seal_everywhere(self) -> int:
        """Seal what waits in every tenant environment, suspended ones included; return how many records that were.

        In rounds, of which each environment has one seal: where much is done without end, nobody else waits for that.
        """
        request_id = str(self._work.ids.new())
        async with self._work.database.control(readonly=True) as connection:
            rows = await TenantStore(connection).scopes()
        count, left = 0, list(standing(rows))
        while left:
            begun, left = left, []
            for scope in begun:
                try:
                    sealed = await self.seal(scope, request_id)
                except Exception as error:
                    self._logger.exception("audit.not_sealed", environment_id=str(scope.environment_id))
                    await go_on(self._work, error)
                    continue
                count += sealed.records
                if not sealed.is_all:
                    left.append(scope)
        return count

    async def seal(self, scope: TenantScope, request_id: str) -> Sealed:
        """Make one seal in an environment, of the changes that began first, and return what it has.

        It is one transaction: a crash leaves what is not sealed. Where somebody else seals, nothing is done.
        """
        async with self._work.database.tenant(scope, readonly=True) as connection:
            if not await AuditSealStore(connection).waits():
                return Sealed(0, is_all=True)
        principal = Principal(kind="system", name=ACTOR, tenant_id=scope.tenant_id)
        async with self._work.tenant(Caller(principal=principal, request_id=request_id, scope=scope), scope) as unit:
            sealed = await self._sealed(unit)
        self._metrics.audit_sealed.inc(sealed.records)
        return sealed

    async def _sealed(self, unit: Unit) -> Sealed:
        store = AuditSealStore(unit.connection)
        if not await store.hold():
            return Sealed(0, is_all=True)
        changes = await store.take(AUDIT_CHANGES_SEALED_AT_ONCE)
        if not changes:
            return Sealed(0, is_all=True)
        last = await store.last()
        sequence = 1 if last is None else last["sequence"] + 1
        previous_root = FIRST_ROOT if last is None else last["root"]
        seal = SealHash(previous_root=previous_root, sequence=sequence)
        after = _BEFORE_ALL
        while True:
            records = await store.records(changes, after=after, limit=AUDIT_RECORDS_READ)
            if not records:
                break
            salts = [self._token_bytes(SALT_BYTES) for _ in records]
            contents = [content_hash(record, salt) for record, salt in zip(records, salts, strict=True)]
            commitments = [commitment(record, content) for record, content in zip(records, contents, strict=True)]
            places = [(record["change_id"], record["ordinal"]) for record in records]
            await store.commit(sequence, places, salts=salts, contents=contents, commitments=commitments)
            for place, committed in zip(places, commitments, strict=True):
                seal.add(*place, committed)
            after = places[-1]
        if seal.count:
            seal_id = self._work.ids.new()
            await store.add(
                seal_id,
                sequence=sequence,
                at=unit.now,
                count=seal.count,
                previous_root=previous_root,
                root=seal.root,
            )
            told = {"sequence": sequence, "count": seal.count, "root": seal.root.hex()}
            await store.announce(unit.change_id, seal_id, told)
        return Sealed(seal.count, is_all=len(changes) < AUDIT_CHANGES_SEALED_AT_ONCE)
