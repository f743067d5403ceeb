"""An increment: a few lines, and of all open items those that these may reach, looked up by stored keys.

What is reached is said by ``payrec.domain.matching.reach``. What a decision rests on beyond it is asked for by itself:
whom the names of the lines mean among the names of all open items, and which accounts are the tenant's own. So a run
over an increment decides as one over everything would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from payrec.domain.matching.columns import EXPECTED_SCHEMA, Known
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.names import NAMES_SCHEMA, RESOLVED_SCHEMA, in_order, normalised, resolved
from payrec.domain.matching.reach import PRICED_COLUMNS, TooFarError, Wanted, reached
from payrec.domain.matching.rules import MatchingRules
from payrec.domain.rate_book import FX_DAYS_MAX
from payrec.domain.scope import TenantScope
from payrec.services.closed_items import read_closed
from payrec.services.match_columns import (
    Snapshot,
    advices_frame,
    array_of,
    incoming_frame,
    named,
    names_of,
    rates_frame,
    snapshot_of,
    texts_of,
    unnumbered_frame,
)
from payrec.services.match_names import kept_of
from payrec.services.match_runs import filters_of
from payrec.services.meanwhile import FEW, aside, is_few
from payrec.storage.allocations import Side
from payrec.storage.binary_reading import decoded
from payrec.storage.counterparty_names import NAME_COLUMNS, CounterpartyNameStore
from payrec.storage.database import Connection, Database
from payrec.storage.fx_rates import FxRateStore
from payrec.storage.match_keys import MatchKeyStore
from payrec.storage.match_names import MatchNameStore
from payrec.storage.match_runs import MatchRunStore
from payrec.storage.remittance_advices import RemittanceAdviceStore

ITEMS_PER_LINE_LOOKED_UP: Final = 30
"""Open items for each line from which on looking up what a line may reach costs less than reading all of them."""

ITEMS_COUNTED_MAX: Final = 10_000
"""Open items that a run with few lines counts; how many more there are it tells as the planner does."""

Asking = Generator[Wanted, pl.DataFrame, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a run, in NAME_COLUMNS."""

    kept: pl.DataFrame
    new: pl.DataFrame
    """Those of open items that are not kept yet."""
    of_lines: pl.DataFrame

    @property
    def all(self) -> pl.DataFrame:
        """Return all of them."""
        return pl.concat([self.kept, self.new, self.of_lines])

    @property
    def normal(self) -> pl.DataFrame:
        """Return them as ``payrec.domain.matching.names.normalised`` does."""
        return in_order(self.all)


