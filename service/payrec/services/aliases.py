"""Names on statements and whom they mean: listed, and forgotten on demand."""

from __future__ import annotations

from typing import Final

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.errors import NotFoundError
from payrec.models.aliases import AliasPublic, AliasQuery
from payrec.models.common import Page
from payrec.services.paging import Pager
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.aliases import AliasStore
from payrec.storage.listing import BY_CREATION

COLLECTION: Final = "/matching/aliases"


class AliasService:
    """Lists and forgets the aliases of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager
        self._logger = structlog.get_logger("payrec.aliases")

    async def page(self, caller: Caller, query: AliasQuery) -> Page[AliasPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await AliasStore(connection).page(listing.request, query)
        return listing.page(
            AliasPublic,
            rows,
            more=more,
        )

    async def forget(self, caller: Caller, alias_id: str) -> None:
        """Forget an alias, for good: matches do not teach it again. Again is the same.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(alias_id)
        async with self._work.tenant(caller) as unit:
            store = AliasStore(unit.connection)
            if await store.get(wanted) is None:
                raise NotFoundError
            before = await store.forget(wanted, at=unit.now)
            if before is not None:
                unit.record(Record(action="alias.forgotten", resource_id=wanted))
        self._logger.info("alias.forgotten", alias_id=str(wanted))
