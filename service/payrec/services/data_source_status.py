"""How the files of a data source went: its status follows them, and others are told when it changes."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from payrec.domain.changes import Record
from payrec.services.work import Unit
from payrec.storage.data_sources import DataSourceStore

_TOLD: Final = ("code", "reason", "detail")
"""What ``lastError`` tells of the problem; all of it is with the import or the job."""


async def follow_import(unit: Unit, row: dict[str, Any], problem: dict[str, Any] | None = None) -> None:
    """Note how an import ended, in its own transaction; ``problem`` is why it failed.

    Nothing is done for an import of no data source, nor of one that was deleted meanwhile, nor of one that is pulled:
    its status follows its syncs.
    """
    source_id = row["data_source_id"]
    if source_id is None:
        return
    error: dict[str, Any] | None = None
    if problem is not None:
        error = {"importId": str(row["id"]), **{name: problem[name] for name in _TOLD if name in problem}}
    await _note(unit, source_id, error, {"importId": str(row["id"])}, of_uploads=True)


async def follow_sync(unit: Unit, job: dict[str, Any], problem: dict[str, Any] | None = None) -> None:
    """Note how a sync ended, in its own transaction; ``problem`` is why it failed, or an object of it."""
    source_id, of_job = UUID(job["params"]["dataSourceId"]), {"jobId": str(job["id"])}
    error: dict[str, Any] | None = None
    if problem is not None:
        error = {**of_job, **{name: problem[name] for name in ("name", *_TOLD) if name in problem}}
    await _note(unit, source_id, error, of_job, of_uploads=False)


async def _note(
    unit: Unit, source_id: UUID, error: dict[str, Any] | None, of: dict[str, str], *, of_uploads: bool
) -> None:
    store = DataSourceStore(unit.connection)
    was_failing = await store.note(source_id, error=error, at=unit.now, of_uploads=of_uploads)
    if was_failing is None or was_failing == (error is not None):
        return
    action = "data_source.failed" if error is not None else "data_source.recovered"
    unit.record(Record(action=action, resource_id=source_id, after=error, data=error if error is not None else of))
