"""Numbers postings: what was decided becomes double entries for the books, after its commit, so that nobody waits.

Who numbers follows the feed of events, in which every decision is once and the decisions about one match in their
order. Codes are those of the settings at that moment, and a posting keeps them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog

from payrec.constants.match_imports import CREATED_BY_IMPORT
from payrec.constants.postings import POSTING_LEGS_AT_ONCE, POSTING_PLACES_AT_ONCE, POSTING_STEPS_PER_TURN
from payrec.domain.period_locks import OpenDays
from payrec.domain.posting_ledger import Ledger, Part, Posted, Returned
from payrec.domain.postings import Adjusted, Codes, End, Settlement, read, sign_of, taken_of, told
from payrec.domain.references import account_identifier
from payrec.domain.scope import TenantScope, today
from payrec.models.tenants import PostingSettings
from payrec.services.tenant_settings import effective_settings
from payrec.storage.database import Connection, Database
from payrec.storage.period_locks import PeriodLockStore
from payrec.storage.posting_sealing import (
    ACCEPTED,
    CLASSIFIED,
    RESTORED,
    REVERSED,
    UPDATED,
    Decision,
    Feed,
    PostingSealingStore,
)
from payrec.storage.sealing import SealingStore
from payrec.storage.tenants import TenantStore

_BESIDE: Final = "over_payment"
"""The type of adjustment of what a match takes of a line beside its legs, where it names none."""

_LINE_PLACE: Final = 5
"""Where a leg as it is read has the columns of its line, then those of its contra line, and of its two items."""

_LINE_COLUMNS: Final = ("id", "direction", "currency", "account", "whole_minor", "beside_minor")


class PostingSealer:
    """Numbers postings of tenant environments, each alone."""

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self._logger = structlog.get_logger("payrec.postings")

    async def number(self, scope: TenantScope) -> bool:
        """Post what has its place in the feed of events; return whether that was all.

        Step by step, each in a transaction of its own: a crash between two leaves what is not posted where it is. It
        is not all when there is much, or when somebody else seals events or numbers postings here: ask again.
        """
        settings: PostingSettings | None = None
        steps = count = 0
        while steps < POSTING_STEPS_PER_TURN:
            async with self._database.tenant(scope) as connection:
                store = PostingSealingStore(connection)
                # First what nobody but who numbers reads, so that nobody waits in a circle with who locks everything.
                feed = await store.feed()
                if feed.position >= feed.head:
                    return True
                if not await SealingStore(connection).hold():
                    return False
                feed = await store.feed()
                span = await _next(store, feed)
                if settings is not None or not span.decisions:
                    new = await _Step(connection, scope, settings).take(span, feed)
                    steps, count = steps + 1, count + new
                    # Whoever seals more, which nobody does meanwhile, asks again.
                    if span.through >= feed.head:
                        self._logger.debug("postings.numbered", count=count)
                        return True
                    continue
            # Most events are no decisions, and most environments make none: only who posts reads the settings.
            settings = await self._settings(scope)
        return False

    async def _settings(self, scope: TenantScope) -> PostingSettings:
        async with self._database.control(readonly=True) as connection:
            return effective_settings(await TenantStore(connection).settings(scope.tenant_id)).posting


class _Span(NamedTuple):
    """The next places of the feed of events."""

    through: int
    decisions: Sequence[Decision]


async def _next(store: PostingSealingStore, feed: Feed) -> _Span:
    """Return as many places as one transaction takes."""
    through = min(feed.position + POSTING_PLACES_AT_ONCE, feed.head)
    if through <= feed.position:
        return _Span(through, ())
    decisions = await store.decisions(after=feed.position, through=through)
    legs = 0
    for place, decision in enumerate(decisions):
        legs += decision.legs
        if place and legs > POSTING_LEGS_AT_ONCE:
            return _Span(decision.position - 1, decisions[:place])
    return _Span(through, decisions)


class _Step:
    """What one transaction posts."""

    def __init__(self, connection: Connection, scope: TenantScope, settings: PostingSettings | None) -> None:
        self._connection = connection
        self._store = PostingSealingStore(connection)
        self._scope = scope
        self._settings = settings

    async def take(self, span: _Span, feed: Feed) -> int:
        """Post places of the feed of events; return how many postings these made."""
        new: list[Posted] = []
        if span.decisions and self._settings is not None:
            new = await self._posted(span.decisions, feed.sequence, self._settings)
        if new:
            rows = await asyncio.to_thread(lambda: [_row(posted) for posted in new])
            await self._store.add(rows)
        await self._store.move(sequence=feed.sequence + len(new), position=span.through)
        return len(new)

    async def _posted(self, decisions: Sequence[Decision], sequence: int, settings: PostingSettings) -> list[Posted]:
        ids: dict[str, list[UUID]] = defaultdict(list)
        for decision in decisions:
            ids[decision.type].append(decision.resource_id)
        matches = await self._store.matches([*ids[ACCEPTED], *ids[REVERSED]])
        # What was decided elsewhere is in the books already; but they have to be told when it is taken back.
        elsewhere = {match_id for match_id in ids[REVERSED] if match_id in matches and _is_elsewhere(matches[match_id])}
        own = [match_id for match_id in ids[ACCEPTED] if match_id in matches and not _is_elsewhere(matches[match_id])]
        legs = await self._legs(own)
        # What came back of a match before it was approved is posted with it.
        before = [match_id for match_id in legs if matches[match_id]["returned_minor"]]
        lines_before = [
            leg[_LINE_PLACE] for match_id in before for leg in legs[match_id] if leg[_LINE_PLACE] is not None
        ]
        links = await self._store.links(ids[UPDATED], match_ids=before, line_ids=lines_before)
        elsewhere |= {row["match_id"] for row in links if _is_elsewhere(row)}
        lines = await self._store.lines([d for d in decisions if d.type in {CLASSIFIED, RESTORED}])
        sources = {*ids[REVERSED], *ids[RESTORED], *(row["match_id"] for row in links)}
        of_links = await self._returned(links)
        facts = _Facts(scope=self._scope, matches=matches, legs=legs, lines=lines, returned=of_links)
        if parts := await asyncio.to_thread(facts.in_parts):
            # What is kept of a part of a line is told by what was kept of its other parts.
            takers = await self._store.takers(parts)
            elsewhere |= {row["id"] for row in takers if _is_elsewhere(row)}
            sources |= {*parts, *(row["id"] for row in takers)}
        stored = await self._store.posted(list(sources))
        codes = await self._codes({row["codes_version"] for row in stored}, settings)
        ledger = Ledger(codes=codes, version=max(codes), sequence=sequence, stored=[_stored(row) for row in stored])
        if elsewhere:
            matches |= await self._store.matches([match_id for match_id in elsewhere if match_id not in matches])
            for match_id, known in (await self._legs(list(elsewhere))).items():
                match = matches[match_id]
                adjustments = _adjusted(match["adjustments"])
                ledger.know(match_id, [_settlement(leg) for leg in known], adjustments, match["effective_on"])
        await asyncio.to_thread(facts.post, decisions, ledger)
        return ledger.new

    async def _legs(self, match_ids: Sequence[UUID]) -> dict[UUID, list[tuple[Any, ...]]]:
        legs: dict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
        for leg in await self._store.legs(match_ids) if match_ids else ():
            legs[leg[0]].append(leg)
        return legs

    async def _codes(self, versions: set[int], settings: PostingSettings) -> dict[int, Codes]:
        """Return codes by version, the present ones as the last; they are kept if they are others than before."""
        known = await self._store.codes(versions)
        said = settings.model_dump(mode="json", by_alias=True)
        last = max(known, default=0)
        if known.get(last) != said:
            last += 1
            await self._store.add_codes(last, said)
            known[last] = said
        return {
            version: codes_of(PostingSettings.model_validate(stored))
            for version, stored in known.items()
            if version in versions or version == last
        }

    async def _returned(self, links: Iterable[Mapping[str, Any]]) -> list[Returned]:
        """Return what each change has linked of each return to each match, once."""
        grouped: dict[tuple[UUID, UUID, UUID], dict[int, Mapping[str, Any]]] = {}
        for row in links:
            grouped.setdefault((row["change_id"], row["reversal_id"], row["match_id"]), {})[row["ordinal"]] = row
        if not grouped:
            return []
        rows = [row for group in grouped.values() for row in group.values()]
        accounts = {row[name] for row in rows for name in ("account", "back_account")}
        open_days = await PeriodLockStore(self._connection).open_days(accounts)
        return [
            Returned(
                return_id=return_id,
                change_id=change_id,
                match_id=match_id,
                effective_on=_day_of_return(list(group.values()), open_days),
                parts=tuple(_part(row) for row in group.values()),
                back=_line_end(*(next(iter(group.values()))[f"back_{name}"] for name in _LINE_COLUMNS)),
            )
            for (change_id, return_id, match_id), group in sorted(grouped.items())
        ]


class _Facts:
    """What is known of decisions, to be posted in their order."""

    def __init__(
        self,
        *,
        scope: TenantScope,
        matches: Mapping[UUID, Mapping[str, Any]],
        legs: Mapping[UUID, Sequence[tuple[Any, ...]]],
        lines: Mapping[int, Mapping[str, Any]],
        returned: Sequence[Returned],
    ) -> None:
        self._scope = scope
        self._matches = matches
        self._legs = legs
        self._lines = lines
        self._of_return: dict[UUID, list[Returned]] = defaultdict(list)
        self._of_match: dict[UUID, list[Returned]] = defaultdict(list)
        for one in returned:
            self._of_return[one.return_id].append(one)
            self._of_match[one.match_id].append(one)

    def in_parts(self) -> list[UUID]:
        """Return the lines of which a provider has kept something, and a decision takes a part."""
        taken = [end for match_id in self._legs for end in taken_of(*self._match(match_id))]
        classified = self._lines.values()
        taken += [(_line_end(*(line[name] for name in _LINE_COLUMNS)), line["amount_minor"]) for line in classified]
        returned = (one for of_return in self._of_return.values() for one in of_return)
        taken += [(one.back, one.taken_minor) for one in returned if one.back is not None]
        return [end.id for end, minor in taken if end.beside_minor and minor != end.whole_minor]

    def post(self, decisions: Iterable[Decision], ledger: Ledger) -> None:
        """Post decisions; an event of what there is not, or is not to be posted, posts nothing."""
        for decision in decisions:
            wanted = decision.resource_id
            if decision.type == UPDATED:
                for returned in self._of_return[wanted]:
                    ledger.give_back(returned)
            elif decision.type in {CLASSIFIED, RESTORED}:
                if (line := self._lines.get(decision.position)) is not None:
                    self._decide(decision, line, ledger)
            elif (match := self._matches.get(wanted)) is None:
                continue
            elif decision.type == REVERSED:
                ledger.reverse(wanted, match["reversed_on"] or self._day(match["effective_on"], decision))
            elif wanted in self._legs:
                ledger.accept(wanted, *self._match(wanted), self._day(match["effective_on"], decision))
                for returned in self._of_match[wanted]:
                    ledger.give_back(returned)

    def _match(self, match_id: UUID) -> tuple[list[Settlement], list[Adjusted]]:
        adjustments = _adjusted(self._matches[match_id]["adjustments"])
        return [_settlement(leg) for leg in self._legs[match_id]], adjustments

    def _decide(self, decision: Decision, line: Mapping[str, Any], ledger: Ledger) -> None:
        on = line["effective_on"] or line["booking_on"]
        if decision.type == RESTORED:
            ledger.restore(decision.resource_id, on)
            return
        ledger.classify(
            _line_end(*(line[name] for name in _LINE_COLUMNS)),
            line["amount_minor"],
            category=line["category"],
            code=line["posting_code"],
            change_id=line["change_id"],
            on=on,
        )

    def _day(self, effective_on: date | None, decision: Decision) -> date:
        """Return the day of a decision; items alone may have none, then it is that on which it was made."""
        return effective_on or today(self._scope, decision.at)


def _is_elsewhere(row: Mapping[str, Any]) -> bool:
    return bool(row["created_by"] == CREATED_BY_IMPORT)


def codes_of(settings: PostingSettings) -> Codes:
    """Return the codes of settings."""
    return Codes(
        suspense=settings.suspense_code,
        receivable=settings.receivable_code,
        payable=settings.payable_code,
        accounts={account_identifier(given.account): given.code for given in settings.accounts},
        adjustments={given.type: given.code for given in settings.adjustments},
        categories={given.category: given.code for given in settings.categories},
    )


def _line_end(
    line_id: UUID, direction: str, currency: str, account: str | None, whole_minor: int, beside_minor: int
) -> End:
    return End(
        id=line_id,
        is_line=True,
        sign=sign_of(direction, is_line=True),
        currency=currency,
        name=account,
        whole_minor=whole_minor,
        beside_minor=beside_minor,
    )


def _settlement(leg: Sequence[Any]) -> Settlement:
    """Return a leg as ``PostingSealingStore.legs`` has it. Its ends are opposite, whatever was changed afterwards."""
    (_, taken_minor, settled_minor, settled_currency, currency) = leg[:_LINE_PLACE]
    count = len(_LINE_COLUMNS)
    line, contra_line, items = (leg[_LINE_PLACE + n * count :] for n in range(3))
    item, contra_item = items[:3], items[3:]
    if line[0] is not None:
        taken = _line_end(*line[:count])
    else:
        # Two items: what is taken of the one is what is settled of the other.
        sign = -sign_of(item[1], is_line=False)
        taken = End(id=contra_item[0], is_line=False, sign=sign, currency=currency, name=contra_item[2])
    if item[0] is not None:
        settled = End(id=item[0], is_line=False, sign=-taken.sign, currency=settled_currency, name=item[2])
    else:
        settled = _line_end(*contra_line[:count])._replace(sign=-taken.sign)
    return Settlement(taken, settled, taken_minor, settled_minor)


def _adjusted(adjustments: Iterable[Mapping[str, Any]] | None) -> list[Adjusted]:
    return [Adjusted(given["type"], UUID(given["id"]), given["minor"]) for given in adjustments or ()]


def _part(row: Mapping[str, Any]) -> Part:
    taken = _line_end(*(row[name] for name in _LINE_COLUMNS))
    ends = {row["expected_id"], row["id"]}
    own = [a for a in row["adjustments"] or () if UUID(a["id"]) in ends and (None in ends or a["minor"] < 0)]
    kind = own[0]["type"] if own else _BESIDE
    if row["expected_id"] is None:
        return Part(taken=taken, taken_minor=row["amount_minor"], beside=kind)
    currency = row["settled_currency"] or row["currency"]
    settled = End(id=row["expected_id"], is_line=False, sign=-taken.sign, currency=currency, name=row["external_id"])
    amounts = {"taken_minor": row["amount_minor"], "settled_minor": row["settled_minor"]}
    return Part(taken=taken, settled=settled, beside=kind, **amounts)


def _day_of_return(rows: Sequence[Mapping[str, Any]], open_days: OpenDays) -> date:
    """Return the day on which a return was booked, or the first open one after it."""
    booked: date = rows[0]["booking_on"]
    accounts = {row[name] for row in rows for name in ("account", "back_account")}
    return open_days.day(booked, None, accounts) or booked


def _stored(row: Mapping[str, Any]) -> Posted:
    charged = {UUID(line_id): minor for line_id, minor in (row["charged"] or {}).items()}
    return Posted(**{**row, "lines": tuple(read(line) for line in row["lines"]), "charged": charged})


def _row(posted: Posted) -> dict[str, Any]:
    return {
        "sequence": posted.sequence,
        "source_id": posted.source_id,
        "change_id": posted.change_id,
        "reverses_sequence": posted.reverses_sequence,
        "reverses_id": posted.reverses_id,
        "effective_on": posted.effective_on,
        "codes_version": posted.codes_version,
        "kind": posted.kind,
        "lines": [told(line) for line in posted.lines],
        "charged": {str(line_id): minor for line_id, minor in posted.charged.items()} or None,
    }
