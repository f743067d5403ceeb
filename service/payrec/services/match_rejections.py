"""What was rejected or reversed and is not proposed again: listed, and forgotten on demand."""

from __future__ import annotations

from typing import Any, Final

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.money import format_minor
from payrec.errors import NotFoundError
from payrec.models.common import Page
from payrec.models.match_rejections import MatchRejectionPublic, MatchRejectionQuery
from payrec.services.paging import Pager
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.alias_lessons import AliasLessonStore
from payrec.storage.listing import BY_CREATION
from payrec.storage.match_rejections import MatchRejectionStore

COLLECTION: Final = "/matching/rejections"


class MatchRejectionService:
    """Lists and forgets the rejections of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager
        self._logger = structlog.get_logger("payrec.match_rejections")

    async def page(self, caller: Caller, query: MatchRejectionQuery) -> Page[MatchRejectionPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await MatchRejectionStore(connection).page(listing.request, query)
        return listing.page(
            MatchRejectionPublic,
            rows,
            data=[_public(row) for row in rows],
            more=more,
        )

    async def forget(self, caller: Caller, match_id: str) -> None:
        """Forget a rejection: the next run may propose the same again. The match stays what it is. Again is the same.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(match_id)
        async with self._work.tenant(caller) as unit:
            store = MatchRejectionStore(unit.connection)
            before = await store.get(wanted)
            if before is None:
                raise NotFoundError
            if await store.forget(wanted, change_id=unit.change_id):
                await AliasLessonStore(unit.connection).take_back([wanted], change_id=unit.change_id, at=unit.now)
                rejected = {
                    "status": before["status"],
                    "decidedBy": before["decided_by"],
                    "decidedAt": before["decided_at"].isoformat(),
                    "reason": before["decision_reason"],
                }
                unit.record(Record(action="match_rejection.forgotten", resource_id=wanted, before=rejected))
        self._logger.info("match_rejection.forgotten", match_id=str(wanted))


def _public(row: dict[str, Any]) -> MatchRejectionPublic:
    return MatchRejectionPublic.model_validate({**row, "amount": format_minor(row["amount_minor"], row["currency"])})
