"""Files of snapshots: read, held against their control totals, and compared with what was open here at that instant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final
from uuid import UUID

from pydantic.alias_generators import to_camel

from payrec.domain.caller import Caller
from payrec.domain.money import parse_decimal
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.errors import ControlTotalsMismatchError, FieldError, PayrecError
from payrec.formats.base import RecordError
from payrec.models.expected_transactions import ExpectedTransactionCreate
from payrec.models.snapshots import SnapshotItem, SnapshotOptions, SnapshotPublic
from payrec.services.auto_runs import match_soon
from payrec.services.expected_rows import Stated, rows_of, stated
from payrec.services.expected_uploads import NESTED_FIELDS, RECORD_FIELDS, RECORD_INTEGERS
from payrec.services.import_ends import count_records, end_import
from payrec.services.import_rendering import ERRORS_SHOWN_MAX
from payrec.services.record_loading import PIECE_RECORDS, RecordReading, RecordUploads, minor_said, told
from payrec.services.snapshot_rendering import KINDS, control_totals, rendered_snapshots
from payrec.services.validation import validated
from payrec.services.work import Unit
from payrec.storage.expected_loading import ExpectedLoadingStore
from payrec.storage.snapshots import SnapshotStore

_COMPARED: Final = frozenset(field.alias or name for name, field in SnapshotItem.model_fields.items())
_OF_CREATION: Final = (RECORD_FIELDS | NESTED_FIELDS) - _COMPARED
"""Members that are looked at when the record is created."""

_REPEATED: Final = RecordError("duplicate_external_id", "the externalId is in the file more than once")


class SnapshotUploads(RecordUploads["_Reading", SnapshotPublic]):
    """Compares a file: the differences, what is created of them, the end of its import and job in one transaction."""

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
    ) -> SnapshotPublic:
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            store = SnapshotStore(unit.connection)
            if reading.options.apply:
                await ExpectedLoadingStore(unit.connection).begin(alone=alone)
            await store.begin_stage()
            while piece := await reading.next_piece():
                await store.stage([{"line": line, **item} for line, item in piece])
                progress.reach(reading.counts.records)
            for line in await store.repeated_lines(limit=ERRORS_SHOWN_MAX):
                reading.refuse(line, _REPEATED)
            if reading.counts.rejected:
                # What is left out would be told as missing there.
                raise reading.refusal()
            totals = {r["currency"]: (r["count"], int(r["minor"])) for r in await store.staged_totals()}
            _check_totals(control_totals(reading.options), totals)
            scope_of = {name: str(value) for name, value in reading.defaults.items()}
            here = await store.compare(row["id"], scope_of, taken_at=reading.options.taken_at)
            created = await self._create(unit, row["id"], reading) if reading.options.apply else 0
            figures = {
                "created": created,
                "totals": _totals({r["currency"]: (r["count"], int(r["minor"])) for r in here}, totals),
                **await _figures(store, row["id"]),
            }
            await store.complete(row["id"], figures)
            records = reading.counts.records
            values = {
                **reading.form(),
                "records": records,
                "accepted": created,
                "duplicates": 0,
                "skipped": records - created,
                "rejected": 0,
            }
            counts = {to_camel(kind): figures[kind]["count"] for kind in KINDS}
            result = {"importId": str(row["id"]), **counts}
            await end_import(unit, row, values, reading.problems, attempt=attempt, result=result)
            public = (await rendered_snapshots(unit.connection, [await store.get(row["id"]) or row]))[0]
            unit.answer(201, public, public.headers)
            if created:
                await match_soon(unit, self._work.ids.new())
        count_records(self._metrics, values)
        self._logger.info("import.completed", import_id=str(row["id"]), **values)
        return public

    async def _create(self, unit: Unit, snapshot_id: UUID, reading: _Reading) -> int:
        """Create what was missing here and says what creation needs; return how many that are."""
        store, loading, created = SnapshotStore(unit.connection), ExpectedLoadingStore(unit.connection), 0
        async for missing in store.missing(snapshot_id, limit=PIECE_RECORDS):
            right, wrong = await asyncio.to_thread(reading.stated, missing)
            first_id = self._work.ids.block(len(right) or 1)
            rows, opened = await asyncio.to_thread(
                rows_of, list(right.values()), first_id=first_id, at=unit.now, change_id=unit.change_id
            )
            await loading.add(rows, opened)
            await store.note_created(snapshot_id, {o: r["id"] for o, r in zip(right, rows, strict=True)})
            await store.note_not_created(snapshot_id, wrong)
            created += len(right)
        await loading.finish(created)
        return created


class _Reading(RecordReading[dict[str, Any]]):
    """Reads a snapshot: of each record what is compared, as a row of the stage."""

    def __init__(self, stream: BinaryIO, row: dict[str, Any], *, monotonic: Any) -> None:
        self.options = SnapshotOptions.model_validate(row["options"], by_name=True)
        super().__init__(
            stream,
            row,
            self.options,
            fields=RECORD_FIELDS | {"openAmount"},
            integers=RECORD_INTEGERS,
            monotonic=monotonic,
        )

    def understood(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return what a record says."""
        said = {**self.defaults, **record}
        item = validated(SnapshotItem, {name: value for name, value in said.items() if name not in _OF_CREATION})
        for name, value in self.defaults.items():
            if getattr(item, name) != value:
                raise RecordError("outside_snapshot", f"/{name}: the snapshot is of another one")
        return {
            "open_minor": minor_said(item.open_amount_minor, item.open_amount, item.currency, name="openAmount"),
            "external_id": item.external_id,
            "currency": item.currency,
            "direction": item.direction,
            "record": json.dumps(record) if self.options.apply else None,
        }

    def stated(self, missing: Sequence[Mapping[str, Any]]) -> tuple[dict[int, Stated], dict[int, str]]:
        """Return what is to be created of records, and what is wrong with the others, by their ordinals."""
        right: dict[int, Stated] = {}
        wrong: dict[int, str] = {}
        for row in missing:
            said = {**self.defaults, **json.loads(row["record"])}
            try:
                if "openAmount" in said:
                    said["openAmountMinor"] = parse_decimal(said.pop("openAmount"), said["currency"])
                right[row["ordinal"]] = stated(validated(ExpectedTransactionCreate, said))
            except PayrecError as error:
                wrong[row["ordinal"]] = told(error)
        return right, wrong


