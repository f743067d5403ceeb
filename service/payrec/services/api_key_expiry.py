"""Keys that expire soon: their tenant environments are told in time, once for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.constants import API_KEY_EXPIRY_BATCH, API_KEY_EXPIRY_NOTICE
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.models.api_keys import ApiKeyExpiring
from payrec.services.work import Work
from payrec.storage.api_keys import EveryApiKeyStore
from payrec.storage.tenants import TenantStore, scope_of

ACTION: Final = "api_key.expiring"
"""The event, and the audit record that goes with it."""

ACTOR: Final = "key-expiry"
"""Who writes it."""

_LAST_ID: Final = UUID(int=2**128 - 1)
"""Behind every key that expires at the same instant."""


class ApiKeyExpiryService:
    """Announces expiries, each in one transaction of the control schema with the mark that it was announced."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.api_keys")

    async def announce(self) -> int:
        """Announce every key that expires within ``API_KEY_EXPIRY_NOTICE``; return for how many that was done.

        A suspended environment is passed over; its keys are announced when it is open again, unless they are over.
        """
        began = self._work.clock.now()
        request_id = str(self._work.ids.new())
        after, announced = (began, _LAST_ID), 0
        while True:
            async with self._work.database.control(readonly=True) as connection:
                batch = await EveryApiKeyStore(connection).expiring(
                    after=after, until=began + API_KEY_EXPIRY_NOTICE, limit=API_KEY_EXPIRY_BATCH
                )
            by_environment: dict[UUID, list[dict[str, Any]]] = {}
            for key in batch:
                by_environment.setdefault(key["environment_id"], []).append(key)
            for environment_id, due in by_environment.items():
                try:
                    announced += await self._announce(environment_id, due, request_id)
                except Exception:
                    # The other environments are to be told all the same; this one is, at the next run.
                    self._logger.exception("api_key_expiry.not_announced", environment_id=str(environment_id))
            if len(batch) < API_KEY_EXPIRY_BATCH:
                return announced
            after = (batch[-1]["expires_at"], batch[-1]["id"])

    async def _announce(self, environment_id: UUID, due: Sequence[dict[str, Any]], request_id: str) -> int:
        scope = await self._open_scope(environment_id)
        if scope is None:
            return 0
        principal = Principal(kind="system", name=ACTOR, tenant_id=scope.tenant_id)
        async with self._work.control(Caller(principal=principal, request_id=request_id, scope=scope)) as unit:
            marked = await EveryApiKeyStore(unit.connection).mark_announced([key["id"] for key in due], at=unit.now)
            for key in due:
                if key["id"] in marked:
                    data = ApiKeyExpiring.model_validate(key).model_dump(mode="json", by_alias=True)
                    unit.record(Record(action=ACTION, resource_id=key["id"], data=data))
        return len(unit.records)

    async def _open_scope(self, environment_id: UUID) -> TenantScope | None:
        async with self._work.database.control(readonly=True) as connection:
            row = await TenantStore(connection).scope(environment_id)
        if row is None or row["revision"] is None or {row["tenant_status"], row["status"]} != {"active"}:
            return None
        return scope_of(row)
