"""Exchange rates: stored as they come, one of each day and pair of currencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.fx_rates import FxRate, parse_rate
from payrec.errors import FieldError, PayrecError, ValidationFailedError
from payrec.models.common import BulkResults, Page
from payrec.models.fx_rates import FxRateGiven, FxRatePublic, FxRateQuery, FxRatesPut
from payrec.services.bulk_results import Results, read_items
from payrec.services.paging import Pager
from payrec.services.validation import validated
from payrec.services.work import Unit, Work
from payrec.storage.fx_rates import SORTS, FxRateStore, RatePut

COLLECTION: Final = "/fx-rates"


class FxRateService:
    """Stores and lists the exchange rates of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager
        self._logger = structlog.get_logger("payrec.fx_rates")

    async def put(self, caller: Caller, given: FxRatesPut) -> BulkResults:
        """Store rates in the place of those of the same day and currencies; each item succeeds or fails by itself.

        An item that the request has twice fails both times: nobody can tell which of them is meant.
        """
        right, wrong = _read(given.items)
        results = Results(caller)
        results.refuse_all(wrong)
        if right:
            async with self._work.tenant(caller) as unit:
                stored = await self._store(unit, right.values())
            for index, item in right.items():
                row = stored[item.key]
                results.succeed(index, 201 if row["is_new"] else 200, row["id"])
            self._logger.info("fx_rates.stored", count=len(right))
        return results.told()

    async def page(self, caller: Caller, query: FxRateQuery) -> Page[FxRatePublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, SORTS, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await FxRateStore(connection).page(listing.request, query)
        return listing.page(
            FxRatePublic,
            rows,
            data=[public_of(row) for row in rows],
            more=more,
        )

    async def _store(self, unit: Unit, items: Iterable[FxRateGiven]) -> dict[Any, dict[str, Any]]:
        """Store rates and return their rows by date, base and quote."""
        rates = {item.key: parse_rate(item.rate) for item in items}
        puts = [
            RatePut(
                id=self._work.ids.new(),
                rated_on=day,
                base=base,
                quote=quote,
                mantissa=rate.mantissa,
                places=rate.places,
            )
            for (day, base, quote), rate in rates.items()
        ]
        rows = await FxRateStore(unit.connection).put(
            puts, change_id=unit.change_id, at=unit.now, set_by=unit.caller.principal.hands
        )
        found = {(row["date"], row["base"], row["quote"]): row for row in rows}
        for key, row in found.items():
            if row["changed"]:
                unit.record(record_of(row, rates[key]))
        return found


def _read(items: list[dict[str, Any]]) -> tuple[dict[int, FxRateGiven], dict[int, PayrecError]]:
    """Return by their place the items that are right, and what is wrong with the others."""
    right, wrong = read_items(items, lambda index, item: validated(FxRateGiven, item, pointer=f"/items/{index}"))
    counts = Counter(item.key for item in right.values())
    for index in [index for index, item in right.items() if counts[item.key] > 1]:
        detail = "another item has the same date, base and quote"
        field = FieldError(pointer=f"/items/{index}", code="given_twice", detail=detail)
        wrong[index] = ValidationFailedError.of(field)
        del right[index]
    return right, wrong


def record_of(row: dict[str, Any], rate: FxRate) -> Record:
    """Return the audit record of a rate that was stored, as ``FxRateStore.put`` has returned it."""
    about = {"date": row["date"].isoformat(), "base": row["base"], "quote": row["quote"]}
    before = None
    if not row["is_new"] and row["mantissa_before"] is not None:
        before = {**about, "rate": str(FxRate(row["mantissa_before"], row["places_before"]))}
    action = "fx_rate.created" if row["is_new"] else "fx_rate.updated"
    return Record(action=action, resource_id=row["id"], before=before, after={**about, "rate": str(rate)})


def public_of(row: dict[str, Any]) -> FxRatePublic:
    """Return the resource of a stored row."""
    return FxRatePublic.model_validate({**row, "rate": str(FxRate(row["mantissa"], row["places"]))})
