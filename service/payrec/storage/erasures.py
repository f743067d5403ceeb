"""Erasures: what is stored of them, and the statements that take texts out of what has statements of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from payrec.domain.scope import TenantScope
from payrec.models.erasures import ErasureQuery
from payrec.storage.allocations import Side, hold_decisions
from payrec.storage.database import Connection
from payrec.storage.filters import created, equalities
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.period_locks import LAST_LOCKED, hold_periods
from payrec.storage.rows import adapt, array_text, columns_of, fetch_all, fetch_one, insert
from payrec.tables.erasures import Erasure

_STATUS: Final = """
    CASE WHEN e.job_id IS NULL OR j.status = 'succeeded' THEN 'completed'
        WHEN j.status IN ('queued', 'running') THEN 'processing' ELSE 'failed' END
"""
# What a job does is told anew when it has ended, and never before or again.
_COLUMNS: Final = f"""
    {columns_of(Erasure, "e")}, {_STATUS} AS status,
    CASE WHEN e.job_id IS NULL OR j.status IN ('queued', 'running') THEN 1 ELSE 2 END AS version,
    coalesce(j.finished_at, e.created_at) AS updated_at
"""
_SOURCE: Final = "erasure e LEFT JOIN job j ON j.id = e.job_id"
_DAYS: Final = {
    Side.EXPECTED: "coalesce({t}.due_on, {t}.created_at::date)",
    Side.INCOMING: "{t}.booking_on",
}
"""The day from which on a transaction is kept, by side."""

_DECIDED: Final = """
    EXISTS (
        SELECT FROM allocation a WHERE a.transaction_id = {{t}}.id AND a.side = {side}
            AND (a.allocated_minor > 0 OR a.status = 'classified')
    )
"""
_BOUND: Final = {
    Side.EXPECTED: _DECIDED.format(side=int(Side.EXPECTED)),
    Side.INCOMING: f"""(
        (NOT {{t}}.pending AND {{t}}.booking_on <= {LAST_LOCKED.format(account="{t}.account")})
        OR {_DECIDED.format(side=int(Side.INCOMING))}
        OR EXISTS (SELECT FROM reversal_link r WHERE {{t}}.id IN (r.reversal_id, r.incoming_id))
    )""",
}
"""Whether books stand on a transaction, by side: it is decided about, or its day is locked."""
# Whoever keeps names of open items waits here, and then does not find them among these any more.
_HOLD_NAMES: Final = "LOCK TABLE counterparty_name IN SHARE ROW EXCLUSIVE MODE"
# The sealer computes what records say: not while this changes.
_HOLD_SEALS: Final = "SELECT pg_advisory_xact_lock(hashtext('audit_seal'), hashtext(current_schema()))"
_SIZE: Final = """
    SELECT sum(pg_relation_size(name::regclass))::bigint AS bytes
    FROM unnest(ARRAY['expected_transaction', 'incoming_transaction', 'stated_row', 'audit_record']) AS t (name)
"""
_BUSY: Final = "SELECT count(*) AS count FROM job WHERE kind = %s AND status = 'running'"
_UNREAD: Final = "SELECT count(*) AS count FROM job WHERE kind = 'import' AND status IN ('queued', 'running')"
_REDACT: Final = """
    WITH wanted AS (
        SELECT * FROM unnest(%(changes)s::uuid[], %(ordinals)s::bigint[]) AS w (change_id, ordinal)
    ), redacted AS (
        UPDATE audit_commitment k SET salt = NULL FROM wanted w
        WHERE (k.change_id, k.ordinal) = (w.change_id, w.ordinal) RETURNING k.change_id
    ), emptied AS (
        UPDATE audit_record r SET before = NULL, after = NULL, reason = NULL FROM wanted w
        WHERE (r.change_id, r.ordinal) = (w.change_id, w.ordinal)
    )
    SELECT count(*) AS count FROM redacted
"""
_RECORDS: Final = """
    SELECT change_id, ordinal FROM audit_record
    WHERE resource_id = ANY(%s::uuid[]) AND num_nonnulls(before, after, reason) > 0
"""
_STATED: Final = """
    SELECT transaction_id, until_change_id, side, stated FROM stated_row
    WHERE side = %s AND transaction_id = ANY(%s) FOR UPDATE
"""
_FORGET_ALIASES: Final = """
    WITH lessons AS (
        DELETE FROM alias_lesson WHERE alias_id = ANY(%(ids)s::uuid[])
    )
    DELETE FROM alias WHERE id = ANY(%(ids)s::uuid[])
"""
_FORGET_LESSON: Final = (
    "UPDATE alias_lesson SET counterparty_name = %s, counterparty_key = 0 WHERE match_id = ANY(%s::uuid[])"
)
_FORGET_NAMES: Final = "DELETE FROM counterparty_name WHERE name_key = ANY(%s::bigint[])"
_DROP_EXPORTS: Final = """
    WITH gone AS (
        DELETE FROM export WHERE resource <> 'fx-rates' RETURNING id, object_id
    ), chunks AS (
        DELETE FROM blob_chunk USING gone WHERE blob_id = gone.id
    )
    SELECT id, object_id FROM gone
