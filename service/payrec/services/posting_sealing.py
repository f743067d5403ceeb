"""Numbers postings: what was decided becomes double entries for the books, after its commit, so that nobody waits.

Who numbers follows the feed of events, in which every decision is once and the decisions about one match in their
order. Codes are those of the settings at that moment, and a posting keeps them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.constants.match_imports import CREATED_BY_IMPORT
from payrec.constants.postings import POSTING_LEGS_AT_ONCE, POSTING_PLACES_AT_ONCE, POSTING_STEPS_PER_TURN
from payrec.domain.period_locks import OpenDays
from payrec.domain.posting_ledger import Ledger, Part, Posted, Returned
from payrec.domain.postings import Adjusted, Codes, End, Settlement, account_key, read, sign_of, told
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
        async with self._database.tenant(scope, readonly=True) as connection:
            feed = await PostingSealingStore(connection).feed()
        if feed.position >= feed.head:
            return True
        settings = await self._settings(scope)
        count = 0
        for _ in range(POSTING_STEPS_PER_TURN):
            async with self._database.tenant(scope) as connection:
                # First what nobody but who numbers reads, so that nobody waits in a circle with who locks everything.
                feed = await PostingSealingStore(connection).feed()
                if not await SealingStore(connection).hold():
                    return False
                feed = await PostingSealingStore(connection).feed()
                if feed.position >= feed.head:
                    break
                count += await _Step(connection, scope, settings).take(feed)
        else:
            return False
        self._logger.debug("postings.numbered", count=count)
        return True

    async def _settings(self, scope: TenantScope) -> PostingSettings:
        async with self._database.control(readonly=True) as connection:
            return effective_settings(await TenantStore(connection).settings(scope.tenant_id)).posting


class _Step:
    """What one transaction posts."""

    def __init__(self, connection: Connection, scope: TenantScope, settings: PostingSettings) -> None:
        self._connection = connection
        self._store = PostingSealingStore(connection)
        self._scope = scope
        self._settings = settings

    async def take(self, feed: Feed) -> int:
        """Post the next places of the feed of events; return how many postings these made."""
        through = min(feed.position + POSTING_PLACES_AT_ONCE, feed.head)
        decisions = await self._store.decisions(after=feed.position, through=through)
        legs = 0
        for place, decision in enumerate(decisions):
            legs += decision.legs
            if place and legs > POSTING_LEGS_AT_ONCE:
                decisions, through = decisions[:place], decision.position - 1
                break
        new = await self._posted(decisions, feed.sequence) if decisions else []
        if new:
            rows = await asyncio.to_thread(lambda: [_row(posted) for posted in new])
            await self._store.add(rows)
        await self._store.move(sequence=feed.sequence + len(new), position=through)
        return len(new)

    async def _posted(self, decisions: Sequence[Decision], sequence: int) -> list[Posted]:
        ids: dict[str, list[UUID]] = defaultdict(list)
        for decision in decisions:
            ids[decision.type].append(decision.resource_id)
        matches = await self._store.matches([*ids[ACCEPTED], *ids[REVERSED]])
        # What was decided elsewhere is in the books already.
        matches = {match_id: row for match_id, row in matches.items() if row["created_by"] != CREATED_BY_IMPORT}
        legs: dict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
        for leg in await self._store.legs([match_id for match_id in ids[ACCEPTED] if match_id in matches]):
            legs[leg[0]].append(leg)
        # What came back of a match before it was approved is posted with it.
        before = [match_id for match_id in legs if matches[match_id]["returned_minor"]]
        lines_before = [
            leg[_LINE_PLACE] for match_id in before for leg in legs[match_id] if leg[_LINE_PLACE] is not None
        ]
        links = await self._store.links(ids[UPDATED], match_ids=before, line_ids=lines_before)
        lines = await self._store.lines([d for d in decisions if d.type in {CLASSIFIED, RESTORED}])
        sources = {*ids[REVERSED], *ids[RESTORED], *(row["match_id"] for row in links)}
        stored = await self._store.posted(list(sources))
        codes = await self._codes({row["codes_version"] for row in stored})
        ledger = Ledger(codes=codes, version=max(codes), sequence=sequence, stored=[_stored(row) for row in stored])
        of_links = await self._returned(links)
        facts = _Facts(scope=self._scope, matches=matches, legs=legs, lines=lines, returned=of_links)
        await asyncio.to_thread(facts.post, decisions, ledger)
        return ledger.new

    async def _codes(self, versions: set[int]) -> dict[int, Codes]:
        """Return codes by version, the present ones as the last; they are kept if they are others than before."""
        known = await self._store.codes(versions)
        said = self._settings.model_dump(mode="json", by_alias=True)
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
                settlements = [_settlement(leg) for leg in self._legs[wanted]]
                ledger.accept(
                    wanted, settlements, _adjusted(match["adjustments"]), self._day(match["effective_on"], decision)
                )
                for returned in self._of_match[wanted]:
                    ledger.give_back(returned)

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


def codes_of(settings: PostingSettings) -> Codes:
    """Return the codes of settings."""
    return Codes(
        suspense=settings.suspense_code,
        receivable=settings.receivable_code,
        payable=settings.payable_code,
        accounts={account_key(given.account): given.code for given in settings.accounts},
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
    taken = _line_end(*(row[name] for name in _LINE_COLUMNS))._replace(beside_minor=0)
    if row["expected_id"] is None:
        of_line = [a for a in row["adjustments"] or () if UUID(a["id"]) == row["id"]]
        kind = of_line[0]["type"] if of_line else _BESIDE
        return Part(taken=taken, taken_minor=row["amount_minor"], beside=kind)
    currency = row["settled_currency"] or row["currency"]
    settled = End(id=row["expected_id"], is_line=False, sign=-taken.sign, currency=currency, name=row["external_id"])
    return Part(taken=taken, taken_minor=row["amount_minor"], settled=settled, settled_minor=row["settled_minor"])


def _day_of_return(rows: Sequence[Mapping[str, Any]], open_days: OpenDays) -> date:
    """Return the day on which a return was booked, or the first open one after it."""
    booked: date = rows[0]["booking_on"]
    accounts = {row[name] for row in rows for name in ("account", "back_account")}
    return open_days.day(booked, None, accounts) or booked


def _stored(row: Mapping[str, Any]) -> Posted:
    return Posted(**{**row, "lines": tuple(read(line) for line in row["lines"])})


def _row(posted: Posted) -> dict[str, Any]:
    return {
        "sequence": posted.sequence,
        "source_id": posted.source_id,
        "change_id": posted.change_id,
        "reverses_sequence": posted.reverses_sequence,
        "effective_on": posted.effective_on,
        "codes_version": posted.codes_version,
        "kind": posted.kind,
        "lines": [told(line) for line in posted.lines],
    }
