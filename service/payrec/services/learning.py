"""What decisions teach the next run: learned at its start when enough was decided, never while somebody decides."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final
from uuid import UUID

import polars as pl
import structlog

from payrec.constants import ALIASES_MAX, ALIASES_TAUGHT_MAX, DECISIONS_READ_MAX
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.matching.certificate import proved
from payrec.domain.matching.columns import REJECTED_SCHEMA
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.keys import name_key
from payrec.domain.matching.learning import DECISIONS_MIN, DECISIONS_SCHEMA, learn
from payrec.domain.matching.rules import (
    FEATURES,
    Confidence,
    MatchingRules,
    MatchKind,
    NameLevel,
    Uniqueness,
)
from payrec.domain.matching.score import LEVELS
from payrec.domain.scope import TenantScope
from payrec.services.calibration import calibration_of
from payrec.services.match_columns import Snapshot, frame_of, ids_of, texts_of
from payrec.services.work import Unit, Work
from payrec.storage.aliases import AliasStore, AliasTaught
from payrec.storage.calibration import DECISION_COLUMNS, CalibrationStore
from payrec.storage.match_rejections import REJECTED_COLUMNS, MatchRejectionStore

LEARN_AGAIN_PERCENT: Final = 10
"""Percent of the decisions already learned of, by which they have grown when it is time to learn again."""

_UNIQUENESS: Final = {status.name.lower(): status.value for status in Uniqueness}
LEG_ENDS: Final = 2
"""Transactions that a leg joins."""

_MEANT: Final = [NameLevel.DIFFERENT.value, NameLevel.SIMILAR.value]


class LearningService:
    """Learns of the decisions of one tenant environment, and of no other's."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.learning")

    async def taught(self, scope: TenantScope, rules: MatchingRules) -> tuple[MatchingRules, pl.DataFrame]:
        """Return the rules with what was learned, and the pairs never to be proposed again, by their ids."""
        async with self._work.database.tenant(scope, readonly=True) as connection:
            row = await CalibrationStore(connection).current()
            aliases = await AliasStore(connection).active()
            rejected = await MatchRejectionStore(connection).read()
        taught = replace(rules, calibration=calibration_of(row), aliases=aliases)
        return taught, frame_of(rejected, dict.fromkeys(REJECTED_COLUMNS, pl.String()))

    async def learn(self, caller: Caller, scope: TenantScope) -> bool:
        """Learn when it is time to, and return whether it was. Bounded by ``DECISIONS_READ_MAX``."""
        async with self._work.database.tenant(scope, readonly=True) as connection:
            store = CalibrationStore(connection)
            row = await store.current()
            since = row["since"] if row is not None else None
            count = await store.count_decisions(since=since)
            learned_of = row["decisions"] if row is not None else 0
            if count < DECISIONS_MIN or count * 100 < learned_of * (100 + LEARN_AGAIN_PERCENT):
                return False
            data = await store.read_decisions(since=since, limit=DECISIONS_READ_MAX)
        version = (row["version"] if row is not None else 0) + 1
        frame = decisions_of(data)
        learned, aliases = await asyncio.gather(
            asyncio.to_thread(learn, frame, version=version), asyncio.to_thread(_of_decisions, frame)
        )
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            await self._teach(unit, aliases)
            if learned is None:
                return False
            await CalibrationStore(unit.connection).add(
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
                }
            )
            after = {"version": version, "decisions": count, "threshold": learned.threshold_milli}
            unit.record(Record(action="calibration.learned", after=after))
        self._logger.info("calibration.learned", version=version, decisions=count, certified=learned.reviewed)
        return True

    async def remember(self, unit: Unit, run_id: UUID, proposals: Proposals, snapshot: Snapshot) -> None:
        """Keep what was drawn for a review, and which names the run's proofs explain, in the run's own transaction."""
        drawn = proposals.matches.with_row_index("proposal").filter("sampled")
        if not drawn.is_empty():
            legs = proposals.legs.join(drawn.select("proposal"), on="proposal", how="semi")
            await CalibrationStore(unit.connection).withhold(
                run_id,
                expected=texts_of(snapshot.expected_ids.gather(legs["expected"])).to_list(),
                incoming=texts_of(snapshot.incoming_ids.gather(legs["incoming"])).to_list(),
            )
        await self._teach(unit, _of_proofs(proposals, snapshot))

    async def _teach(self, unit: Unit, aliases: pl.DataFrame) -> None:
        if aliases.is_empty():
            return
        taught = [AliasTaught(id=self._work.ids.new(), **row) for row in aliases.iter_rows(named=True)]
        await AliasStore(unit.connection).teach(taught, count_max=ALIASES_MAX, at=unit.now)


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
    """Return the decisions that ``CalibrationStore`` has read, with the names of both sides."""
    types = dict.fromkeys(DECISION_COLUMNS, pl.String()) | {"rival_milli": pl.Int32(), "fold_key": pl.Int64()}
    frame = frame_of(data, types)
    levels = pl.col("levels").str.split(" ").list
    return frame.select(
        # A match of an earlier engine has fewer features: it is silent on the others.
        *(
            levels.get(at, null_on_oob=True).cast(pl.Int8).fill_null(0).alias(level)
            for at, level in enumerate(LEVELS[: len(FEATURES)])
        ),
        "rival_milli",
        "fold_key",
        "statement_name",
        "counterparty_name",
        status=pl.col("uniqueness").replace_strict(_UNIQUENESS, return_dtype=pl.Int8),
        right=pl.col("is_right") == "t",
    ).select(*DECISIONS_SCHEMA, "statement_name", "counterparty_name")