"""
# What was read of a file was stored by the transaction that ended its import, so both tell the same instant. The record
# of that end may be over before the file is.
_FILES: Final = """
    SELECT count(*) AS count, max(created_at)::date AS last FROM import
    WHERE num_nonnulls(blob_id, object_id) > 0 AND (
        id IN (SELECT i.import_id FROM incoming_transaction i WHERE i.id = ANY(%(incoming)s::uuid[]))
        OR (
            resource <> 'incoming-transactions'
            AND updated_at IN (SELECT e.created_at FROM expected_transaction e WHERE e.id = ANY(%(expected)s::uuid[]))
        )
        OR id IN (SELECT m.import_id FROM imported_match m WHERE m.match_id = ANY(%(matches)s::uuid[]))
        OR id = ANY(%(imports)s::uuid[])
    )
"""

# Of the control schema: the answer that created a tenant with its administrator, or a key.
_RENAME: Final = """
    UPDATE idempotency i SET body = replace(i.body, t.was, t.now)
    FROM (
        SELECT to_json(%(member)s::text)::text || ':' || to_json(%(was)s::text)::text AS was,
            to_json(%(member)s::text)::text || ':' || to_json(%(now)s::text)::text AS now
    ) t
    WHERE strpos(i.body, %(id)s) > 0 AND strpos(i.body, t.was) > 0
"""
_SETTINGS: Final = """
    SELECT 'data-sources' AS resource, jsonb_build_array(config, profile) AS value FROM data_source
    UNION ALL SELECT 'webhooks', to_jsonb(url) FROM webhook
"""


def duty(side: Side, table: str = "t") -> tuple[str, str]:
    """Return the SQL of ``kept_from`` and ``is_bound``: from which day on a transaction is kept, if it is at all."""
    return f"{_DAYS[side].format(t=table)} AS kept_from", f"{_BOUND[side].format(t=table)} AS is_bound"


class ErasureStore:
    """``erasure`` of one tenant environment, and what is erased there."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hold(self) -> None:
        """Keep everybody from deciding, sealing, and keeping names, until the transaction ends."""
        await hold_periods(self._connection)
        await hold_decisions(self._connection, alone=True)
        await self._connection.execute(_HOLD_NAMES)
        await self._connection.execute(_HOLD_SEALS)

    async def size(self) -> int:
        """Return how many bytes the tables with most texts have."""
        row = await fetch_one(self._connection, _SIZE)
        return int(row["bytes"]) if row else 0

    async def running(self, kind: str) -> int:
        """Return how many jobs of a kind are running: they may have read what is erased."""
        row = await fetch_one(self._connection, _BUSY, (kind,))
        return int(row["count"]) if row else 0

    async def unread(self) -> int:
        """Return how many files wait to be read, or are: what they bring is not there yet."""
        row = await fetch_one(self._connection, _UNREAD)
        return int(row["count"]) if row else 0

    async def own_accounts(self) -> list[str]:
        """Return the identifiers of the tenant's accounts."""
        return [row["identifier"] for row in await fetch_all(self._connection, "SELECT identifier FROM account")]

    async def stated(self, side: Side, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return what transactions of a side said before, locked."""
        return await fetch_all(self._connection, _STATED, (int(side), list(ids)))

    async def records_of(self, resources: Sequence[UUID]) -> list[tuple[UUID, int]]:
        """Return the audit records about resources that say anything."""
        rows = await fetch_all(self._connection, _RECORDS, (array_text(resources),))
        return [(row["change_id"], row["ordinal"]) for row in rows]

    async def redact(self, records: Sequence[tuple[UUID, int]]) -> int:
        """Take what audit records say, and the salts of their commitments, which hold without; return how many had one.

        Records in no seal yet have none: they are sealed as they are then.
        """
        parameters = {
            "changes": array_text(change_id for change_id, _ in records),
            "ordinals": array_text(ordinal for _, ordinal in records),
        }
        row = await fetch_one(self._connection, _REDACT, parameters)
        return int(row["count"]) if row else 0

    async def forget_aliases(self, ids: Sequence[UUID]) -> None:
        """Delete aliases with what matches said of them."""
        await self._connection.execute(_FORGET_ALIASES, {"ids": array_text(ids)})

    async def forget_lessons(self, matches: Sequence[UUID], *, name: str) -> None:
        """Have lessons of other aliases mean nobody, who is called ``name``."""
        await self._connection.execute(_FORGET_LESSON, (name, array_text(matches)))

    async def forget_names(self, keys: Collection[int]) -> None:
        """Delete names that were kept for matching; what is still needed is made again."""
        await self._connection.execute(_FORGET_NAMES, (array_text(keys),))

    async def drop_exports(self) -> list[dict[str, Any]]:
        """Delete the files that were made of lists; return ``id`` and ``object_id``, which goes after the commit."""
        return await fetch_all(self._connection, _DROP_EXPORTS)

    async def files(
        self, *, expected: Sequence[UUID], incoming: Sequence[UUID], matches: Sequence[UUID], imports: Sequence[UUID]
    ) -> tuple[int, date | None]:
        """Return how many uploaded files transactions, decisions or problems come from, and the day of the last one."""
        parameters = {
            "expected": array_text(expected),
            "incoming": array_text(incoming),
            "matches": array_text(matches),
            "imports": array_text(imports),
        }
        row = await fetch_one(self._connection, _FILES, parameters) or {"count": 0, "last": None}
        return int(row["count"]), row["last"]

    async def settings(self) -> list[tuple[str, Any]]:
        """Return what is set of data sources and webhooks, each with what the interface calls it."""
        rows = await fetch_all(self._connection, _SETTINGS)
        return [(row["resource"], row["value"]) for row in rows]

    async def add(self, row: dict[str, Any]) -> None:
        """Store an erasure."""
        await insert(self._connection, Erasure, row)

    async def complete(self, erasure_id: UUID, *, reason: str, told: dict[str, Any]) -> None:
        """Store what came of an erasure."""
        query = "UPDATE erasure SET reason = %(reason)s, erased = %(erased)s, kept = %(kept)s WHERE id = %(id)s"
        await self._connection.execute(query, {"id": erasure_id, **adapt(Erasure, {"reason": reason, **told})})

    async def get(self, erasure_id: UUID) -> dict[str, Any] | None:
        """Return an erasure."""
        query = f"SELECT {_COLUMNS} FROM {_SOURCE} WHERE e.id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, (erasure_id,))

    async def page(self, page: PageRequest, query: ErasureQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of erasures."""
        selection = Selection(columns=_COLUMNS, source=_SOURCE, id_column="e.id")
        columns = {"subject": "e.subject", "status": _STATUS}
        for condition, parameters in [*equalities(query, columns), *created(query, "e")]:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)


