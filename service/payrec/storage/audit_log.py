"""Reading what was recorded: of one tenant environment, and of its tenant, users and keys in the control schema.

Both have the same order, change by change as they began, so that two pages make one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.domain.identifiers import id_at
from payrec.domain.retention import Removed
from payrec.models.audit_log import AuditLogQuery
from payrec.storage.database import Connection
from payrec.storage.filters import CHANGE_TIME_MAX, Condition, equalities, ranges
from payrec.storage.listing import PageRequest, Selection, SortKey, select_page
from payrec.storage.rows import fetch_one

_COLUMNS: Final = """
    {id}::text AS change_id, {ordinal} AS id, {at} AS at, r.actor, r.action AS type, r.resource_id, {reason} AS reason,
    r.before, r.after, r.request_id
"""
_OF_TENANT: Final = {"id": "r.change_id", "ordinal": "r.ordinal", "at": "c.at", "reason": "r.reason"}
_OF_CONTROL: Final = {"id": "r.id", "ordinal": "0", "at": "r.at", "reason": "NULL::text"}
_DROP: Final = """
    WITH over AS (
        SELECT r.change_id, r.ordinal FROM audit_record r JOIN audit_commitment k USING (change_id, ordinal)
        WHERE r.change_id < %(before)s ORDER BY r.change_id, r.ordinal LIMIT %(limit)s FOR UPDATE OF r SKIP LOCKED
    ), redacted AS (
        UPDATE audit_commitment k SET salt = NULL, content = NULL FROM over
        WHERE (k.change_id, k.ordinal) = (over.change_id, over.ordinal)
    ), gone AS (
        DELETE FROM audit_record r USING over WHERE (r.change_id, r.ordinal) = (over.change_id, over.ordinal)
        RETURNING r.change_id
    )
    SELECT count(*) AS count, min(c.at) AS oldest, max(c.at) AS newest FROM gone JOIN change c ON c.id = gone.change_id
"""
_ABOUT: Final = """
    r.resource_id = ANY(
        ARRAY(SELECT id FROM control.app_user WHERE tenant_id = %(tenant_id)s)
        || ARRAY(SELECT id FROM control.api_key WHERE tenant_id = %(tenant_id)s AND environment = %(environment)s)
        || %(tenant_id)s::uuid
    )
"""


def sort_key(page_sort: str, identifier: str) -> SortKey:
    """Return the order of the log, where ``identifier`` is the column of the change's id."""
    return SortKey(
        expression=identifier,
        descending=page_sort.startswith("-"),
        name="change_id",
        parameter="%(after_value)s::uuid",
    )


SORTS: Final = {name: sort_key(name, "r.change_id") for name in ("createdAt", "-createdAt")}
"""The orders that the interface names; the primary key backs both."""


class AuditLogStore:
    """Reads ``audit_record`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def page(self, page: PageRequest, query: AuditLogQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of records; ``id`` is the record's ordinal in its change."""
        selection = Selection(
            columns=_COLUMNS.format(**_OF_TENANT),
            source="audit_record r JOIN change c ON c.id = r.change_id",
            id_column="r.ordinal",
        )
        for condition, parameters in _conditions(query, _OF_TENANT):
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def has_records(self, *, before: datetime) -> bool:
        """Tell whether there are sealed records of changes that began before an instant."""
        query = """
            SELECT 1 FROM audit_record r JOIN audit_commitment k USING (change_id, ordinal)
            WHERE r.change_id < %s LIMIT 1
        """
        return await fetch_one(self._connection, query, (id_at(before),)) is not None

    async def drop_records(self, *, before: datetime, limit: int) -> Removed:
        """Delete records of changes that began before an instant, the oldest ones, and the salts of their commitments.

        What is in no seal stays until it is: else nobody could tell that it ever was.
        """
        row = await fetch_one(self._connection, _DROP, {"before": id_at(before), "limit": limit})
        return Removed(**(row or {}))


class ControlAuditLogStore:
    """Reads ``control.audit_record``, as far as it is about one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def page(
        self, page: PageRequest, query: AuditLogQuery, *, tenant_id: UUID, environment: str
    ) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of what was done to the tenant, to its users, and to the keys of the environment."""
        selection = Selection(
            columns=_COLUMNS.format(**_OF_CONTROL), source="control.audit_record r", id_column="0::bigint"
        )
        selection.where(_ABOUT, tenant_id=tenant_id, environment=environment)
        for condition, parameters in _conditions(query, _OF_CONTROL):
            selection.where(condition, **parameters)
        sort = sort_key(query.sort, "r.id")
        return await select_page(
            self._connection, selection, PageRequest(limit=page.limit, sort=sort, after=page.after)
        )


def _conditions(query: AuditLogQuery, columns: dict[str, str]) -> list[Condition]:
    at, identifier = columns["at"], columns["id"]
    found = equalities(query, {"type": "r.action", "resource_id": "r.resource_id", "actor": "r.actor"})
    found += ranges(
        query, {"from_": f"{at} >=", "to": f"{at} <=", "created_from": f"{at} >=", "created_to": f"{at} <="}
    )
    # The instant has no index of its own in this order; the ids of changes have, and begin with a time near it.
    for name, operator in (("from_", ">="), ("to", "<="), ("created_from", ">="), ("created_to", "<=")):
        given: datetime | None = getattr(query, name)
        if given is not None:
            slack = -CHANGE_TIME_MAX if operator == ">=" else CHANGE_TIME_MAX
            found.append((f"{identifier} {operator} %({name}_id)s", {f"{name}_id": id_at(given, slack)}))
    return found