def _check_totals(given: Mapping[str, tuple[int, int]], found: Mapping[str, tuple[int, int]]) -> None:
    """Hold what came against what the sender counted and added up.

    Raises
    ------
    ControlTotalsMismatchError
    """
    errors = []
    for place, (currency, (count, minor)) in enumerate(given.items()):
        has_count, has_minor = found.get(currency, (0, 0))
        if (count, minor) != (has_count, has_minor):
            detail = f"the file has {has_count} items of {has_minor} minor units"
            errors.append(FieldError(pointer=f"/controlTotals/{place}", code="control_total_mismatch", detail=detail))
    for currency in sorted(found.keys() - given.keys()):
        detail = f"the file has items in {currency}, which has no control total"
        errors.append(FieldError(pointer="/controlTotals", code="control_total_missing", detail=detail))
    if errors:
        raise ControlTotalsMismatchError("the file is not what its sender counted and added up", errors=errors)


def _totals(here: Mapping[str, tuple[int, int]], there: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    return {
        currency: {"here": here.get(currency, (0, 0)), "there": there.get(currency, (0, 0))}
        for currency in sorted(here.keys() | there.keys())
    }


async def _figures(store: SnapshotStore, snapshot_id: UUID) -> dict[str, Any]:
    """Return count and sums by currency of each kind of difference, as they are stored."""
    counts, sums = await store.sums(snapshot_id)
    return {
        kind: {
            "count": counts.get(kind, 0),
            "sums": {
                row["currency"]: (row["count"], int(row["here_minor"]), int(row["there_minor"]))
                for row in sums
                if row["kind"] == kind
            },
        }
        for kind in KINDS
    }
