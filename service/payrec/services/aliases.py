"""Names on statements and whom they mean: listed, and forgotten on demand."""

from __future__ import annotations

from typing import Any, Final

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
            data=[_public(row) for row in rows],
            more=more,
        )

    async def forget(self, caller: Caller, alias_id: str) -> None:
        """Forget an alias, for good: matches do not teach it again, and the next run does without. Again is the same.

        Raises
        ------
        NotFoundError
        """
        wanted = identifier(alias_id)
        async with self._work.tenant(caller) as unit:
            store = AliasStore(unit.connection)
            if not await store.exists(wanted):
                raise NotFoundError
            before = await store.forget(wanted, change_id=unit.change_id, at=unit.now)
            if before is not None:
                unit.record(Record(action="alias.forgotten", resource_id=wanted, before=before))
        self._logger.info("alias.forgotten", alias_id=str(wanted))


def _public(row: dict[str, Any]) -> AliasPublic:
    public = AliasPublic.model_validate({**row, "explanation": ""})
    return public.model_copy(update={"explanation": _explained(public)})


def _explained(alias: AliasPublic) -> str:
    """Say why the name means whom it means, or why it is of no use."""
    said = f'On statements, "{alias.statement_name}" means "{alias.counterparty_name}": '
    said += f"{_matches(alias.confirmations)} accepted {'says' if alias.confirmations == 1 else 'say'} so"
    if alias.rejections:
        said += f", {_matches(alias.rejections)} of both rejected"
    if alias.disagreements:
        said += f", {_matches(alias.disagreements)} accepted for another counterparty"
    if alias.status == "contradicted":
        return f"{said}. So it is not used."
    return f"{said}. It is used from the next run on."


def _matches(count: int) -> str:
    return "one match" if count == 1 else f"{count} matches"
