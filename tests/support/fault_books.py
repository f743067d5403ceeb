"""What must hold of a tenant's books by themselves, whatever happened while they were written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from payrec.domain.match_states import MATCH_STATES
from payrec.domain.states import BEGIN

Row = dict[str, Any]

HELD: Final = ("accepted", "pending_approval")
"""States of matches that hold amounts."""
TOLD_STATES: Final = {
    "match.proposed": "proposed",
    "match.pending_approval": "pending_approval",
    "match.approved": "accepted",
    "match.accepted": "accepted",
    "match.rejected": "rejected",
    "match.reversed": "reversed",
    "match.superseded": "superseded",
}
ENDED: Final = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one tenant has in the end, as its own interface says it."""

    tenant: str
    items: list[Row] = field(default_factory=list)
    lines: list[Row] = field(default_factory=list)
    matches: list[Row] = field(default_factory=list)
    jobs: list[Row] = field(default_factory=list)
    imports: list[Row] = field(default_factory=list)
    webhooks: list[Row] = field(default_factory=list)
    keys: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    """The feed, from its beginning."""
    postings: list[Row] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    """Id and resource of each message that came to an endpoint that wants all events, in their order."""
    told_after: int = 0
    """The place in the feed at which that endpoint was made."""
    audit: str = ""
    """What ``payrec audit verify`` complains of."""

    @property
    def ids(self) -> set[str]:
        """All ids of the tenant's own things."""
        lists = (self.items, self.lines, self.matches, self.jobs, self.imports, self.webhooks, self.keys, self.events)
        return {row["id"] for rows in lists for row in rows}


def money(facts: Facts) -> Iterator[str]:
    """Each amount is settled, matched or open, and what is matched of it is what matches take: nothing twice."""
    taken: Counter[str] = Counter()
    for match in facts.matches:
        if match["status"] not in HELD:
            continue
        for leg in match["legs"]:
            if leg.get("expectedTransactionId"):
                taken[leg["expectedTransactionId"]] += leg["settledMinor"]
            if leg.get("incomingTransactionId"):
                taken[leg["incomingTransactionId"]] += leg["amountMinor"]
        for adjustment in match["adjustments"]:
            on = adjustment.get("expectedTransactionId") or adjustment.get("incomingTransactionId")
            taken[str(on)] += adjustment["amountMinor"]
    for row in [*facts.items, *facts.lines]:
        matched, minor = row["matchedAmountMinor"], row["amountMinor"]
        if taken[row["id"]] > minor:
            yield f"{row['id']}: {taken[row['id']]} of {minor} is allocated, so some of it twice"
        if taken[row["id"]] != matched:
            yield f"{row['id']}: {matched} is matched, and matches take {taken[row['id']]}"
        is_aside = row["status"] in {"void", "ignored", "classified"}
        if not is_aside and row.get("settledBeforeMinor", 0) + matched + row["openAmountMinor"] != minor:
            yield f"{row['id']}: {matched} matched and {row['openAmountMinor']} open are not {minor}"


def states(facts: Facts) -> Iterator[str]:
    """Matches went only where the machine lets them go, and are where their last event says."""
    allowed = {(row.before, row.after) for row in MATCH_STATES.rows}
    now: dict[str, str] = {}
    for event in facts.events:
        after = TOLD_STATES.get(event["type"])
        if after is None:
            continue
        before = now.get(event["resourceId"], BEGIN)
        if (before, after) not in allowed:
            yield f"match {event['resourceId']}: {before} became {after}"
        now[event["resourceId"]] = after
    for match in facts.matches:
        if now.get(match["id"], BEGIN) != match["status"]:
            yield f"match {match['id']} is {match['status']}, and was told to be {now.get(match['id'], 'nothing')}"
    known = {match["id"] for match in facts.matches}
    for match_id in now.keys() - known:
        yield f"match {match_id} was told of and is not there"


