"""Matches: read and listed with their reasons. Decisions about them are beside."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from payrec.domain.caller import Caller
from payrec.errors import NotFoundError
from payrec.models.common import Page
from payrec.models.matches import MatchPublic, MatchQuery
from payrec.services.match_rendering import rendered
from payrec.services.paging import Pager
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.listing import BY_CREATION
from payrec.storage.matches import MatchStore

COLLECTION: Final = "/matches"


class MatchService:
    """Lists matches of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def get(self, caller: Caller, match_id: str, *, as_of: datetime | None = None) -> MatchPublic:
        """Return a match, now or as of an instant.

        Raises
        ------
        AsOfOutOfRangeError, NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await MatchStore(connection).get(identifier(match_id), as_of=as_of)
        if row is None:
            raise NotFoundError
        return rendered(row)

    async def page(self, caller: Caller, query: MatchQuery) -> Page[MatchPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError, AsOfOutOfRangeError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await MatchStore(connection).page(listing.request, query)
        return listing.page(
            MatchPublic,
            rows,
            data=[rendered(row) for row in rows],
            more=more,
        )
