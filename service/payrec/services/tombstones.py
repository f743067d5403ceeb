"""Dropped environments whose schemas are still there under another name: dropped when nobody is in them any more."""

from __future__ import annotations

from typing import Any

import structlog

from payrec.constants.tenants import (
    TOMBSTONE_ATTEMPTS_MAX,
    TOMBSTONE_LEASE,
    TOMBSTONE_RETRY_FIRST,
    TOMBSTONE_RETRY_MAX,
    TOMBSTONES_AT_ONCE,
)
from payrec.domain.caller import Clock
from payrec.storage.database import Database
from payrec.storage.provisioning import Provisioner
from payrec.storage.tombstones import TombstoneStore


class TombstoneService:
    """Drops schemas and roles. ``provisioner`` None: this process has no administrator, and does nothing."""

    def __init__(self, *, database: Database, provisioner: Provisioner | None, clock: Clock) -> None:
        self._database = database
        self._provisioner = provisioner
        self._clock = clock
        self._logger = structlog.get_logger("payrec.tombstones")

    async def drop_due(self) -> int:
        """Drop the schemas and roles whose time has come; return how many. What fails is tried again, later.

        After ``TOMBSTONE_ATTEMPTS_MAX`` attempts nobody tries any more, and the log says so: the row stays with the
        class of its error, and setting its ``next_attempt_at`` begins anew.
        """
        if self._provisioner is None:
            return 0
        dropped = 0
        for _ in range(TOMBSTONES_AT_ONCE):
            now = self._clock.now()
            async with self._database.provisioning() as connection:
                due = await TombstoneStore(connection).take(now=now, lease=now + TOMBSTONE_LEASE)
            if due is None:
                break
            try:
                await self._drop(self._provisioner, due)
                dropped += 1
            except Exception as error:
                # The other schemas are to go all the same.
                self._logger.exception("tombstone.not_dropped", schema=due["dropped_name"])
                await self._put_off(due, error)
        return dropped

    async def _drop(self, provisioner: Provisioner, due: dict[str, Any]) -> None:
        """First the schema, then the role if nothing else needs it; the tombstone goes with the role."""
        await provisioner.drop_schema(due["schema_name"], due["role_name"])
        async with self._database.provisioning() as connection:
            store = TombstoneStore(connection)
            await store.hold(due["role_name"])
            await store.drop_role(due["role_name"], but_for=due["schema_name"])
            await store.forget(due["schema_name"])
        self._logger.info("tombstone.dropped", schema=due["dropped_name"], tenant_id=str(due["tenant_id"]))

    async def _put_off(self, due: dict[str, Any], error: Exception) -> None:
        over = due["attempts"] >= TOMBSTONE_ATTEMPTS_MAX
        delay = min(TOMBSTONE_RETRY_FIRST * 2 ** (due["attempts"] - 1), TOMBSTONE_RETRY_MAX)
        if over:
            self._logger.error("tombstone.given_up", schema=due["schema_name"], error=type(error).__name__)
        async with self._database.provisioning() as connection:
            await TombstoneStore(connection).failed(
                due["schema_name"],
                error=type(error).__name__,
                next_attempt_at=None if over else self._clock.now() + delay,
            )
