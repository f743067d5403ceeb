"""What the workers look at all the time: where events wait to be sealed, and which endpoints are due.

Small tables of the control schema for all environments together. They hold wake-ups, and events of tenants and keys on
their way; losing none of them is the business of those who write them: in the transaction of what they tell of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

_LOOK: Final = """
    SELECT environment_id, coalesce(array_agg(change_id) FILTER (WHERE change_id IS NOT NULL), '{}') AS change_ids,
        coalesce(array_agg(event_id ORDER BY sequence) FILTER (WHERE event_id IS NOT NULL), '{}') AS event_ids,
        NULL::uuid AS webhook_id
    FROM (
        (SELECT environment_id, change_id, NULL::uuid AS event_id, NULL::bigint AS sequence FROM unsealed_change
        WHERE environment_id <> ALL(%(not_sealed)s) LIMIT %(changes_max)s)
        UNION ALL
        -- An environment that has no tables yet is told when it has some. No join: one that waits for long is not to
        -- have all environments read at every look.
        (SELECT environment_id, NULL, id, sequence FROM outbox o
        WHERE environment_id <> ALL(%(not_sealed)s)
            AND (SELECT revision FROM tenant_environment e WHERE e.id = o.environment_id) IS NOT NULL
        ORDER BY sequence LIMIT %(changes_max)s)
    ) u GROUP BY environment_id
    UNION ALL
    SELECT environment_id, NULL, NULL, webhook_id FROM (
        (SELECT webhook_id, environment_id FROM webhook_queue
        WHERE due_at <= clock_timestamp() AND webhook_id <> ALL(%(not_delivered)s)
            AND environment_id NOT IN (SELECT id FROM tenant_environment WHERE tenant_id = ANY(%(crowded)s))
        ORDER BY due_at LIMIT %(webhooks_max)s)
        UNION ALL
        (SELECT webhook_id, environment_id FROM webhook_queue
        WHERE due_at <= clock_timestamp() AND webhook_id <> ALL(%(not_delivered)s)
            AND environment_id IN (SELECT id FROM tenant_environment WHERE tenant_id = ANY(%(crowded)s))
        ORDER BY due_at LIMIT %(crowded_max)s)
    ) d
"""
_EVERYWHERE: Final = """
    INSERT INTO unsealed_change (change_id, environment_id)
    SELECT gen_random_uuid(), id FROM tenant_environment WHERE revision IS NOT NULL
"""
_GONE: Final = "DELETE FROM webhook_queue WHERE webhook_id = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsealed:
    """An environment in which events wait."""

    environment_id: UUID
    change_ids: Sequence[UUID]
    """Those that are known; there may be more."""
    event_ids: Sequence[UUID]
    """Events of the control schema that it is to be told of; the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueWebhook:
    """An endpoint that is to be looked at."""

    webhook_id: UUID
    environment_id: UUID


class WakeUpStore:
    """``unsealed_change``, ``outbox`` and ``webhook_queue``, of all environments; through the control door."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def look(
        self,
        *,
        not_sealed: Collection[UUID],
        changes_max: int,
        not_delivered: Collection[UUID],
        webhooks_max: int,
        crowded: Collection[UUID],
        crowded_max: int,
    ) -> tuple[list[Unsealed], list[DueWebhook]]:
        """Return environments with changes and events that are not known to be sealed, and endpoints that are due.

        Of both without those given; of the endpoints the longest waiting ones, and beside them some of ``crowded``
        tenants, which are given by their ids. One statement: it is run all the time.
        """
        parameters = {
            "not_sealed": list(not_sealed),
            "changes_max": changes_max,
            "not_delivered": list(not_delivered),
            "webhooks_max": webhooks_max,
            "crowded": list(crowded),
            "crowded_max": crowded_max,
        }
        unsealed, due = [], []
        for row in await fetch_all(self._connection, _LOOK, parameters):
            if row["webhook_id"] is None:
                unsealed.append(
                    Unsealed(
                        environment_id=row["environment_id"],
                        change_ids=row["change_ids"],
                        event_ids=row["event_ids"],
                    )
                )
            else:
                due.append(DueWebhook(webhook_id=row["webhook_id"], environment_id=row["environment_id"]))
        return unsealed, due

    async def sealed(self, change_ids: Sequence[UUID]) -> None:
        """Forget changes whose events have their places."""
        await self._connection.execute("DELETE FROM unsealed_change WHERE change_id = ANY(%s)", (list(change_ids),))

    async def look_everywhere(self) -> None:
        """Have every outbox looked at, also where no change has said so: those of older releases say nothing."""
        await self._connection.execute(_EVERYWHERE)

    async def forget(self, webhook_id: UUID) -> None:
        """Look at an endpoint no more: it is gone."""
        await self._connection.execute(_GONE, (webhook_id,))