class MatchIncrements:
    """Reads increments, each in one short transaction."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def read(
        self, scope: TenantScope, params: dict[str, Any], rules: MatchingRules
    ) -> tuple[Snapshot, pl.DataFrame] | None:
        """Return the lines of a run, what they may reach, and the exchange rates; None where that is no less than all.

        A run over every open line says of every item why it stays open, so with these come the items as well of which
        no run has said yet that no line shares anything with them.
        """
        expected_filter, incoming_filter = filters_of(params)
        if expected_filter is not None:
            return None
        # What few lines ask for is found by indexes, whatever it is.
        async with self._database.tenant(scope, readonly=True, snapshot=True, planned_once=True) as connection:
            store = MatchKeyStore(connection)
            undecided = None
            items = await MatchRunStore(connection).items_open(counted=ITEMS_COUNTED_MAX)
            most = items // ITEMS_PER_LINE_LOOKED_UP
            if incoming_filter is None:
                # As many as are allowed, and one that is too many.
                if await store.lines_within(most + 1) > most:
                    return None
                undecided = unnumbered_frame(await store.undecided(limit=most + 1))
                if undecided.height > most:
                    return None
            data = await MatchRunStore(connection).read_incoming(incoming_filter)
            lines = await aside(incoming_frame, data, few=is_few(data))
            if lines.height > most:
                return None
            advices = advices_frame(await RemittanceAdviceStore(connection).read_open())
            listed = advices["reference_key"]
            try:
                found = await _Increment(connection, rules, few=lines.height <= FEW).read(lines, undecided, listed)
            except TooFarError:
                return None
            rates = await _rates(connection, found)
        return replace(found, advices=advices, items_open=items), rates

    async def keep_names(self, scope: TenantScope, snapshot: Snapshot, proposals: Proposals) -> None:
        """Keep the names that a run has made, so that the next one finds them."""
        new = snapshot.new_names if snapshot.known.is_of_part else _not_kept(snapshot, proposals)
        if new is None:
            return
        data = await asyncio.to_thread(lambda: new.select(NAME_COLUMNS).write_csv(include_header=False).encode())
        async with self._database.tenant(scope) as connection:
            await CounterpartyNameStore(connection).keep(data)


class _Increment:
    """Reads what a few lines may reach."""

    def __init__(self, connection: Connection, rules: MatchingRules, *, few: bool) -> None:
        self._connection = connection
        self._items = MatchKeyStore(connection, few=few)
        self._rules = rules

    async def read(self, lines: pl.DataFrame, undecided: pl.DataFrame | None, listed: pl.Series) -> Snapshot:
        """Return the lines and the items that they may reach, and the ``undecided`` ones.

        ``listed`` are references that remittance advices name.

        Raises
        ------
        TooFarError
        """
        there, own = await self._present(lines)
        names, similar = await self._meant(lines, there)
        await self._items.begin()
        everybody = names.normal if names is not None else None
        asking = reached(lines, similar, undecided, everybody, listed)
        items = await self._answered(asking, few=lines.height <= FEW and everybody is None and undecided is None)
        closed = await read_closed(self._connection, lines, items)
        keys = pl.concat([items["name_key"], lines["name_key"]]).drop_nulls().unique()
        if names is None:
            names = _names_of(
                await CounterpartyNameStore(self._connection).of_keys(keys) if keys.len() else b"", _nothing()
            )
        here = names.all.filter(pl.col("key").is_in(keys.implode()))
        known = Known(
            names=in_order(here),
            similar=similar,
            own_accounts=own,
            closed=closed,
        )
        numbered = items.with_row_index("ordinal").with_columns(pl.col("ordinal").cast(pl.Int32))
        # What was read is compared row by row when it is written, so no horizon is asked for.
        found = snapshot_of(numbered, lines, [here.select("key", "text")], 0)
        return replace(found, known=known, new_names=None if names.new.is_empty() else names.new)

    async def _present(self, lines: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """Return the keys of the lines' names that open items have, and of their accounts that are the tenant's own."""
        payers, accounts = (lines[name].drop_nulls().unique() for name in ("name_key", "account_key"))
        found = await self._items.present(payers=payers, accounts=accounts)
        there, own = (pl.Series("key", keys, dtype=pl.Int64) for keys in found)
        return there, own

    async def _meant(self, lines: pl.DataFrame, there: pl.Series) -> tuple[Names | None, pl.DataFrame]:
        """Return whom those names of the lines mean that no open item has, and the names of everybody if need be.

        The keys of those that one has are ``there``.
        """
        if there.len() == lines["name_key"].drop_nulls().n_unique():
            return None, pl.DataFrame(schema=RESOLVED_SCHEMA)
        of_items = await CounterpartyNameStore(self._connection).of_items()
        unknown = named(lines, there)
        data = await MatchNameStore(self._connection).read(Side.INCOMING, array_of(unknown["transaction_id"]))
        return await asyncio.to_thread(_resolved, of_items, names_of(unknown, data), lines, self._rules)

    async def _answered(self, asking: Asking, *, few: bool) -> pl.DataFrame:
        """Look up what is asked for until there is an answer; of a ``few`` lines at once."""
        found = None
        while True:
            # What was found is compared here.
            wanted = await aside(_asked, asking, found, few=few)
            if isinstance(wanted, pl.DataFrame):
                return wanted
            found = await self._found(wanted)

    async def _found(self, wanted: Wanted) -> pl.DataFrame:
        if wanted.amounts:
            schema = {**EXPECTED_SCHEMA, "transaction_id": pl.Binary()}
            rows = await self._items.priced(wanted.amounts)
            return await aside(decoded, rows, {name: schema[name] for name in PRICED_COLUMNS}, few=is_few(rows))
        if wanted.ids.len():
            return unnumbered_frame(await self._items.of_ids(texts_of(wanted.ids)))
        return unnumbered_frame(await self._items.read(wanted.keys()))


async def _rates(connection: Connection, found: Snapshot) -> pl.DataFrame:
    """Return the rates of the lines' days; none where everything is of one currency, because nobody asks then."""
    currencies = {*found.expected["currency"], *found.incoming["currency"]}
    if len(currencies) <= 1 or found.incoming.is_empty():
        return rates_frame(b"")
    days = found.incoming["booking_day"]
    first, last = int(days.min()), int(days.max())  # type: ignore[arg-type]
    return rates_frame(await FxRateStore(connection).read_near(first - FX_DAYS_MAX, last + FX_DAYS_MAX))


def _asked(asking: Asking, found: pl.DataFrame | None) -> Wanted | pl.DataFrame:
    """Return what is asked for next, or the answer."""
    try:
        return next(asking) if found is None else asking.send(found)
    except StopIteration as done:
        answer: pl.DataFrame = done.value
        return answer


def _nothing() -> pl.DataFrame:
    return pl.DataFrame(schema=dict(NAMES_SCHEMA))


def _names_of(of_items: bytes, of_lines: pl.DataFrame) -> Names:
    """Return names of items that ``CounterpartyNameStore`` has read, and texts of names of lines."""
    items = kept_of(of_items).drop_nulls("text")
    new = items.filter(pl.col("normal").is_null()).select("key", "text")
    made = normalised(pl.concat([new, of_lines]))
    return Names(items.drop_nulls("normal"), new.join(made, on="key"), of_lines.join(made, on="key"))


def _not_kept(snapshot: Snapshot, proposals: Proposals) -> pl.DataFrame | None:
    """Return the names of open items that were not kept when everything was read; None where just these were."""
    keys = snapshot.expected["name_key"].drop_nulls().unique()
    missing = keys.filter(~keys.is_in(snapshot.kept_names.implode()))
    if missing.is_empty() and snapshot.kept_names.len() == keys.len():
        return None
    names = snapshot.names.unique("key").join(proposals.names, on="key")
    return names.filter(pl.col("key").is_in(missing.implode()))


def _resolved(
    of_items: bytes, of_lines: pl.DataFrame, lines: pl.DataFrame, rules: MatchingRules
) -> tuple[Names, pl.DataFrame]:
    names = _names_of(of_items, of_lines)
    payers = pl.concat([names.kept["key"], names.new["key"]])
    return names, resolved(payers, lines["name_key"], names.normal, rules.aliases)
