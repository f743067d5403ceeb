"""What earlier runs have settled beside what a run would accept: it makes nobody surer of the rest.

A run leaves to a person a payment that two items fit. When it has settled one of the two by another payment, the next
run sees only the other one, and knows nothing more of it than the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import polars as pl

from payrec.domain.matching.certificate import proved
from payrec.domain.matching.columns import PARTY_KEYS
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.keys import account_key, name_key
from payrec.domain.matching.partial import BLIND, of_settled
from payrec.domain.matching.rules import GroupLevel
from payrec.domain.matching.score import NEARLY
from payrec.services.asking import Ask
from payrec.services.match_columns import Rows, ids_at, texts_of
from payrec.services.meanwhile import FEW, aside
from payrec.storage.allocations import Side
from payrec.storage.settled_rivals import COLUMNS, PAIR_COLUMNS, SettledRivalStore

_ENDS: Final = {
    Side.EXPECTED: ("expected", "contra_expected"),
    Side.INCOMING: ("incoming", "contra_incoming"),
}
"""The ends of legs on each side."""
_LIKE: Final = ["currency", "direction", "amount_minor"]
"""What rivals have in common, besides the counterparty."""


async def beside_settled(ask: Ask, read: Rows, proposals: Proposals, *, as_of: datetime | None = None) -> Proposals:
    """Return the proposals of what was ``read``, of which none is accepted that owes it to what earlier runs settled.

    Such a run has seen all its rows, and one more of their counterparty and amount, which it has settled since without
    a person; or it has left just this pair to a person because of one more, whatever that had in common with it. Of two
    lines the other one may be of anybody. Of a set that nobody named, and of a refund, it is enough that a run has seen
    it, and has settled anything. With ``as_of``, by then.
    """
    if not proposals.counts.auto_accepted:
        return proposals
    few = proposals.matches.height <= FEW
    rivalled: dict[Side, pl.Series] = {}
    store = SettledRivalStore(await ask(), as_of=as_of)
    newest = await store.newest()
    if newest is None:
        return proposals
    seen = await aside(_seen, read, proposals, newest, few=few)
    if seen.is_empty():
        return proposals
    wanted = await aside(_wanted, read, proposals, seen, few=few)
    for side in Side:
        rows = wanted.filter(pl.col("side") == side.value)
        settled = await store.like(side, _asked(rows)) if rows.height else []
        rivalled[side] = await aside(_rivalled, rows, settled, few=few)
    # Mostly that is all: what alternatives have become is asked of those only that would still be accepted.
    known = pl.concat(rivalled.values())
    others = seen.filter(~pl.col("proposal").is_in(known.implode()))
    pairs = await aside(_pairs, read, proposals, others, few=few)
    if pairs.height:
        told = await store.told(pairs.to_dict(as_series=False))
        rivalled = {
            side: pl.concat([found, pl.Series(told[side], dtype=found.dtype)]) for side, found in rivalled.items()
        }
    return of_settled(proposals, seen["proposal"], items=rivalled[Side.EXPECTED], lines=rivalled[Side.INCOMING])


def _seen(read: Rows, proposals: Proposals, newest: UUID) -> pl.DataFrame:
    """Return the pairs that would be accepted, and the sets that nobody named, if they are older than that match.

    Columns are ``proposal``, ``named``, ``near``, ``alone``, and the newest id of its rows as ``came``.
    """
    near, alone = pl.col("amount_level").is_in(NEARLY), pl.col("group_level") == GroupLevel.UNKNOWN.value
    accepted = (
        proposals.matches.with_row_index("proposal")
        .filter("auto", pl.col("group_level").is_in(BLIND) | alone)
        .select("proposal", named=proved(), near=near, alone=alone)
    )
    legs = proposals.legs.join(accepted, on="proposal", how="semi")
    ends = (
        legs.select("proposal", came=ids_at(read, legs[name], name)).drop_nulls()
        for names in _ENDS.values()
        for name in names
    )
    newer = pl.concat(ends).group_by("proposal").agg(pl.col("came").max()).filter(pl.col("came") < newest.bytes)
    return accepted.join(newer, on="proposal")


def _pairs(read: Rows, proposals: Proposals, seen: pl.DataFrame) -> pl.DataFrame:
    """Return PAIR_COLUMNS of what was seen and is an item and a line."""
    legs = proposals.legs.join(seen.filter("alone"), on="proposal", how="semi").drop_nulls(["expected", "incoming"])
    ids = {f"{end}_id": texts_of(ids_at(read, legs[end], end)) for end in ("expected", "incoming")}
    matches = proposals.matches.with_row_index("proposal")
    return legs.select("proposal", **ids).join(matches, on="proposal").select(PAIR_COLUMNS)


def _wanted(read: Rows, proposals: Proposals, seen: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each row of a pair and each amount that a rival of it would have.

    Columns are ``proposal``, ``side``, ``of_lines``, those of COLUMNS, and PARTY_KEYS. Whoever pays nearly may mean
    what has just his amount; whoever names it does not mean another one of the same amount. But two lines name each
    other: what was settled may have been named by either.
    """
    legs = proposals.legs.join(seen.filter("alone"), on="proposal")
    legs = legs.with_columns(of_lines=pl.col("contra_incoming").is_not_null())
    found = []
    for side, names in _ENDS.items():
        frame = read.expected if side is Side.EXPECTED else read.incoming
        facts = frame.select("ordinal", "currency", "direction", *PARTY_KEYS, own_minor="amount_minor")
        for name in names:
            rows = legs.select("proposal", "named", "near", "came", "of_lines", ordinal=name).drop_nulls("ordinal")
            found.append(rows.join(facts, on="ordinal").with_columns(side=pl.lit(side.value, dtype=pl.Int16)))
    rows = pl.concat(found)
    amounts = rows.select("proposal", amount_minor="own_minor").unique()
    its_own = pl.col("amount_minor") == pl.col("own_minor")
    unnamed = ~pl.col("named") | pl.col("of_lines")
    return rows.join(amounts, on="proposal").filter((its_own & unnamed) | (~its_own & pl.col("near")))


def _asked(rows: pl.DataFrame) -> dict[str, list[Any]]:
    """Return COLUMNS of all that the rows want to know, each once."""
    asked = rows.group_by(_LIKE).agg(pl.col("came").min())
    return asked.with_columns(came=texts_of(asked["came"])).select(COLUMNS).to_dict(as_series=False)


def _rivalled(rows: pl.DataFrame, settled: Sequence[Mapping[str, Any]]) -> pl.Series:
    """Return the proposals of the rows of which one of their counterparty was settled, or of anybody, each once."""
    keys: dict[str, list[Any]] = {
        "account_key": [account_key(row["counterparty_account"]) for row in settled],
        "name_key": [name_key(row["counterparty_name"]) for row in settled],
        "match_id": [UUID(row["match_id"]).bytes for row in settled],
    }
    keys |= {name: [row[name] for row in settled] for name in _LIKE}
    types = {"account_key": pl.Int64, "name_key": pl.Int64, "match_id": pl.Binary}
    others = pl.DataFrame(keys, schema={**types, **{name: rows.schema[name] for name in _LIKE}})
    joins = [(rows, [*_LIKE, key]) for key in PARTY_KEYS] + [(rows.filter("of_lines"), _LIKE)]
    found = [
        # The newest of those that have all of it tells as much as each of them.
        asked.join(others.group_by(columns).agg(pl.col("match_id").max()), on=columns)
        .filter(pl.col("match_id") > pl.col("came"))
        .get_column("proposal")
        for asked, columns in joins
    ]
    return pl.concat(found).unique()
