"""Events of the control schema: written with the change of a tenant or key, for each environment that it concerns.

The sealer takes them over into the outbox of the environment (``ChangeStore.take_over``) and forgets them when they
have their places in its feed. Like those of an environment they are numbered while the transaction holds what they
are about, so of two changes of one resource the later one has the greater ``sequence``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from payrec.domain.changes import Record
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

EVENT_TYPES: Final = frozenset(
    {
        "api_key.created",
        "api_key.expiring",
        "api_key.revoked",
        "tenant.created",
        "tenant.settings_updated",
        "tenant.suspended",
    }
)
"""Actions on tenants and keys that their environments are told about; the rest is audit alone."""

_CONCERNED: Final = """
    SELECT r.ordinal, e.id AS environment_id
    FROM unnest(%(resources)s::uuid[]) WITH ORDINALITY AS r (id, ordinal) CROSS JOIN LATERAL (
        SELECT e.id FROM tenant_environment e WHERE e.tenant_id = r.id
        UNION ALL
        SELECT e.id FROM api_key k JOIN tenant_environment e USING (tenant_id, environment) WHERE k.id = r.id
    ) e ORDER BY r.ordinal, e.id
"""
_ANNOUNCE: Final = """
    INSERT INTO outbox (id, environment_id, resource_id, type, data)
    SELECT id, environment_id, resource_id, type, data FROM unnest(
        %(ids)s::uuid[], %(environments)s::uuid[], %(resources)s::uuid[], %(types)s::text[], %(data)s::jsonb[]
    ) WITH ORDINALITY AS t (id, environment_id, resource_id, type, data, ordinal) ORDER BY ordinal
"""
_OF: Final = "SELECT id, resource_id, occurred_at, type, data FROM outbox WHERE id = ANY(%s) ORDER BY sequence"


class ControlOutboxStore:
    """``outbox`` of the control schema."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def announce(self, records: Sequence[Record], *, ids: Callable[[int], int]) -> None:
        """Write the events of these records: a key's for its environment, a tenant's for each of its environments.

        ``ids`` gives the first of so many consecutive identifiers.
        """
        told = [r for r in records if r.action in EVENT_TYPES and r.resource_id is not None]
        if not told:
            return
        resources = [record.resource_id for record in told]
        concerned = await fetch_all(self._connection, _CONCERNED, {"resources": resources})
        first = ids(len(concerned)) if concerned else 0
        of = [told[row["ordinal"] - 1] for row in concerned]
        parameters = {
            "ids": [UUID(int=first + n) for n in range(len(concerned))],
            "environments": [row["environment_id"] for row in concerned],
            "resources": [record.resource_id for record in of],
            "types": [record.action for record in of],
            "data": [Jsonb(record.data or {}) for record in of],
        }
        await self._connection.execute(_ANNOUNCE, parameters)

    async def get(self, event_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return those of these events that are still on their way, in the order in which they were written."""
        return await fetch_all(self._connection, _OF, (list(event_ids),))

    async def forget(self, event_ids: Sequence[UUID]) -> None:
        """Forget events that have their places in the feed of their environment."""
        await self._connection.execute("DELETE FROM outbox WHERE id = ANY(%s)", (list(event_ids),))
