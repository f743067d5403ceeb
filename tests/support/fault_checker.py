"""Whether what clients heard, and what is there in the end, can both be true. Pure: it asks nobody.

An answer says that something happened, or that it did not. No answer, or one of a service that could not do it, says
neither, and then it happened once or not at all. Whatever follows from that and does not hold is a contradiction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from support.fault_books import Facts, whole
from support.fault_history import Call

Requests = dict[tuple[str, str], list[Call]]
"""Attempts by client and Idempotency-Key."""

SLOT_SECONDS: Final = 30.0
"""In which somebody should be answered, whatever fails."""

GIVEN: Final = "of everybody"
"""Name of the key and of the endpoint that a tenant has from the beginning."""

STATED_ANEW: Final = frozenset({"key", "webhook", "upload", "run", "job", "export", "cancel"})
"""Of which a repetition says the state of now, or leaves a secret out; the resource is the same."""

DECISIONS: Final = {"accept": ("accepted", "reversed"), "reject": ("rejected",), "reverse": ("reversed",)}
"""What a match is in the end about which that was answered."""

ASKED: Final = {"rejected": "reject", "reversed": "reverse"}
"""States that a match has only if somebody asked for it."""


def contradictions(calls: list[Call], facts: Mapping[str, Facts]) -> list[str]:
    """Return all contradictions, in words; none if all is well."""
    found: list[str] = []
    for tenant, theirs in sorted(facts.items()):
        own = [call for call in calls if call.tenant == tenant]
        requests = by_request(own)
        strangers = set[str]().union(*(other.ids for slug, other in facts.items() if slug != tenant))
        said = (
            *created(requests, theirs), *repeated(requests), *unexplained(requests, theirs),
            *decided(requests, theirs), *changed(requests, theirs), *looked(own), *walked(own), *keys(own),
            *downloads(own), *isolated(own, theirs, strangers), *whole(theirs),
        )  # fmt: skip
        found += [f"{tenant}: {one}" for one in said]
    return found


def by_request(calls: Iterable[Call]) -> Requests:
    """Return the attempts at each request that has a key."""
    found: Requests = defaultdict(list)
    for call in calls:
        if call.key is not None:
            found[call.client, call.key].append(call)
    return dict(found)


def verdict(attempts: list[Call]) -> str:
    """Tell what is known of a request: that it is done, was refused, or nothing."""
    if any(call.is_done for call in attempts):
        return "done"
    return "refused" if any(call.is_answered for call in attempts) else "unknown"


def _wanted(call: Call) -> list[tuple[str, str]]:
    """Return what a request creates: in which list, by which name that nothing else there has."""
    if call.op == "item":
        return [("items", call.body["externalId"])]
    if call.op == "line":
        return [("lines", call.body["externalId"])]
    if call.op == "bulk":
        return [("items", row["externalId"]) for row in call.body["items"]]
    if call.op == "upload":
        return [("lines", row["externalId"]) for row in call.body]
    if call.op == "webhook":
        return [("webhooks", str(call.key))]
    if call.op == "key":
        return [("keys", str(call.key))]
    return []


def _names(facts: Facts) -> dict[str, Counter[str]]:
    """Return the same names of what is there."""
    return {
        "items": Counter(row["externalId"] for row in facts.items),
        "lines": Counter(row["externalId"] for row in facts.lines),
        "webhooks": Counter(row["description"] for row in facts.webhooks if row["description"]),
        "keys": Counter(row["name"] for row in facts.keys if row["name"]),
    }


def created(requests: Requests, facts: Facts) -> Iterator[str]:
    """What was acknowledged is there once, what was refused is not, and nothing is there that nobody asked for."""
    there = _names(facts)
    asked: dict[str, set[str]] = defaultdict(set)
    gone = {attempts[0].body.get("description") for attempts in requests.values() if attempts[0].op == "webhook"}
    unended = {job["id"] for job in facts.imports if job["status"] == "failed"}
    for attempts in requests.values():
        said = verdict(attempts)
        ids = {call.answer.get("id") for call in attempts if call.is_done and isinstance(call.answer, dict)}
        for where, name in _wanted(attempts[0]):
            asked[where].add(name)
            count = there[where][name]
            if count > 1:
                yield f"{where} has {name} {count} times"
            if said == "done" and count == 0 and not (where == "webhooks" and name in gone) and not ids & unended:
                yield f"{name} was acknowledged and is not in {where}"
            if said == "refused" and count:
                yield f"{name} was refused and is in {where}"
    for where, names in there.items():
        for name in names.keys() - asked[where] - {GIVEN}:
            yield f"nobody asked for {name} in {where}"


def repeated(requests: Requests) -> Iterator[str]:
    """Whoever asks again with the same key hears the same."""
    for (client, key), attempts in requests.items():
        done = [call for call in attempts if call.is_done]
        op = attempts[0].op
        if op in STATED_ANEW:
            heard = {call.answer.get("id", call.answer.get("jobId")) for call in done if call.answer is not None}
        else:
            heard = {(call.status, call.digest) for call in done}
        if len(heard) > 1:
            yield f"{op} of {client} with key {key} was answered in {len(heard)} ways"
        first = next((place for place, call in enumerate(attempts) if call.is_done), None)
        if first is not None and any(c.is_answered and not c.is_done for c in attempts[first:]):
            yield f"{op} of {client} with key {key} was done, and refused afterwards"


def unexplained(requests: Requests, facts: Facts) -> Iterator[str]:
    """There are no more jobs and matches by hand than were asked for, and all that were acknowledged."""
    for what, ops, there in (
        ("run", {"run", "job"}, {job["id"] for job in facts.jobs if job["kind"] == "match"}),
        ("export", {"export"}, {job["id"] for job in facts.jobs if job["kind"] == "export"}),
        ("match by hand", {"by_hand"}, {match["id"] for match in facts.matches if match.get("runId") is None}),
    ):
        mine = [attempts for attempts in requests.values() if attempts[0].op in ops]
        answers = [call.answer for attempts in mine for call in attempts if call.is_done]
        known = {answer.get("id", answer.get("jobId")) for answer in answers}
        for one in known - there:
            yield f"{what} {one} was acknowledged and is not there"
        unknown = sum(verdict(attempts) == "unknown" for attempts in mine)
        if len(there - known) > unknown:
            yield f"{what}: {len(there - known)} are there beyond those acknowledged, and {unknown} are unknown"


def decided(requests: Requests, facts: Facts) -> Iterator[str]:
    """What was decided about a match stays, and nobody else has decided."""
    now = {match["id"]: match["status"] for match in facts.matches}
    possible: dict[str, set[str]] = defaultdict(set)
    for attempts in requests.values():
        op, about = attempts[0].op, attempts[0].about
        said = verdict(attempts)
        if op in DECISIONS and said != "refused":
            possible[op].add(str(about))
        if op in DECISIONS and said == "done" and now.get(str(about)) not in DECISIONS[op]:
            yield f"{op} of match {about} was acknowledged, and it is {now.get(str(about), 'not there')}"
    for match_id, status in now.items():
        if status in ASKED and match_id not in possible[ASKED[status]]:
            yield f"match {match_id} is {status}, and nobody asked for it"


def changed(requests: Requests, facts: Facts) -> Iterator[str]:
    """Of two who change the same version one is refused, and the last change is what is there."""
    last: dict[str, tuple[int, str]] = {}
    bases: Counter[tuple[str, int]] = Counter()
    unsure = set()
    for attempts in requests.values():
        call = attempts[0]
        if call.op != "change" or call.about is None or call.basis is None:
            continue
        said = verdict(attempts)
        if said == "unknown":
            unsure.add(call.about)
        if said == "done":
            bases[call.about, call.basis] += 1
            answer = next(c.answer for c in attempts if c.is_done)
            last[call.about] = max(last.get(call.about, (0, "")), (answer["version"], str(call.key)))
    for (about, basis), count in bases.items():
        if count > 1:
            yield f"version {basis} of {about} was changed {count} times"
    texts = {row["id"]: row.get("description") for row in facts.items}
    for about, (version, key) in last.items():
        if about not in unsure and texts.get(about) != key:
            yield f"the change {key} made version {version} of {about}, and it says {texts.get(about)}"


def looked(calls: list[Call]) -> Iterator[str]:
    """Nobody reads an older version than somebody had before, and one version has one status."""
    seen: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for call in calls:
        for row_id, version in _versions(call):
            # An answer that was stored tells that the version was there, and not that it is the newest.
            invoked = call.invoked if call.key is None else float("-inf")
            seen[row_id].append((call.ended, invoked, version))
    for row_id, observed in seen.items():
        observed.sort()
        ends = [ended for ended, _, _ in observed]
        newest = list(accumulate((version for _, _, version in observed), max))
        for _, invoked, version in observed:
            before = bisect_left(ends, invoked)
            if before and newest[before - 1] > version:
                yield f"version {version} of {row_id} was read after version {newest[before - 1]}"
    statuses: dict[tuple[str, int], set[str]] = defaultdict(set)
    for call in calls:
        if call.op == "look" and call.is_done and call.path.startswith("/matches/"):
            statuses[call.answer["id"], call.answer["version"]].add(call.answer["status"])
    for (row_id, version), found in statuses.items():
        if len(found) > 1:
            yield f"version {version} of match {row_id} was {' and '.join(sorted(found))}"


def _versions(call: Call) -> Iterator[tuple[str, int]]:
    if not call.is_done or not isinstance(call.answer, dict):
        return
    if call.op == "walk":
        yield from ((row_id, version) for row_id, version, _ in call.answer["seen"])
    elif call.op in {"look", "change", "accept", "reject", "reverse"} and "version" in call.answer:
        yield call.answer["id"], call.answer["version"]


def walked(calls: list[Call]) -> Iterator[str]:
    """Whoever reads a list to its end sees everything once that was there all the while."""
    lists = {"item": "/expected-transactions", "line": "/incoming-transactions"}
    since: dict[str, dict[str, float]] = defaultdict(dict)
    for call in calls:
        if call.op in lists and call.is_done:
            known = since[lists[call.op]]
            known[call.answer["id"]] = min(call.ended, known.get(call.answer["id"], call.ended))
    for call in calls:
        if call.op != "walk":
            continue
        seen = Counter(row[0] for row in call.answer["seen"])
        for row_id, count in seen.items():
            if count > 1:
                yield f"{row_id} is {count} times in one reading of {call.path}"
        for row_id, ended in since[call.path].items():
            if ended < call.invoked and row_id not in seen:
                yield f"{row_id} was left out of a reading of {call.path}"


def keys(calls: list[Call]) -> Iterator[str]:
    """A key works from its creation to its revocation, and never again."""
    revoked: dict[str | None, tuple[float, float]] = {}
    for call in calls:
        if call.op == "revoke":
            first, over = revoked.get(call.about, (call.invoked, float("inf")))
            revoked[call.about] = min(first, call.invoked), min(over, call.ended if call.is_done else over)
    never = (float("inf"), float("inf"))
    for call in calls:
        if call.op != "use" or not call.is_answered:
            continue
        first, over = revoked.get(call.about, never)
        if call.invoked > over and call.status != 401:
            yield f"key {call.about} was used after it was revoked"
        if call.ended < first and not call.is_done:
            yield f"key {call.about} was refused ({call.status}) before it was revoked"


def downloads(calls: list[Call]) -> Iterator[str]:
    """A file is as long as its job said."""
    for call in calls:
        if call.op == "download" and call.is_done and call.answer["bytes"] != call.body["bytes"]:
            yield f"the file of job {call.about} had {call.answer['bytes']} of {call.body['bytes']} bytes"


def isolated(calls: list[Call], facts: Facts, strangers: set[str]) -> Iterator[str]:
    """Nobody is told an id of another tenant."""
    for call in calls:
        if call.op == "spy" and call.is_answered and call.status != 404:
            yield f"what belongs to another tenant was answered with {call.status}"
        if told := set(call.ids) & strangers:
            yield f"{call.op} was answered with ids of another tenant: {sorted(told)[:3]}"
    if told := {resource for _, resource in facts.told} & strangers:
        yield f"messages had ids of another tenant: {sorted(told)[:3]}"


def counted(calls: list[Call]) -> dict[str, Any]:
    """Return how many calls there were, by what was heard, and what by whom."""
    heard = Counter("none" if call.status is None else str(call.status) for call in calls)
    ops = Counter(call.op for call in calls)
    return {"calls": len(calls), "answers": dict(sorted(heard.items())), "ops": dict(sorted(ops.items()))}


def answered_slots(calls: list[Call]) -> tuple[int, int]:
    """Return in how many slots of ``SLOT_SECONDS`` somebody was answered, and how many slots there were.

    A history in which hardly anybody was answered contradicts nothing, and proves nothing.
    """
    if not calls:
        return 0, 0
    began = min(call.invoked for call in calls)
    slots = {int((call.ended - began) // SLOT_SECONDS) for call in calls}
    answered = {int((call.ended - began) // SLOT_SECONDS) for call in calls if call.is_answered}
    return len(answered), max(slots) + 1
