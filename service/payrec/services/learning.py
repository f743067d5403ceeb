"""What decisions teach the next run: learned at its start when enough was decided, never while somebody decides."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import polars as pl
import structlog

from payrec.constants import ALIASES_MAX, DECISIONS_READ_MAX, LESSONS_MAX
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.matching.columns import REJECTED_SCHEMA
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.learning import DECISIONS_MIN, DECISIONS_SCHEMA, counts_of, learn, wrong_of
from payrec.domain.matching.rules import MatchingRules, Uniqueness
from payrec.domain.matching.weights import Calibration
from payrec.domain.scope import TenantScope
from payrec.services.calibration import calibration_of
from payrec.services.lessons import lesson_of, levels_of, of_decisions, of_proofs
from payrec.services.match_columns import Snapshot, frame_of, ids_of, texts_of
from payrec.services.meanwhile import FEW, aside
from payrec.services.work import Unit, Work
from payrec.storage.alias_lessons import AliasLessonStore, Decided, Lesson
from payrec.storage.aliases import AliasStore
from payrec.storage.calibration import DECISION_COLUMNS, CalibrationStore
from payrec.storage.database import Connection
from payrec.storage.match_rejections import REJECTED_COLUMNS, MatchRejectionStore

LEARN_AGAIN_PERCENT: Final = 10
"""Percent of the decisions already learned of, by which they have grown when it is time to learn again."""

DECISIONS_SETTLED_AFTER: Final = timedelta(minutes=10)
"""How long after its instant a decision may still become visible: its transaction may have waited for a big run, and
the clocks of processes differ. So long a look goes back behind the one before."""

_UNIQUENESS: Final = {status.name.lower(): status.value for status in Uniqueness}
LEG_ENDS: Final = 2
"""Transactions that a leg joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lesson:
    """What decisions have to teach that was not learned yet."""

    decided: Decided
    said: bytes | None
    """What they say of names; None where nobody has decided anything."""
    calibration: dict[str, Any] | None
    """The version in force."""
    since: datetime | None
    """After which instant decisions count for weights."""
    count: int
    decisions: bytes | None
    """Those, where it is time to learn of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was learned."""

    calibration: Calibration | None
    aliases: dict[int, int]
    rejected: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What there is to be learned, and what was."""

    lesson: _Lesson | None
    known: Known


class LearningService:
    """Learns of the decisions of one tenant environment, and of no other's."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.learning")

    async def taught(
        self, caller: Caller, scope: TenantScope, rules: MatchingRules, seen: Seen
    ) -> tuple[MatchingRules, pl.DataFrame]:
        """Return the rules with what was learned, and the pairs never to be proposed again, by their ids.

        ``seen`` is what ``seen_of`` tells: what is to be learned of it is learned before.
        """
        lesson, known = seen.lesson, seen.known
        if lesson is not None and await self._learn(caller, scope, lesson):
            async with self._work.database.tenant(scope, readonly=True) as connection:
                known = await known_of(connection)
        return replace(rules, calibration=known.calibration, aliases=known.aliases), rejected_of(known)

    async def learn(self, caller: Caller, scope: TenantScope, *, at_once: bool = False) -> bool:
        """Learn names of what was decided since, and weights when it is time to; return whether anything was there.

        Bounded by ``DECISIONS_READ_MAX``. What is learned ``at_once`` does not wait for a tenth more decisions.
        """
        async with self._work.database.tenant(scope, readonly=True) as connection:
            lesson = await _looked(connection, at_once=at_once)
        return await self._learn(caller, scope, lesson)

    async def _learn(self, caller: Caller, scope: TenantScope, lesson: _Lesson) -> bool:
        """Learn what there is to learn; return whether anything was."""
        named = await self._learn_names(caller, scope, lesson)
        return await self._learn_weights(caller, scope, lesson) or named

    async def _learn_weights(self, caller: Caller, scope: TenantScope, lesson: _Lesson) -> bool:
        if lesson.decisions is None:
            return False
        row, since, count = lesson.calibration, lesson.since, lesson.count
        version = (row["version"] if row is not None else 0) + 1
        frame = decisions_of(lesson.decisions)
        learned = await asyncio.to_thread(learn, frame, version=version)
        if learned is None:
            return False
        counts = await asyncio.to_thread(counts_of, frame)
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            added = await CalibrationStore(unit.connection).add(
                {
                    "version": version,
                    "created_at": unit.now,
                    "since": since,
                    "decisions": count,
                    "reviewed": learned.reviewed,
                    "wrong": learned.wrong,
                    "bound_ppm": learned.bound_ppm,
                    "threshold_milli": learned.threshold_milli,
                    "corrections": {feature: list(levels) for feature, levels in learned.corrections.items()},
                    "curve": [list(point) for point in learned.curve],
                    "counts": {feature: [list(pair) for pair in levels] for feature, levels in counts.items()},
                    "change_id": unit.change_id,
                }
            )
            # A run and the import of decisions may learn at the same time, and of the same.
            if added:
                after = {"version": version, "decisions": count, "threshold": learned.threshold_milli}
                unit.record(Record(action="calibration.learned", after=after))
        self._logger.info("calibration.learned", version=version, decisions=count, certified=learned.reviewed)
        return True

    async def remember(self, unit: Unit, run_id: UUID, proposals: Proposals, snapshot: Snapshot) -> None:
        """Keep what was drawn for a review, and which names the run's proofs explain, in the run's own transaction."""
        if proposals.matches["sampled"].any():
            drawn = proposals.matches.with_row_index("proposal").filter("sampled")
            legs = proposals.legs.join(drawn.select("proposal"), on="proposal", how="semi")
            await CalibrationStore(unit.connection).withhold(
                run_id,
                expected=texts_of(snapshot.expected_ids.gather(legs["expected"])).to_list(),
                incoming=texts_of(snapshot.incoming_ids.gather(legs["incoming"])).to_list(),
                change_id=unit.change_id,
            )
        few = proposals.matches.height <= FEW
        await self._remember_names(unit, await aside(of_proofs, proposals, snapshot, few=few))

    async def _remember_names(self, unit: Unit, proofs: pl.DataFrame) -> None:
        if proofs.is_empty():
            return
        store = AliasLessonStore(unit.connection)
        pairs = {side: proofs[f"{side}_id"].to_list() for side in ("expected", "incoming")}
        matches = await store.accepted(**pairs)
        rows = proofs.rows(named=True)
        lessons = [
            lesson_of({**rows[match["place"] - 1], **match, "match_id": match["id"]}, self._work.ids.new())
            for match in matches
        ]
        await self.teach(unit, lessons, [])

    async def _learn_names(self, caller: Caller, scope: TenantScope, lesson: _Lesson) -> bool:
        """Learn what matches say of names that persons have accepted, rejected or reversed since the last look."""
        since, decided = lesson.decided.since, lesson.decided
        if lesson.said is None or decided.last is None:
            return False
        said = await asyncio.to_thread(of_decisions, lesson.said, self._work.ids.new)
        is_cut = decided.count == DECISIONS_READ_MAX
        mark = decided.last if is_cut else self._work.clock.now() - DECISIONS_SETTLED_AFTER
        if not said.lessons and not said.taken_back and since is not None and mark <= since:
            return False
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            await self.teach(unit, said.lessons, said.taken_back)
            await AliasLessonStore(unit.connection).move_mark(mark)
        return True

    async def teach(self, unit: Unit, lessons: list[Lesson], taken_back: list[UUID]) -> None:
        """Keep what matches say of names, and take back what others have said."""
        store = AliasLessonStore(unit.connection)
        changed = await store.take_back(taken_back, change_id=unit.change_id, at=unit.now) if taken_back else 0
        if lessons:
            changed += await store.teach(
                lessons, change_id=unit.change_id, at=unit.now, names_max=ALIASES_MAX, lessons_max=LESSONS_MAX
            )
        if changed:
            after = {"aliases": changed, "matches": len(lessons), "takenBack": len(taken_back)}
            unit.record(Record(action="alias.learned", after=after))