def _of_decisions(decisions: pl.DataFrame) -> pl.DataFrame:
    """Return the names that accepted proofs have explained, as ``AliasTaught`` without its id."""
    found = decisions.filter("right", proved(), pl.col("name_level").is_in(_MEANT)).select(
        "statement_name", "counterparty_name"
    )
    keys = {
        f"{side}_key": pl.Series([name_key(text) for text in found[f"{side}_name"]], dtype=pl.Int64)
        for side in ("statement", "counterparty")
    }
    return _single(found.with_columns(**keys))


def _of_proofs(proposals: Proposals, snapshot: Snapshot) -> pl.DataFrame:
    """Return the names that the run's own proofs explain."""
    proofs = proposals.matches.with_row_index("proposal").filter(
        "auto",
        pl.col("confidence") == Confidence.EXACT.value,
        pl.col("kind") == MatchKind.ONE_TO_ONE.value,
        pl.col("name_level").is_in(_MEANT),
    )
    legs = proposals.legs.join(proofs.select("proposal"), on="proposal", how="semi")
    texts = snapshot.names.unique("key", keep="first", maintain_order=True)
    found = pl.DataFrame(
        {
            "statement_key": snapshot.incoming["name_key"].gather(legs["incoming"]),
            "counterparty_key": snapshot.expected["name_key"].gather(legs["expected"]),
        }
    )
    for side in ("statement", "counterparty"):
        found = found.join(texts.rename({"key": f"{side}_key", "text": f"{side}_name"}), on=f"{side}_key", how="left")
    return _single(found)


def _single(found: pl.DataFrame) -> pl.DataFrame:
    """Return the names that mean one counterparty alone, each once, the most often explained first."""
    known = found.drop_nulls()
    return (
        known.group_by("statement_key")
        .agg(
            pl.col("counterparty_key").first(),
            pl.col("statement_name", "counterparty_name").min(),
            counterparties=pl.col("counterparty_key").n_unique(),
            times=pl.len(),
        )
        .filter(pl.col("counterparties") == 1, pl.col("statement_key") != pl.col("counterparty_key"))
        .sort(["times", "statement_key"], descending=[True, False])
        .head(ALIASES_TAUGHT_MAX)
        .select("statement_key", "counterparty_key", "statement_name", "counterparty_name")
    )
