"""Snapshots of what another system has open, and how they compare with what is open here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from payrec.domain.caller import Caller
from payrec.errors import NotFoundError
from payrec.models.common import Page
from payrec.models.snapshots import Difference, DifferenceQuery, SnapshotPublic, SnapshotQuery
from payrec.services.csv_text import csv_pages
from payrec.services.paging import Pager
from payrec.services.snapshot_rendering import difference_of, rendered_snapshots
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.listing import BY_CREATION, PageRequest
from payrec.storage.snapshots import SnapshotStore

_CSV: dict[str, str] = {
    "kind": "kind",
    "externalId": "external_id",
    "expectedTransactionId": "expected_transaction_id",
    "hereOpenAmountMinor": "here_minor",
    "hereCurrency": "here_currency",
    "hereDirection": "here_direction",
    "hereStatus": "here_status",
    "thereOpenAmountMinor": "there_minor",
    "thereCurrency": "there_currency",
    "thereDirection": "there_direction",
    "outcome": "outcome",
    "detail": "detail",
}
"""Headings, and the columns below them."""


class SnapshotService:
    """Shows snapshots; uploads take them in."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def get(self, caller: Caller, snapshot_id: str) -> SnapshotPublic:
        """Return a snapshot.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await SnapshotStore(connection).get(identifier(snapshot_id))
            if row is None:
                raise NotFoundError
            return (await rendered_snapshots(connection, [row]))[0]

    async def page(self, caller: Caller, query: SnapshotQuery) -> Page[SnapshotPublic]:
        """Return a page of snapshots.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(SnapshotPublic.collection, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await SnapshotStore(connection).page(listing.request, query)
            found = await rendered_snapshots(connection, rows)
        return listing.page(SnapshotPublic, rows, data=found, more=more)

    async def differences(self, caller: Caller, snapshot_id: str, query: DifferenceQuery) -> Page[Difference]:
        """Return a page of the differences of a snapshot, by kind and externalId.

        Raises
        ------
        NotFoundError, InvalidCursorError
        """
        wanted = identifier(snapshot_id)
        collection = f"{SnapshotPublic.collection}/{wanted}/differences"
        listing = self._pager.listing(collection, query, {"externalId": BY_CREATION["createdAt"]}, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            store = SnapshotStore(connection)
            if await store.get(wanted) is None:
                raise NotFoundError
            rows, more = await store.differences(wanted, listing.request, query)
        found = [Difference.model_validate(difference_of(row)) for row in rows]
        return listing.page(Difference, rows, data=found, more=more)

    async def differences_csv(self, caller: Caller, snapshot_id: str) -> AsyncIterator[bytes]:
        """Return all differences of a snapshot as CSV, in their order; they are read while they are sent.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(snapshot_id)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            if await SnapshotStore(connection).get(wanted) is None:
                raise NotFoundError

        async def page(request: PageRequest) -> tuple[Sequence[dict[str, Any]], bool]:
            async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
                return await SnapshotStore(connection).differences(wanted, request)

        return csv_pages(_CSV, page)