class UserErasureStore:
    """A user of the control schema whose texts are erased."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, user_id: UUID, tenant_id: UUID) -> dict[str, Any] | None:
        """Return a user of the tenant, locked."""
        query = (
            "SELECT id, username, email, display_name, status FROM app_user WHERE id = %s AND tenant_id = %s FOR UPDATE"
        )
        return await fetch_one(self._connection, query, (user_id, tenant_id))

    async def erase(self, user_id: UUID, *, username: str, at: datetime) -> None:
        """Leave nothing of a user but the id, what the user was allowed, and a name that says nothing."""
        await self._connection.execute(
            "UPDATE app_user SET username = %s, subject = NULL, email = NULL, display_name = NULL,"
            " version = version + 1, updated_at = %s WHERE id = %s",
            (username, at, user_id),
        )

    async def erase_answers(self, user: Mapping[str, Any], *, username: str) -> int:
        """Name a user otherwise in the answers that are kept for repeated requests; return how many those are."""
        return await _rename(self._connection, user["id"], "username", was=user["username"], now=username)

    async def records(self, user_id: UUID) -> int:
        """Return how many records of the control schema are about a user: nobody can change those."""
        query = "SELECT count(*) AS count FROM control.audit_record WHERE resource_id = %s"
        row = await fetch_one(self._connection, query, (user_id,))
        return int(row["count"]) if row else 0


class InstallationErasureStore:
    """What the control schema has of a tenant environment besides users: its keys, and what settings were."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def keys(self, scope: TenantScope) -> list[dict[str, Any]]:
        """Return ``id`` and ``name`` of the environment's keys, those that open nothing any more among them."""
        query = "SELECT id, name FROM api_key WHERE tenant_id = %s AND environment = %s AND name IS NOT NULL"
        return await fetch_all(self._connection, query, (scope.tenant_id, scope.environment))

    async def records(self, tenant_id: UUID) -> list[dict[str, Any]]:
        """Return ``before`` and ``after`` of the records of what was changed of the tenant: nobody can change those."""
        query = "SELECT before, after FROM control.audit_record WHERE resource_id = %s"
        return await fetch_all(self._connection, query, (tenant_id,))

    async def name_key(self, key: Mapping[str, Any], name: str) -> int:
        """Name a key otherwise, also in the answers that are kept for repeated requests; return how many those are."""
        await self._connection.execute("UPDATE api_key SET name = %s WHERE id = %s", (name, key["id"]))
        return await _rename(self._connection, key["id"], "name", was=key["name"], now=name)


async def _rename(connection: Connection, resource_id: UUID, member: str, *, was: str, now: str) -> int:
    """Have stored answers with an id say something else as ``member``; return how many have said it."""
    parameters = {"id": str(resource_id), "member": member, "was": was, "now": now}
    return (await connection.execute(_RENAME, parameters)).rowcount