async def _looked(connection: Connection, *, at_once: bool = False) -> _Lesson:
    """Look what is to be learned."""
    names = AliasLessonStore(connection)
    decided = await names.decided(limit=DECISIONS_READ_MAX)
    said = await names.read(since=decided.since, limit=DECISIONS_READ_MAX) if decided.last is not None else None
    store = CalibrationStore(connection)
    row = await store.current()
    since = row["since"] if row is not None else None
    count = await store.count_decisions(since=since)
    learned_of = row["decisions"] if row is not None else 0
    decisions = None
    has_grown = count > learned_of if at_once else count * 100 >= learned_of * (100 + LEARN_AGAIN_PERCENT)
    if count >= DECISIONS_MIN and (has_grown or await _is_contradicted(store, row)):
        decisions = await store.read_decisions(since=since, limit=DECISIONS_READ_MAX)
    return _Lesson(decided=decided, said=said, calibration=row, since=since, count=count, decisions=decisions)


async def _is_contradicted(store: CalibrationStore, row: dict[str, Any] | None) -> bool:
    """Tell whether something was wrong of which the certified score in force knows nothing.

    A certificate has room for next to no error, and what is taken back adds nothing to the decisions: it would go on to
    accept what persons have found to be wrong.
    """
    if row is None or row["threshold_milli"] is None:
        return False
    recent = row["created_at"] - DECISIONS_SETTLED_AFTER
    since = recent if row["since"] is None else max(recent, row["since"])
    # Only where there is anything is all of it counted.
    if not await store.has_taken_back(since=since, score_milli=row["threshold_milli"]):
        return False
    return await store.count_wrong(since=row["since"], limit=DECISIONS_READ_MAX) > wrong_of(row["counts"])


