"""Files of expected transactions: read record by record as requests are, and stored as sets."""

from __future__ import annotations

import asyncio
from typing import Any, BinaryIO, Final

from payrec.domain.caller import Caller
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.formats.base import RecordError
from payrec.models.expected_transactions import ExpectedTransactionCreate, ExpectedUploadOptions
from payrec.models.imports import ImportPublic
from payrec.services.auto_runs import match_soon
from payrec.services.expected_rows import Stated, rows_of, stated
from payrec.services.import_ends import count_records, end_import
from payrec.services.import_rendering import rendered_imports
from payrec.services.record_loading import RecordReading, RecordUploads
from payrec.services.validation import validated
from payrec.services.work import Unit
from payrec.storage.expected_loading import ExpectedLoadingStore
from payrec.storage.expected_transactions import ExpectedTransactionStore

NESTED_FIELDS: Final = frozenset({"metadata", "terms"})
"""Members that are no texts or numbers."""

RECORD_FIELDS: Final = frozenset(
    field.alias or name for name, field in ExpectedTransactionCreate.model_fields.items() if name not in NESTED_FIELDS
)
"""What a table may have as headings besides members of ``metadata``."""

RECORD_INTEGERS: Final = frozenset(name for name in RECORD_FIELDS if name.endswith("Minor"))
"""Those of them that are numbers."""


class ExpectedUploads(RecordUploads["_Reading", ImportPublic]):
    """Loads a file of expected transactions: its effect, the end of its import and of its job in one transaction."""

    def _reading(self, stream: BinaryIO, row: dict[str, Any]) -> _Reading:
        return _Reading(stream, row, monotonic=self._work.clock.monotonic)

    async def _load(
        self,
        caller: Caller,
        scope: TenantScope,
        row: dict[str, Any],
        reading: _Reading,
        *,
        attempt: int,
        progress: Progress,
        alone: bool,
    ) -> ImportPublic:
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            loading = ExpectedLoadingStore(unit.connection)
            await loading.begin(alone=alone)
            while piece := await reading.next_piece():
                await self._store(unit, reading, piece)
                progress.reach(reading.counts.records)
            if row["options"].get("mode") == "all_or_nothing" and reading.counts.rejected:
                raise reading.refusal()
            values = reading.values()
            await loading.finish(values["accepted"])
            result = {"importId": str(row["id"]), "accepted": values["accepted"], "duplicates": values["duplicates"]}
            stored = await end_import(unit, row, values, reading.problems, attempt=attempt, result=result)
            public = (await rendered_imports(unit.connection, [stored]))[0]
            unit.answer(201, public, public.headers)
            if values["accepted"]:
                await match_soon(unit, self._work.ids.new())
        count_records(self._metrics, values)
        self._logger.info("import.completed", import_id=str(row["id"]), **values)
        return public

    async def _store(self, unit: Unit, reading: _Reading, piece: list[tuple[int, Stated]]) -> None:
        """Store what of a piece is not there yet."""
        names = [item.given.external_id for _, item in piece if item.given.external_id is not None]
        known = await ExpectedTransactionStore(unit.connection).known(names)
        new = reading.without_known(piece, known)
        first_id = self._work.ids.block(len(new) or 1)
        rows, opened = await asyncio.to_thread(rows_of, new, first_id=first_id, at=unit.now, change_id=unit.change_id)
        await ExpectedLoadingStore(unit.connection).add(rows, opened)


class _Reading(RecordReading[Stated]):
    """Reads a file by the fields and rules of requests."""

    def __init__(self, stream: BinaryIO, row: dict[str, Any], *, monotonic: Any) -> None:
        options = ExpectedUploadOptions.model_validate(row["options"], by_name=True)
        super().__init__(stream, row, options, fields=RECORD_FIELDS, integers=RECORD_INTEGERS, monotonic=monotonic)

    def understood(self, record: dict[str, Any]) -> Stated:
        """Return what a record says."""
        found = stated(validated(ExpectedTransactionCreate, {**self.defaults, **record}))
        if found.given.external_id is None:
            raise RecordError("missing_external_id", "a record of a file needs an externalId, which it is known by")
        return found

    def without_known(self, piece: list[tuple[int, Stated]], known: dict[str, dict[str, Any]]) -> list[Stated]:
        """Return those of a piece that are new; one that says something else than what is there is rejected."""
        new: list[Stated] = []
        there = {name: (row["direction"], row["amount_minor"], row["currency"]) for name, row in known.items()}
        for line, item in piece:
            name = item.given.external_id or ""
            says = (item.given.direction, item.amount_minor, item.given.currency)
            if name not in there:
                there[name] = says
                new.append(item)
                continue
            if there[name] == says:
                self.repeated()
            else:
                detail = "the externalId is there already, with another amount, currency or direction"
                self.refuse(line, RecordError("duplicate_external_id", detail))
        return new
