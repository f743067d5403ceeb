"""Which proposals that a run would accept need a person first. Blocking, but for the rates."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import polars as pl

from payrec.domain.approvals import Books, Limits, within_minor
from payrec.domain.scope import TenantScope
from payrec.services.approvals import books
from payrec.services.match_staging import Draft, of_legs
from payrec.storage.database import Database

_OF_DAY: Final = ["currency", "effective_on"]


async def waiting(database: Database, scope: TenantScope, draft: Draft, limits: Limits) -> Draft:
    """Return the draft with what is beyond the limit marked: it takes its amounts, and waits for a person.

    What runs accept is of one currency at either end.
    """
    if limits.above_minor is None:
        return draft
    amounts = await asyncio.to_thread(_amounts, draft)
    if amounts.is_empty():
        return draft
    of_days = amounts.select(pl.col("currency"), pl.col("effective_on").cast(pl.Date)).unique()
    async with database.tenant(scope, readonly=True) as connection:
        known = await books(connection, limits, of_days["currency"].unique(), of_days["effective_on"])
    return await asyncio.to_thread(_marked, draft, amounts, limits, known)


def _amounts(draft: Draft) -> pl.DataFrame:
    """Return ``proposal, currency, effective_on, minor`` of what would be accepted: the greater end of each."""
    matches = pl.concat([draft.matches.select("proposal", "auto"), of_legs(draft)], how="horizontal").filter("auto")
    ends = [
        pl.concat([draft.legs.select("proposal", minor=minor), adjusted.select("proposal", minor="amount_minor")])
        .group_by("proposal")
        .agg(pl.sum("minor"))
        for minor, adjusted in (
            ("amount_minor", draft.adjustments.drop_nulls("incoming")),
            ("settled_minor", draft.adjustments.drop_nulls("expected")),
        )
    ]
    greater = pl.concat(ends).group_by("proposal").agg(pl.max("minor"))
    return matches.join(greater, on="proposal", how="inner").select("proposal", *_OF_DAY, "minor")


def _marked(draft: Draft, amounts: pl.DataFrame, limits: Limits, known: Books) -> Draft:
    of_days = amounts.select(_OF_DAY).unique()
    days = of_days.select("currency", pl.col("effective_on").cast(pl.Date))
    most = [within_minor(limits, currency, day, known) for currency, day in days.iter_rows()]
    bounded = of_days.with_columns(most=pl.Series(most, dtype=pl.Int64))
    beyond = amounts.join(bounded, on=_OF_DAY, nulls_equal=True).filter(pl.col("minor") > pl.col("most"))
    return replace(draft, waiting=beyond["proposal"])
