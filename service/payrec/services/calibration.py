"""What decisions have taught, shown and reset. The API reads it as well, so nothing heavy is imported here."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.matching.rules import FEATURES, PARTS_PER_MILLION
from payrec.domain.matching.weights import PRECISION_PPM_MIN, WEIGHTS, Calibration, correction_of
from payrec.models.calibration import CalibrationPublic, CorrectionPublic
from payrec.services.work import Work
from payrec.storage.calibration import CalibrationStore


class CalibrationService:
    """Shows and resets what was learned in the caller's tenant environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.calibration")

    async def get(self, caller: Caller) -> CalibrationPublic:
        """Return the version in force; version 0 when nothing was learned yet."""
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await CalibrationStore(connection).current()
        return _public(row)

    async def reset(self, caller: Caller) -> None:
        """Forget what was learned, and all decisions so far: the weights are those by hand again. Again is the same."""
        async with self._work.tenant(caller) as unit:
            store = CalibrationStore(unit.connection)
            while True:
                row = await store.current()
                if row is None and not await store.count_decisions(since=None):
                    return
                # A version of its own, because the matches of the one before name that, if there was one.
                version = (row["version"] if row is not None else 0) + 1
                since = {"created_at": unit.now, "since": unit.now, "change_id": unit.change_id}
                if await store.add({"version": version, **since}):
                    break
            before = None if row is None else {"version": row["version"], "decisions": row["decisions"]}
            unit.record(Record(action="calibration.reset", before=before, after={"version": version}))
        self._logger.info("calibration.reset", version=version)


def calibration_of(row: dict[str, Any] | None) -> Calibration | None:
    """Return a stored version, None when there is none or nothing is in it."""
    if row is None or not row["corrections"]:
        return None
    return Calibration(
        version=row["version"],
        corrections={feature: tuple(levels) for feature, levels in row["corrections"].items()},
        curve=tuple((score, ppm) for score, ppm in row["curve"]),
        threshold_milli=row["threshold_milli"],
        reviewed=row["reviewed"],
        wrong=row["wrong"],
        bound_ppm=row["bound_ppm"],
    )


def _public(row: dict[str, Any] | None) -> CalibrationPublic:
    calibration = calibration_of(row)
    found = row or {}
    threshold = found.get("threshold_milli")
    return CalibrationPublic(
        version=found.get("version", 0),
        created_at=found.get("created_at"),
        forgotten_until=found.get("since"),
        decisions=found.get("decisions", 0),
        reviewed=found.get("reviewed", 0),
        wrong=found.get("wrong", 0),
        precision_bound=found.get("bound_ppm", 0) / PARTS_PER_MILLION,
        precision_required=PRECISION_PPM_MIN / PARTS_PER_MILLION,
        threshold=None if threshold is None else threshold / 1000,
        corrections=[] if calibration is None else _corrections(calibration, found["counts"]),
        explanation=_explained(found),
    )


def _corrections(calibration: Calibration, counts: dict[str, list[list[int]]]) -> list[CorrectionPublic]:
    """Return what differs from the weights by hand, with the decisions that speak for it."""
    return [
        _correction(feature, level, calibration, counts.get(feature, []))
        for feature, kind in FEATURES.items()
        for level in kind
        if correction_of(feature, level, calibration.corrections)
    ]


def _correction(feature: str, level: IntEnum, calibration: Calibration, counts: list[list[int]]) -> CorrectionPublic:
    decisions, right = counts[level] if level < len(counts) else (0, 0)
    added = correction_of(feature, level, calibration.corrections) / 1000
    name = level.name.lower()
    evidence = f"{feature} {name}".replace("_", " ")
    told = f"{right} of {decisions} decided proposals with {evidence} were right"
    return CorrectionPublic(
        feature=feature,
        level=name,
        weight=WEIGHTS[feature][level] / 1000,
        correction=added,
        decisions=decisions,
        right=right,
        explanation=f"{told}: it counts {'more' if added > 0 else 'less'} than by hand, by {abs(added):g}",
    )


def _explained(row: dict[str, Any]) -> str:
    """Say what is accepted because of what was learned, or why nothing is."""
    if not row or not row["decisions"]:
        said = "Nothing is learned yet" if not row else "Everything learned was forgotten"
        return f"{said}: the weights are those by hand, and only what a reference proves needs no person."
    certified = f"{row['reviewed'] - row['wrong']} of {row['reviewed']} reviewed decisions"
    bound = f"so with 95 % certainty at least {row['bound_ppm'] / 10_000:g} % are"
    required = f"{PRECISION_PPM_MIN / 10_000:g} % are required"
    if row["threshold_milli"] is None:
        return f"{certified} were right, {bound}; {required}: no score is certified."
    return f"From a score of {row['threshold_milli'] / 1000:g} on, {certified} were right, {bound}; {required}."
