"""The lists that can be exported: read page by page as the lists themselves are, in one view of the data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

from payrec.constants.exports import EXPORT_PAGE_ROWS
from payrec.constants.postings import POSTING_LINES_PAGE_MAX
from payrec.domain.scope import TenantScope, today
from payrec.models.audit_log import AuditLogQuery, AuditRecordPublic
from payrec.models.common import ListQuery, Public
from payrec.models.expected_transactions import ExpectedTransactionPublic, ExpectedTransactionQuery
from payrec.models.exports import ExportResource
from payrec.models.fx_rates import FxRatePublic, FxRateQuery
from payrec.models.imports import ImportPublic, ImportQuery
from payrec.models.incoming_transactions import IncomingTransactionPublic, IncomingTransactionQuery
from payrec.models.jobs import JobPublic, JobQuery
from payrec.models.matches import MatchPublic, MatchQuery
from payrec.models.postings import PostingPublic, PostingQuery
from payrec.services.audit_log import Rows, control_page, merged
from payrec.services.expected_rows import public_of as expected_public
from payrec.services.expected_transactions import until_cut_off
from payrec.services.fx_rates import public_of as fx_rate_public
from payrec.services.import_rendering import rendered_imports
from payrec.services.incoming_transactions import public_of as incoming_public
from payrec.services.jobs import public_of as job_public
from payrec.services.match_rendering import rendered
from payrec.services.postings import public_of as posting_public
from payrec.storage.audit_log import SORTS as AUDIT_SORTS
from payrec.storage.audit_log import AuditLogStore
from payrec.storage.database import Connection, Database
from payrec.storage.expected_transactions import SORTS as EXPECTED_SORTS
from payrec.storage.expected_transactions import ExpectedTransactionStore
from payrec.storage.fx_rates import SORTS as FX_SORTS
from payrec.storage.fx_rates import FxRateStore
from payrec.storage.imports import ImportStore
from payrec.storage.incoming_transactions import SORTS as INCOMING_SORTS
from payrec.storage.incoming_transactions import IncomingTransactionStore
from payrec.storage.jobs import JobStore
from payrec.storage.listing import BY_CREATION, PageRequest, SortKey
from payrec.storage.matches import MatchStore
from payrec.storage.postings import BY_SEQUENCE, PostingStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Whose list is read, when, and through which doors."""

    database: Database
    connection: Connection
    """Of one snapshot of the tenant environment."""
    scope: TenantScope
    day: date
    """Today in the tenant's time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportList:
    """How one list is read and shown."""

    query: type[ListQuery]
    public: type[Public]
    sorts: Mapping[str, SortKey]
    read: Callable[[Reading, PageRequest, Any], Awaitable[Rows]]
    show: Callable[[Reading, Sequence[dict[str, Any]]], Awaitable[list[Public]]]
    per_item: str | None = None
    """Member of which each item makes a line of its own."""


async def pages(
    of: ExportList, reading: Reading, query: ListQuery, *, rows: int = EXPORT_PAGE_ROWS
) -> AsyncIterator[list[Public]]:
    """Yield what the list shows, a page at a time, to its end."""
    sort = of.sorts[query.sort or "-createdAt"]
    page = PageRequest(limit=rows, sort=sort)
    more = True
    while more:
        found, more = await of.read(reading, page, query)
        if found:
            last = found[-1]
            value = last[sort.name] if sort.name is not None else None
            page = replace(page, after={"id": last["id"], "value": value})
            yield await of.show(reading, found)


def _each(
    public_of: Callable[[dict[str, Any]], Public],
) -> Callable[[Reading, Sequence[dict[str, Any]]], Awaitable[list[Public]]]:
    async def show(_reading: Reading, rows: Sequence[dict[str, Any]]) -> list[Public]:
        return [public_of(row) for row in rows]

    return show


async def _expected(reading: Reading, page: PageRequest, query: ExpectedTransactionQuery) -> Rows:
    day = reading.day if query.as_of is None else today(reading.scope, query.as_of)
    wanted = until_cut_off(query, reading.scope)
    return await ExpectedTransactionStore(reading.connection).page(page, wanted, today=day)


async def _incoming(reading: Reading, page: PageRequest, query: IncomingTransactionQuery) -> Rows:
    return await IncomingTransactionStore(reading.connection).page(page, query)


async def _matches(reading: Reading, page: PageRequest, query: MatchQuery) -> Rows:
    return await MatchStore(reading.connection).page(page, query)


async def _postings(reading: Reading, page: PageRequest, query: PostingQuery) -> Rows:
    return await PostingStore(reading.connection).page(page, query, lines_max=POSTING_LINES_PAGE_MAX)


async def _imports(reading: Reading, page: PageRequest, query: ImportQuery) -> Rows:
    return await ImportStore(reading.connection).page(page, query)


async def _shown_imports(reading: Reading, rows: Sequence[dict[str, Any]]) -> list[Public]:
    return list(await rendered_imports(reading.connection, rows))


async def _fx_rates(reading: Reading, page: PageRequest, query: FxRateQuery) -> Rows:
    return await FxRateStore(reading.connection).page(page, query)


async def _jobs(reading: Reading, page: PageRequest, query: JobQuery) -> Rows:
    return await JobStore(reading.connection).page(page, query)


async def _audit_log(reading: Reading, page: PageRequest, query: AuditLogQuery) -> Rows:
    of_environment = await AuditLogStore(reading.connection).page(page, query)
    return merged(page, of_environment, await control_page(reading.database, reading.scope, page, query))


LISTS: Final[dict[ExportResource, ExportList]] = {
    "expected-transactions": ExportList(
        query=ExpectedTransactionQuery,
        public=ExpectedTransactionPublic,
        sorts=EXPECTED_SORTS,
        read=_expected,
        show=_each(expected_public),
    ),
    "incoming-transactions": ExportList(
        query=IncomingTransactionQuery,
        public=IncomingTransactionPublic,
        sorts=INCOMING_SORTS,
        read=_incoming,
        show=_each(incoming_public),
    ),
    "matches": ExportList(
        query=MatchQuery,
        public=MatchPublic,
        sorts=BY_CREATION,
        read=_matches,
        show=_each(rendered),
        per_item="legs",
    ),
    "postings": ExportList(
        query=PostingQuery,
        public=PostingPublic,
        sorts=BY_SEQUENCE,
        read=_postings,
        show=_each(posting_public),
        per_item="lines",
    ),
    "imports": ExportList(
        query=ImportQuery, public=ImportPublic, sorts=BY_CREATION, read=_imports, show=_shown_imports
    ),
    "fx-rates": ExportList(
        query=FxRateQuery, public=FxRatePublic, sorts=FX_SORTS, read=_fx_rates, show=_each(fx_rate_public)
    ),
    "audit-log": ExportList(
        query=AuditLogQuery,
        public=AuditRecordPublic,
        sorts=AUDIT_SORTS,
        read=_audit_log,
        show=_each(AuditRecordPublic.of_row),
    ),
    "jobs": ExportList(query=JobQuery, public=JobPublic, sorts=BY_CREATION, read=_jobs, show=_each(job_public)),
}
"""The lists by what they are called in an export."""
