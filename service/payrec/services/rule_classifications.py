"""Lines that a run leaves without a proposal, and that a rule of the tenant says are something nobody expects."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import polars as pl

from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.ruled import conditions
from payrec.domain.scope import TenantScope
from payrec.services.match_columns import Snapshot
from payrec.services.matching_rules import Classifier
from payrec.storage.database import Database
from payrec.storage.incoming_states import Decision
from payrec.storage.line_texts import LineTextStore

CLASSIFIED_MAX: Final = 10_000
"""Lines that one run classifies; the others wait for the next one."""

_CHUNK_ROWS: Final = 10_000
"""Lines of which the texts are read at once."""


async def classifications(
    database: Database,
    scope: TenantScope,
    classifiers: Sequence[Classifier],
    proposals: Proposals,
    snapshot: Snapshot,
) -> list[Decision]:
    """Return what booked lines are that have no proposal and of which nothing is matched, by the first rule of each.

    In content order, at most ``CLASSIFIED_MAX``. Repetitions of a line and returns are left to people.
    """
    if not classifiers:
        return []
    lines = await asyncio.to_thread(_candidates, classifiers, proposals, snapshot)
    found: list[Decision] = []
    for start in range(0, lines.height, _CHUNK_ROWS):
        chunk = lines.slice(start, _CHUNK_ROWS)
        texts = await _texts(database, scope, chunk["id"].to_list())
        for place, fits in zip(chunk["id"], chunk["fits"].to_list(), strict=True):
            line = texts.get(place)
            rule = (
                None if line is None else next((classifiers[at] for at in fits if _says(classifiers[at], line)), None)
            )
            if rule is None:
                continue
            decision = Decision(
                id=UUID(bytes=place), reason=f"rule {rule.name}", category=rule.category, posting_code=rule.posting_code
            )
            found.append(decision)
            if len(found) == CLASSIFIED_MAX:
                return found
    return found


async def _texts(database: Database, scope: TenantScope, ids: list[bytes]) -> dict[bytes, dict[str, Any]]:
    async with database.tenant(scope, readonly=True) as connection:
        rows = await LineTextStore(connection).read([UUID(bytes=place) for place in ids])
    return {row["id"].bytes: row for row in rows}


def _candidates(classifiers: Sequence[Classifier], proposals: Proposals, snapshot: Snapshot) -> pl.DataFrame:
    """Return the ``id`` of lines, and ``fits``: the places of the rules in whose scope they are, by priority."""
    untouched = ~pl.col("pending") & ~pl.col("reversal") & ~pl.col("duplicate")
    untouched &= pl.col("amount_minor") == pl.col("total_minor")
    inside = [
        pl.when(pl.all_horizontal(pl.lit(value=True), *conditions(rule.scope))).then(pl.lit(at, dtype=pl.Int8))
        for at, rule in enumerate(classifiers)
    ]
    places = proposals.open_incoming["ordinal"]
    return (
        snapshot.incoming.with_columns(id=snapshot.incoming_ids)[places]
        .filter(untouched)
        .select("id", fits=pl.concat_list(inside).list.drop_nulls())
        .filter(pl.col("fits").list.len() > 0)
    )


def _says(rule: Classifier, line: dict[str, Any]) -> bool:
    if rule.bank_transaction_code not in {None, line["bank_transaction_code"]}:
        return False
    said = " ".join(text for text in (line["remittance"], line["counterparty_name"]) if text).casefold()
    return not rule.texts or any(text.casefold() in said for text in rule.texts)
