"""How imports end that were loaded, whatever was in their files."""

from __future__ import annotations

from typing import IO, Any

from payrec.domain.changes import Record
from payrec.metrics import Metrics
from payrec.services.work import LostLeaseError, Unit
from payrec.storage.imports import ImportStore
from payrec.storage.jobs import JobStore


async def end_import(
    unit: Unit,
    row: dict[str, Any],
    values: dict[str, Any],
    problems: IO[bytes],
    *,
    attempt: int,
    result: dict[str, Any],
) -> dict[str, Any]:
    """End an import that was loaded, and its job, and return the import's row as it is then.

    Raises
    ------
    LostLeaseError
        Another worker does it, or it was cancelled.
    """
    store = ImportStore(unit.connection)
    if not await store.complete(row["id"], values, at=unit.now):
        raise LostLeaseError
    problems.seek(0)
    await store.add_problems(problems)
    return await end_job(unit, row, values, attempt=attempt, result=result)


async def end_job(
    unit: Unit, row: dict[str, Any], values: dict[str, Any], *, attempt: int, result: dict[str, Any]
) -> dict[str, Any]:
    """End the job of an import that is complete; the rest as ``end_import``."""
    jobs = JobStore(unit.connection)
    done = values["records"]
    if not await jobs.finish(row["job_id"], attempt=attempt, now=unit.now, result=result, done=done):
        raise LostLeaseError
    unit.record(Record(action="import.completed", resource_id=row["id"], after=values))
    unit.record(Record(action="job.succeeded", resource_id=row["job_id"]))
    return await ImportStore(unit.connection).get(row["id"]) or row


def count_records(metrics: Metrics, values: dict[str, Any]) -> None:
    """Count what became of the records of a file, after it was committed."""
    for outcome in ("accepted", "duplicates", "skipped", "rejected"):
        metrics.records.labels(outcome=outcome).inc(values[outcome])
