"""One day of a backtest: what was open and known when it began, with what arrived on it, decided once more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

import polars as pl

from payrec.constants.jobs import BACKTEST_ROWS_MAX
from payrec.domain.business_days import shifted
from payrec.domain.matching.advices import ADVICES_SCHEMA
from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA, REJECTED_SCHEMA, Known
from payrec.domain.matching.engine import Proposals, propose
from payrec.domain.matching.exchange import RATES_SCHEMA
from payrec.domain.matching.keys import is_proving, name_key
from payrec.domain.matching.names import NAMES_SCHEMA
from payrec.domain.matching.rules import MatchingRules
from payrec.domain.rate_book import FX_DAYS_MAX
from payrec.domain.scope import TenantScope
from payrec.errors import FieldError, ValidationFailedError
from payrec.services.asking import asking
from payrec.services.backtests import span_of
from payrec.services.calibration import calibration_of
from payrec.services.closed_items import closed_frame
from payrec.services.match_columns import Rows, stated_frame
from payrec.services.other_numbers import less_quoting, unnamed
from payrec.services.settled_rivals import beside_settled
from payrec.storage.aliases import AliasStore
from payrec.storage.allocations import Side
from payrec.storage.backtests import BacktestStore
from payrec.storage.closed_items import ClosedItemStore
from payrec.storage.database import Database
from payrec.storage.fx_rates import FxRateStore
from payrec.storage.open_rows import stated_open_row
from payrec.storage.other_numbers import QUOTING
from payrec.storage.remittance_advices import RemittanceAdviceStore

_ENDS: Final = {"expected_id": "expected", "contra_expected_id": "contra_expected", "incoming_id": "incoming",
                "contra_incoming_id": "contra_incoming"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a day says of one line."""

    partners: frozenset[UUID]
    """The transactions that it is joined with."""
    auto: bool
    score_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What a day has decided."""

    arrived: frozenset[UUID]
    """Lines."""
    decisions: dict[UUID, Decision]
    """By line."""
    engine_version: str


async def decided(database: Database, scope: TenantScope, day: date, rules: MatchingRules) -> Day:
    """Decide a day at the state of knowledge with which it began.

    A line is taken as it was stated at the day's end, so that what was booked on it is. What somebody changed of an
    item on that day may be what its payment has taught him: it is taken as it was when the day began, or as it came.

    Raises
    ------
    ValidationFailedError
        More is open than ``BACKTEST_ROWS_MAX``.
    """
    before, end = span_of(scope, day)
    async with database.tenant(scope, readonly=True, snapshot=True) as connection:
        store = BacktestStore(connection)
        rows = {side: await _rows(store, side, before, end) for side in Side}
        row = await store.calibration(as_of=before)
        aliases = await AliasStore(connection).active(as_of=before)
        rejected = await store.rejected(as_of=before)
        rates = await _rates(FxRateStore(connection), rows[Side.INCOMING], as_of=end)
        totals = {(line["open_minor"], line["currency"]) for line in rows[Side.INCOMING]}
        advices = await RemittanceAdviceStore(connection).known(totals, as_of=end)
        quoted = {key for line in rows[Side.INCOMING] for key in line["reference_keys"] if is_proving(key)}
        there = await ClosedItemStore(connection).known(quoted, as_of=before)
    left = {row["transaction_id"] for row in rows[Side.EXPECTED]}
    closed = [row for row in there if row["id"] not in left]
    taught = replace(rules, calibration=calibration_of(row), aliases=aliases)
    read, proposals = await asyncio.to_thread(_proposed, rows, taught, rejected, rates, advices, closed)
    async with asking(database, scope) as ask:
        proposals = await beside_settled(ask, read, proposals, as_of=before)
    items, lines = ([r["transaction_id"] for r in rows[side]] for side in (Side.EXPECTED, Side.INCOMING))
    return Day(
        arrived=frozenset(r["transaction_id"] for r in rows[Side.INCOMING] if r["arrived"]),
        decisions=_decisions(proposals, items, lines),
        engine_version=proposals.engine_version,
    )


async def _rows(store: BacktestStore, side: Side, before: datetime, end: datetime) -> list[dict[str, Any]]:
    """Return open rows of a side, with ``arrived``, the counterparty's ``name``, and ``texts``, those of QUOTING."""
    left = await store.open_rows(side, as_of=before)
    if len(left) > BACKTEST_ROWS_MAX:
        detail = f"more than {BACKTEST_ROWS_MAX} rows of a side were open"
        raise ValidationFailedError.of(FieldError(pointer="/params/from", code="backtest_too_large", detail=detail))
    if side is Side.EXPECTED:
        rows = await store.stated(side, list(left), since=before, as_of=before)
        rows += await store.new_items(since=before, as_of=end)
    else:
        rows = await store.stated(side, list(left), since=before, as_of=end)
    found = []
    for stated in rows:
        opened = stated_open_row(side, stated)
        opened |= {"revision": stated["revision"], "arrived": stated["arrived"], "name": stated["counterparty_name"]}
        opened["texts"] = [stated[name] for name in QUOTING[side] if stated[name]]
        if not stated["arrived"]:
            opened["open_minor"] = left[stated["id"]]
        if opened["open_minor"] > 0:
            found.append(opened)
    return found