def feed(facts: Facts) -> Iterator[str]:
    """Places in the feed have no gap, nothing is there twice, and each creation was told once; of a file its own."""
    if [event["position"] for event in facts.events] != list(range(1, len(facts.events) + 1)):
        yield "the feed has a gap, or is not in order"
    if len({event["id"] for event in facts.events}) != len(facts.events):
        yield "an event is in the feed twice"
    made = Counter(event["resourceId"] for event in facts.events if event["type"].endswith("_transaction.created"))
    for row in [*facts.items, *facts.lines]:
        if made[row["id"]] != (1 if row.get("importId") is None else 0):
            yield f"{row['id']} was told to be created {made[row['id']]} times"


def deliveries(facts: Facts) -> Iterator[str]:
    """Each event was delivered at least once, those of one resource in their order, and nothing that is no event."""
    places = {event["id"]: event["position"] for event in facts.events}
    came = dict(facts.told)
    for event in facts.events:
        if event["position"] > facts.told_after and event["id"] not in came:
            yield f"event {event['position']} ({event['type']}) was never delivered"
    newest: dict[str, int] = {}
    seen = set()
    for event_id, resource in facts.told:
        if event_id in seen:
            continue
        seen.add(event_id)
        place = places.get(event_id)
        if place is None:
            yield f"message {event_id} was delivered, and is no event"
            continue
        if place < newest.get(resource, 0):
            yield f"event {place} was delivered after a later one of {resource}"
        newest[resource] = max(place, newest.get(resource, 0))


def postings(facts: Facts) -> Iterator[str]:
    """Postings have no gap, are balanced, one for each match, and come to what is matched and classified."""
    if [posting["sequence"] for posting in facts.postings] != list(range(1, len(facts.postings) + 1)):
        yield "postings have a gap, or are not in order"
    by_line: Counter[str] = Counter()
    by_item: Counter[str] = Counter()
    made: dict[str, Counter[str]] = defaultdict(Counter)
    for posting in facts.postings:
        made[posting["kind"]][posting["sourceId"]] += 1
        sums: Counter[str] = Counter()
        for row in posting["lines"]:
            minor = row["amountMinor"] * (1 if row["direction"] == "debit" else -1)
            sums[row["currency"]] += minor
            by_line[row.get("incomingTransactionId", "")] += minor
            by_item[row.get("expectedExternalId", "")] += minor
        if any(sums.values()):
            yield f"posting {posting['sequence']} is not balanced"
    for match in facts.matches:
        wanted = (match["status"] in {"accepted", "reversed"}, match["status"] == "reversed")
        found = (made["match"][match["id"]], made["match_reversal"][match["id"]])
        if found != tuple(map(int, wanted)):
            yield f"match {match['id']} is {match['status']}, with {found[0]} postings and {found[1]} that take it back"
    for row in facts.lines:
        minor = row["amountMinor"] if row["status"] == "classified" else row["matchedAmountMinor"]
        minor *= 1 if row["direction"] == "credit" else -1
        if by_line[row["id"]] != minor:
            yield f"line {row['id']}: {by_line[row['id']]} is posted, and {minor} decided"
    for row in facts.items:
        minor = row["matchedAmountMinor"] * (-1 if row["direction"] == "credit" else 1)
        if by_item[row["externalId"]] != minor:
            yield f"item {row['id']}: {by_item[row['externalId']]} is posted, and {minor} matched"


def audit(facts: Facts) -> Iterator[str]:
    """The chain of the audit log holds."""
    if facts.audit:
        yield f"the audit log does not hold: {facts.audit}"


def jobs(facts: Facts) -> Iterator[str]:
    """All jobs and imports have ended."""
    for job in facts.jobs:
        if job["status"] not in ENDED:
            yield f"job {job['id']} ({job['kind']}) is {job['status']} still"
    for one in facts.imports:
        if one["status"] not in {"completed", "failed"}:
            yield f"import {one['id']} is {one['status']} still"


def whole(facts: Facts) -> Iterator[str]:
    """Do all of these."""
    for check in (money, states, feed, deliveries, postings, audit, jobs):
        yield from check(facts)
