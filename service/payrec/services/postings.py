"""Postings: read from a sequence on, and acknowledged by whoever has taken them over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import to_json

from payrec.constants.postings import POSTING_LINES_PAGE_MAX
from payrec.domain.caller import Caller, IdSource
from payrec.domain.changes import Record
from payrec.errors import ConflictError, FieldError, ValidationFailedError
from payrec.models.common import Page
from payrec.models.postings import (
    PostingAcknowledge,
    PostingAcknowledgementPublic,
    PostingAcknowledgementQuery,
    PostingPublic,
    PostingQuery,
)
from payrec.services.paging import Pager
from payrec.services.work import Work
from payrec.storage.listing import BY_CREATION
from payrec.storage.postings import BY_SEQUENCE, PostingStore

COLLECTION: Final = "/postings"
ACKNOWLEDGEMENTS: Final = "/postings/acknowledgements"


class PostingService:
    """Gives the books of the caller's tenant environment what they are to have."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def page(self, caller: Caller, query: PostingQuery) -> tuple[bytes, str | None]:
        """Return a page as JSON, and the cursor of the next one: somebody reads them by the hundred thousand.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_SEQUENCE, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await PostingStore(connection).page(listing.request, query, lines_max=POSTING_LINES_PAGE_MAX)
        cursor = listing.page(PostingPublic, rows, more=more, data=()).next_cursor
        told = {"data": [_told(row) for row in rows], "hasMore": more, "nextCursor": cursor}
        return to_json(told), cursor

    async def acknowledge(self, caller: Caller, given: PostingAcknowledge) -> tuple[PostingAcknowledgementPublic, int]:
        """Keep that all postings through one were taken over as a batch; return that, and 200 if it was known.

        Raises
        ------
        ValidationFailedError
            The sequence was never given.
        ConflictError
            It was taken over before, by another batch; or the batch is another one's.
        """
        async with self._work.tenant(caller) as unit:
            store = PostingStore(unit.connection)
            last, acknowledged = await store.hold()
            known = await store.batch(given.external_batch_id)
            if given.through_sequence > last:
                detail = f"the last posting is {last}" if last else "there is no posting yet"
                raise ValidationFailedError.of(
                    FieldError(pointer="/throughSequence", code="unknown_sequence", detail=detail)
                )
            if known is not None:
                if known["through_sequence"] != given.through_sequence:
                    raise ConflictError("the batch has taken over other postings")
                public = PostingAcknowledgementPublic.model_validate(known)
                unit.answer(200, public)
                return public, 200
            if given.through_sequence <= acknowledged:
                raise ConflictError(f"postings were taken over through {acknowledged} already")
            row = _row(caller, given, acknowledged, ids=self._work.ids) | {"created_at": unit.now}
            await store.acknowledge(row)
            public = PostingAcknowledgementPublic.model_validate(row)
            unit.record(
                Record(
                    action="postings.acknowledged",
                    resource_id=public.id,
                    after={
                        "fromSequence": public.from_sequence,
                        "throughSequence": public.through_sequence,
                        "externalBatchId": public.external_batch_id,
                    },
                )
            )
            unit.answer(201, public)
        return public, 201

    async def acknowledgements(
        self, caller: Caller, query: PostingAcknowledgementQuery
    ) -> Page[PostingAcknowledgementPublic]:
        """Return a page of what was taken over.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(ACKNOWLEDGEMENTS, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await PostingStore(connection).acknowledgements(listing.request, query)
        return listing.page(PostingAcknowledgementPublic, rows, more=more)


def _row(caller: Caller, given: PostingAcknowledge, acknowledged: int, *, ids: IdSource) -> dict[str, Any]:
    return {
        "id": ids.new(),
        "from_sequence": acknowledged + 1,
        "through_sequence": given.through_sequence,
        "external_batch_id": given.external_batch_id,
        "acknowledged_by": caller.principal.actor,
    }


def public_of(row: Mapping[str, Any]) -> PostingPublic:
    """Return the resource of a stored row."""
    return PostingPublic.model_validate(_told(row))


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a posting as ``PostingPublic`` would be told; lines are stored as they are told."""
    told = {
        "sequence": row["sequence"],
        "effectiveOn": row["effective_on"],
        "kind": row["kind"],
        "sourceId": row["id"],
        "lines": row["lines"],
        "createdAt": row["created_at"],
    }
    if row["reverses_sequence"] is not None:
        told["reversesSequence"] = row["reverses_sequence"]
    return told