async def seen_of(connection: Connection, *, learning: bool) -> Seen:
    """Return what is to be learned, where somebody is ``learning``, and what was learned so far."""
    if not learning:
        return Seen(lesson=None, known=await known_of(connection))
    lesson = await _looked(connection)
    return Seen(lesson=lesson, known=await _known(connection, lesson.calibration))


async def known_of(connection: Connection) -> Known:
    """Return what the tenant environment has learned so far."""
    return await _known(connection, await CalibrationStore(connection).current())


async def _known(connection: Connection, calibration: dict[str, Any] | None) -> Known:
    return Known(
        calibration=calibration_of(calibration),
        aliases=await AliasStore(connection).active(),
        rejected=await MatchRejectionStore(connection).read(),
    )


def rejected_of(known: Known) -> pl.DataFrame:
    """Return the pairs never to be proposed again, by their ids."""
    return frame_of(known.rejected, dict.fromkeys(REJECTED_COLUMNS, pl.String()))


def ordinals_of(rejected: pl.DataFrame, snapshot: Snapshot) -> pl.DataFrame:
    """Return rejected pairs as the engine takes them; those of rows that the run does not look at are of no matter."""
    for side, ids in (("expected", snapshot.expected_ids), ("incoming", snapshot.incoming_ids)):
        places = pl.DataFrame({"id": ids}).with_columns(place=pl.int_range(pl.len(), dtype=pl.Int32))
        for end in (side, f"contra_{side}"):
            its = places.rename({"id": f"{end}_id", "place": end})
            rejected = rejected.with_columns(ids_of(rejected[f"{end}_id"])).join(its, on=f"{end}_id", how="left")
    found = rejected.select(list(REJECTED_SCHEMA))
    return found.filter(pl.sum_horizontal(pl.all().is_not_null()) == LEG_ENDS)


def decisions_of(data: bytes) -> pl.DataFrame:
    """Return the decisions that ``CalibrationStore`` has read."""
    types = dict.fromkeys(DECISION_COLUMNS, pl.String()) | {"rival_milli": pl.Int32(), "fold_key": pl.Int64()}
    frame = frame_of(data, types)
    return frame.select(
        *levels_of(pl.col("levels")),
        "rival_milli",
        "fold_key",
        status=pl.col("uniqueness").replace_strict(_UNIQUENESS, return_dtype=pl.Int8),
        right=pl.col("is_right") == "t",
    ).select(*DECISIONS_SCHEMA)