async def _rates(store: FxRateStore, lines: Sequence[dict[str, Any]], *, as_of: datetime) -> list[dict[str, Any]]:
    days = [row["booking_day"] for row in lines if row["booking_day"] is not None]
    if not days:
        return []
    epoch = date(1970, 1, 1)
    first, last = shifted(epoch, min(days) - FX_DAYS_MAX), shifted(epoch, max(days) + FX_DAYS_MAX)
    return await store.at(first=first, last=last, as_of=as_of)


def _proposed(
    rows: dict[Side, list[dict[str, Any]]],
    rules: MatchingRules,
    rejected: Sequence[dict[str, Any]],
    rates: Sequence[dict[str, Any]],
    advices: Sequence[dict[str, Any]],
    closed: Sequence[dict[str, Any]],
) -> tuple[Rows, Proposals]:
    places = {side: {row["transaction_id"]: at for at, row in enumerate(of_side)} for side, of_side in rows.items()}
    pairs = []
    for pair in rejected:
        ends = {
            end: places[Side.EXPECTED if end.endswith("expected") else Side.INCOMING].get(pair[name])
            for name, end in _ENDS.items()
        }
        if sum(place is not None for place in ends.values()) == 2:
            pairs.append(ends)
    texts = {key: row["name"] for of_side in rows.values() for row in of_side if (key := name_key(row["name"]))}
    read = _read(rows)
    proposals = propose(
        read.expected,
        read.incoming,
        rules,
        rejected=pl.DataFrame(pairs, schema=dict(REJECTED_SCHEMA)),
        names=pl.DataFrame([*texts.items()], schema=dict(NAMES_SCHEMA), orient="row"),
        rates=pl.DataFrame(list(rates), schema=dict(RATES_SCHEMA)),
        advices=pl.DataFrame(list(advices), schema=dict(ADVICES_SCHEMA)),
        known=Known(closed=closed_frame(closed)),
    )
    return read, less_quoting(proposals, _texts(proposals, rows))


def _read(rows: dict[Side, list[dict[str, Any]]]) -> Rows:
    expected, incoming = (
        pl.Series([row["transaction_id"].bytes for row in rows[side]], dtype=pl.Binary)
        for side in (Side.EXPECTED, Side.INCOMING)
    )
    return Rows(
        expected=stated_frame(rows[Side.EXPECTED], EXPECTED_SCHEMA),
        incoming=stated_frame(rows[Side.INCOMING], INCOMING_SCHEMA),
        expected_ids=expected,
        incoming_ids=incoming,
    )


def _texts(proposals: Proposals, rows: dict[Side, list[dict[str, Any]]]) -> dict[Side, list[tuple[int, str]]]:
    """Return the texts of both sides of pairs that are sure without a reference, with the number of the proposal."""
    pairs = unnamed(proposals)
    return {
        side: [
            (proposal, text)
            for proposal, place in pairs.select("proposal", side.name.lower()).iter_rows()
            for text in rows[side][place]["texts"]
        ]
        for side in Side
    }


def _decisions(proposals: Proposals, items: Sequence[UUID], lines: Sequence[UUID]) -> dict[UUID, Decision]:
    partners: dict[UUID, set[UUID]] = {}
    of_line: dict[UUID, int] = {}
    for leg in proposals.legs.iter_rows(named=True):
        ends = [
            (side, lines[leg[end]] if side is Side.INCOMING else items[leg[end]])
            for end, side in (
                ("expected", Side.EXPECTED),
                ("contra_expected", Side.EXPECTED),
                ("incoming", Side.INCOMING),
                ("contra_incoming", Side.INCOMING),
            )
            if leg[end] is not None
        ]
        for side, one in ends:
            if side is Side.INCOMING:
                partners.setdefault(one, set()).update(other for _, other in ends if other != one)
                of_line[one] = leg["proposal"]
    auto, score = proposals.matches["auto"].to_list(), proposals.matches["score_milli"].to_list()
    return {
        line: Decision(partners=frozenset(partners[line]), auto=auto[at], score_milli=score[at])
        for line, at in of_line.items()
    }
