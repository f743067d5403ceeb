"""What decisions and proofs say of names: which of them teach, and how much is kept of it.

A name on statements is learned when a reference proves that it means a counterparty who is called otherwise, or when
somebody has matched the two by hand. Who accepts what the engine has proposed for other reasons has looked at an amount
and a day; that says nothing of the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import polars as pl

from payrec.constants import ALIASES_TAUGHT_MAX, LESSONS_MAX
from payrec.domain.matching.certificate import proved
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.keys import NAMES_OF_NOBODY, name_key
from payrec.domain.matching.rules import FEATURES, Confidence, MatchKind, NameLevel
from payrec.domain.matching.score import LEVELS
from payrec.services.match_columns import Snapshot, frame_of, texts_of
from payrec.storage.alias_lessons import LESSON_COLUMNS, Lesson

PROOFS_AT_ONCE_MAX: Final = 2
"""Of a run's own proofs, those of one name and counterparty that are kept, and counterparties of one name."""

_MEANT: Final = [NameLevel.DIFFERENT.value, NameLevel.SIMILAR.value, NameLevel.ALIAS.value]


@dataclass(frozen=True, slots=True)
class Said:
    """What decisions say of names."""

    lessons: list[Lesson]
    taken_back: list[UUID]
    """Matches that were reversed."""


def levels_of(text: pl.Expr) -> list[pl.Expr]:
    """Return the level columns of the evidence, which the database has written with blanks between."""
    levels = text.str.split(" ").list
    # A match of an earlier engine has fewer features: it is silent on the others, and one made by hand on all.
    return [
        levels.get(at, null_on_oob=True).cast(pl.Int8).fill_null(0).alias(level)
        for at, level in enumerate(LEVELS[: len(FEATURES)])
    ]


def of_decisions(data: bytes, new_id: Callable[[], UUID]) -> Said:
    """Return what the decisions say that ``AliasLessonStore`` has read."""
    found = frame_of(data, dict.fromkeys(LESSON_COLUMNS, pl.String()) | {"decided_at": pl.Int64()})
    taken_back = [UUID(text) for text in found.filter(pl.col("status") == "reversed")["match_id"]]
    found = found.with_columns(
        *levels_of(pl.col("levels")),
        by_hand=pl.col("by_hand") == "t",
        agrees=pl.col("status") == "accepted",
        decided_at=pl.from_epoch("decided_at", time_unit="us").dt.replace_time_zone("UTC"),
    )
    explained = pl.col("by_hand") | (proved() & pl.col("name_level").is_in(_MEANT))
    found = found.filter((pl.col("status") == "rejected") | (pl.col("agrees") & explained))
    keys = {
        f"{side}_key": pl.Series([name_key(text) for text in found[f"{side}_name"]], dtype=pl.Int64)
        for side in ("statement", "counterparty")
    }
    found = _telling(found.with_columns(**keys), each_max=LESSONS_MAX)
    return Said([lesson_of(row, new_id()) for row in found.iter_rows(named=True)], taken_back)


def of_proofs(proposals: Proposals, snapshot: Snapshot) -> pl.DataFrame:
    """Return the names that the run's own proofs explain, with the ids of both transactions of each as texts."""
    if not proposals.matches["auto"].any():
        return pl.DataFrame()
    proofs = proposals.matches.with_row_index("proposal").filter(
        "auto",
        pl.col("confidence") == Confidence.EXACT.value,
        pl.col("kind") == MatchKind.ONE_TO_ONE.value,
        pl.col("name_level").is_in(_MEANT),
    )
    if proofs.is_empty():
        return pl.DataFrame()
    legs = proposals.legs.join(proofs.select("proposal"), on="proposal", how="semi")
    texts = snapshot.names.unique("key", keep="first", maintain_order=True)
    # Who acts for another one means somebody else each time.
    behalf = pl.col("ultimate_name_key")
    on_own = behalf.is_null() | (behalf == pl.col("name_key"))
    statement_keys = snapshot.incoming.select(pl.when(on_own).then("name_key").alias("key"))["key"]
    found = pl.DataFrame(
        {
            "expected": legs["expected"],
            "incoming": legs["incoming"],
            "statement_key": statement_keys.gather(legs["incoming"]),
            "counterparty_key": snapshot.expected["name_key"].gather(legs["expected"]),
        }
    ).with_columns(agrees=pl.lit(value=True), by_hand=pl.lit(value=False))
    found = _telling(found, each_max=PROOFS_AT_ONCE_MAX).filter(
        pl.col("counterparty_key").rank("dense").over("statement_key") <= PROOFS_AT_ONCE_MAX
    )
    for side in ("statement", "counterparty"):
        its = texts.rename({"key": f"{side}_key", "text": f"{side}_name"})
        found = found.join(its, on=f"{side}_key", how="left", maintain_order="left")
    found = found.drop_nulls(["statement_name", "counterparty_name"])
    return found.with_columns(
        expected_id=texts_of(snapshot.expected_ids.gather(found["expected"])),
        incoming_id=texts_of(snapshot.incoming_ids.gather(found["incoming"])),
    )


def lesson_of(row: Mapping[str, Any], alias_id: UUID) -> Lesson:
    """Return a lesson of a row with its columns; ``match_id`` may be a text, and there may be more."""
    match_id = row["match_id"]
    return Lesson(
        alias_id=alias_id,
        match_id=match_id if isinstance(match_id, UUID) else UUID(match_id),
        statement_key=row["statement_key"],
        counterparty_key=row["counterparty_key"],
        statement_name=row["statement_name"],
        counterparty_name=row["counterparty_name"],
        agrees=row["agrees"],
        taught_at=row["decided_at"],
        taught_by=row["decided_by"],
    )


def _telling(found: pl.DataFrame, *, each_max: int) -> pl.DataFrame:
    """Leave what tells something new, of no more names than are learned at once, and no more of each."""
    keys = ("statement_key", "counterparty_key")
    nobody = pl.any_horizontal(pl.col(keys).is_in(sorted(NAMES_OF_NOBODY)))
    known = found.drop_nulls(keys).filter((pl.col(keys[0]) != pl.col(keys[1])) & ~nobody)
    names = (
        known.group_by("statement_key")
        .agg(pl.col("by_hand").any(), times=pl.len())
        .sort(["by_hand", "times", "statement_key"], descending=[True, True, False])
        .head(ALIASES_TAUGHT_MAX)
    )
    its_place = pl.int_range(pl.len()).over("statement_key", "counterparty_key", "agrees")
    return known.join(names, on="statement_key", how="semi", maintain_order="left").filter(its_place < each_max)
