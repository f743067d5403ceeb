"""Files of the European Central Bank with the euro's reference rates: read whole, and stored as rates."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Final

import structlog

from payrec.constants.fx_rates import ECB_STORED_AT_ONCE
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.fx_rates import FxRate
from payrec.errors import FieldError, ValidationFailedError
from payrec.formats.ecb_rates import EURO, EcbRates, read_rates
from payrec.models.fx_rates import FxRateFileOptions, FxRatesUploaded
from payrec.services.fx_rates import record_of
from payrec.services.imports import UploadedFile
from payrec.services.work import Unit, Work
from payrec.storage.fx_rates import FxRateStore, RatePut

RateKey = tuple[date, str]
"""Day and currency."""

_EVER: Final = FxRateFileOptions()


class EcbRateService:
    """Stores the rates of files in the caller's tenant environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.fx_rates")

    async def upload(self, caller: Caller, file: UploadedFile, options: FxRateFileOptions = _EVER) -> FxRatesUploaded:
        """Store the rates of a file, all of them or none; the same file again changes nothing.

        A rate of a day that is another now replaces what was stored; matches keep the rate that they were made with.

        Raises
        ------
        UnreadableFileError, PayloadTooLargeError
            As ``read_rates``.
        ValidationFailedError
            The file has no rate of the days that were asked for.
        """
        read = await asyncio.to_thread(read_rates, file.stream, name=file.name)
        rates = _asked_for(read, options)
        first, last = min(day for day, _ in rates), max(day for day, _ in rates)
        async with self._work.tenant(caller) as unit:
            stored = await FxRateStore(unit.connection).between(EURO, first, last)
            new = {key: rate for key, rate in rates.items() if stored.get(key) != (rate.mantissa, rate.places)}
            created, updated = await self._store(unit, new)
            uploaded = FxRatesUploaded(
                format=read.format,
                sha256=file.sha256.hex(),
                first_date=first,
                last_date=last,
                rates=len(rates),
                created=created,
                updated=updated,
                unchanged=len(rates) - created - updated,
                currencies_left_out=sorted(read.unknown),
            )
            if new:
                after = uploaded.model_dump(mode="json", by_alias=True, exclude={"currencies_left_out"})
                unit.record(Record(action="fx_rates.uploaded", after=after))
            unit.answer(200, uploaded)
        self._logger.info("fx_rates.uploaded", created=created, updated=updated, rates=len(rates))
        return uploaded

    async def _store(self, unit: Unit, rates: dict[RateKey, FxRate]) -> tuple[int, int]:
        """Store rates, in one order for everybody; return how many were new, and how many replaced others.

        The file is recorded as a whole, and by itself each rate that it has corrected.
        """
        store = FxRateStore(unit.connection)
        keys = sorted(rates, key=lambda key: (key[1], key[0]))
        created = updated = 0
        for first in range(0, len(keys), ECB_STORED_AT_ONCE):
            puts = [
                RatePut(
                    id=self._work.ids.new(),
                    rated_on=key[0],
                    base=EURO,
                    quote=key[1],
                    mantissa=rates[key].mantissa,
                    places=rates[key].places,
                )
                for key in keys[first : first + ECB_STORED_AT_ONCE]
            ]
            for row in await store.put(puts, change_id=unit.change_id, at=unit.now, set_by=unit.caller.principal.hands):
                created += row["is_new"]
                if row["changed"] and not row["is_new"]:
                    updated += 1
                    unit.record(record_of(row, rates[row["date"], row["quote"]]))
        return created, updated


def _asked_for(read: EcbRates, options: FxRateFileOptions) -> dict[RateKey, FxRate]:
    first, last = options.date_from or date.min, options.date_to or date.max
    found = {key: rate for key, rate in read.rates.items() if first <= key[0] <= last}
    if not found:
        pointer = "/dateFrom" if options.date_from is not None else "/dateTo"
        detail = "the file has no rate of these days"
        raise ValidationFailedError.of(FieldError(pointer=pointer, code="no_rates", detail=detail))
    return found
