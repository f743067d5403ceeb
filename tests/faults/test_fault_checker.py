"""The checker by itself: it finds nothing in a history that can be true, and each contradiction that is put into it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest

from support.fault_books import Facts
from support.fault_checker import GIVEN, SLOT_SECONDS, answered_slots, contradictions
from support.fault_history import Call

ITEM, LINE, PAID, RUN, EXPORT, HOOK, KEY = (f"0000000{n}-0000-7000-8000-000000000000" for n in range(7))
THEIRS = "ffffffff-0000-7000-8000-000000000000"


@dataclass
class Story:
    """Calls and facts in which nothing is wrong, until a test makes something so."""

    calls: list[Call]
    acme: Facts
    globex: Facts

    def call(self, op: str) -> int:
        """Return the place of the first call of a kind."""
        return next(place for place, call in enumerate(self.calls) if call.op == op)

    def set(self, op: str, **changes: Any) -> None:
        """Change the first call of a kind."""
        place = self.call(op)
        self.calls[place] = replace(self.calls[place], **changes)

    def again(self, op: str, **changes: Any) -> None:
        """Let the first call of a kind come once more, right behind itself."""
        place = self.call(op)
        self.calls.insert(place + 1, replace(self.calls[place], **changes))

    def found(self) -> list[str]:
        """Return what the checker says."""
        return contradictions(self.calls, {"acme": self.acme, "globex": self.globex})


def told(op: str, at: float, *, status: int | None = 200, answer: Any = None, **given: Any) -> Call:
    """Return a call that took a second."""
    defaults = {"client": "acme-0", "tenant": "acme", "method": "POST", "path": "/", "digest": op}
    return Call(**{**defaults, "op": op, "invoked": at, "ended": at + 1, "status": status, "answer": answer, **given})


def event(position: int, kind: str, resource: str) -> dict[str, Any]:
    return {"id": f"event-{position}", "position": position, "type": kind, "resourceId": resource}


def entry(code: str, way: str, **named: str) -> dict[str, Any]:
    return {"code": code, "direction": way, "amountMinor": 500, "currency": "EUR", **named}


@pytest.fixture
def story() -> Story:
    items = "/expected-transactions"
    calls = [
        told("item", 0, key="k1", status=None, body={"externalId": "A"}),
        told("item", 2, key="k1", status=201, body={"externalId": "A"}, answer={"id": ITEM, "version": 1}),
        told("line", 4, key="k2", status=201, body={"externalId": "B"}, answer={"id": LINE, "version": 1}),
        told("item", 5, key="k3", status=422, body={"externalId": "C"}, answer={"code": "validation_failed"}),
        told("by_hand", 6, key="k4", status=201, answer={"id": PAID, "version": 1, "status": "accepted"}),
        told("look", 8, path=f"/matches/{PAID}", answer={"id": PAID, "version": 1, "status": "accepted"}),
        told("reverse", 10, key="k5", about=PAID, answer={"id": PAID, "version": 2, "status": "reversed"}),
        told("look", 12, path=f"/matches/{PAID}", answer={"id": PAID, "version": 2, "status": "reversed"}),
        told("by_hand", 13, key="k6", status=201, answer={"id": RUN, "version": 1, "status": "accepted"}),
        told("change", 14, key="k7", about=ITEM, basis=1, answer={"id": ITEM, "version": 2}),
        told("walk", 16, path=items, answer={"seen": [[ITEM, 2, "open"]]}),
        told("export", 18, key="k8", status=202, answer={"id": EXPORT}),
        told("download", 20, about=EXPORT, body={"bytes": 9}, answer={"bytes": 9}),
        told("webhook", 22, key="k9", status=201, body={"description": "k9"}, answer={"id": HOOK}),
        told("key", 24, key="k10", status=201, answer={"id": KEY}),
        told("use", 26, about=KEY),
        told("revoke", 28, about=KEY, status=204),
        told("use", 30, about=KEY, status=401, answer={"code": "revoked_credentials"}),
        told("spy", 32, about=THEIRS, status=404, answer={"code": "not_found"}),
    ]
    leg = {"expectedTransactionId": ITEM, "incomingTransactionId": LINE, "amountMinor": 500, "settledMinor": 500}
    match = {"legs": [leg], "adjustments": [], "runId": None}
    amounts = {"amountMinor": 800, "matchedAmountMinor": 500, "openAmountMinor": 300, "direction": "credit"}
    events = [
        event(1, "expected_transaction.created", ITEM), event(2, "incoming_transaction.created", LINE),
        event(3, "match.accepted", PAID), event(4, "match.reversed", PAID), event(5, "match.accepted", RUN),
    ]  # fmt: skip
    there = [entry("1200", "debit", incomingTransactionId=LINE), entry("1400", "credit", expectedExternalId="A")]
    back = [entry("1200", "credit", incomingTransactionId=LINE), entry("1400", "debit", expectedExternalId="A")]
    acme = Facts(
        tenant="acme",
        items=[{"id": ITEM, "externalId": "A", "status": "partially_matched", "description": "k7", **amounts}],
        lines=[{"id": LINE, "externalId": "B", "status": "partially_matched", **amounts}],
        matches=[{"id": PAID, "status": "reversed", **match}, {"id": RUN, "status": "accepted", **match}],
        jobs=[{"id": EXPORT, "kind": "export", "status": "succeeded"}],
        imports=[],
        webhooks=[{"id": HOOK, "description": "k9"}, {"id": "own", "description": GIVEN}],
        keys=[{"id": KEY, "name": "k10"}, {"id": "main", "name": GIVEN}],
        events=events,
        postings=[
            {"sequence": 1, "kind": "match", "sourceId": PAID, "lines": there},
            {"sequence": 2, "kind": "match_reversal", "sourceId": PAID, "lines": back},
            {"sequence": 3, "kind": "match", "sourceId": RUN, "lines": there},
        ],
        told=[(one["id"], one["resourceId"]) for one in events],
    )
    return Story(calls, deepcopy(acme), Facts(tenant="globex", keys=[{"id": THEIRS, "name": GIVEN}]))


def test_what_can_be_true_is_no_contradiction(story: Story) -> None:
    assert story.found() == []


def test_what_nobody_answered_may_be_there_or_not(story: Story) -> None:
    story.calls.append(told("item", 40, key="k20", status=None, body={"externalId": "U"}))
    assert story.found() == []
    row = {**story.acme.items[0], "id": "u", "externalId": "U", "matchedAmountMinor": 0, "openAmountMinor": 800}
    story.acme.items.append(row)
    story.acme.events.append(event(6, "expected_transaction.created", "u"))
    story.acme.told.append(("event-6", "u"))
    assert story.found() == []


def test_a_service_whose_clock_is_wrong_says_nothing_of_what_was_asked(story: Story) -> None:
    expired = {"code": "expired_credentials"}
    story.again("reverse", status=401, answer=expired)
    story.set("item", status=401, answer=expired)
    story.calls.append(told("item", 40, key="k20", status=None, body={"externalId": "U"}))
    story.calls.append(told("item", 42, key="k20", status=401, answer=expired, body={"externalId": "U"}))
    story.acme.items.append({**story.acme.items[0], "id": "u", "externalId": "U", "matchedAmountMinor": 0})
    story.acme.items[-1]["openAmountMinor"] = 800
    story.acme.events.append(event(6, "expected_transaction.created", "u"))
    story.acme.told.append(("event-6", "u"))
    assert story.found() == []


def _drop(name: str) -> Callable[[Story], None]:
    def broken(story: Story) -> None:
        getattr(story.acme, name).pop()

    return broken


def _row(name: str, place: int = 0, /, **changes: Any) -> Callable[[Story], None]:
    def broken(story: Story) -> None:
        getattr(story.acme, name)[place] |= changes

    return broken


def _call(op: str, /, **changes: Any) -> Callable[[Story], None]:
    return lambda story: story.set(op, **changes)


def _again(op: str, /, **changes: Any) -> Callable[[Story], None]:
    return lambda story: story.again(op, **changes)


def _asked(call: Call) -> Callable[[Story], None]:
    return lambda story: story.calls.append(call)


def _twice(name: str, place: int = 0, /, **changes: Any) -> Callable[[Story], None]:
    def broken(story: Story) -> None:
        rows = getattr(story.acme, name)
        rows.append({**rows[place], **changes})

    return broken


def _told(*ids: tuple[str, str]) -> Callable[[Story], None]:
    def broken(story: Story) -> None:
        story.acme.told[:] = ids

    return broken


def _audit(story: Story) -> None:
    story.acme = replace(story.acme, audit="a seal is gone")


def _unasked_reversal(story: Story) -> None:
    del story.calls[story.call("reverse")]


def _older_after_newer(story: Story) -> None:
    first = story.calls[story.call("look")]
    story.calls.append(replace(first, invoked=50, ended=51))


IN_ORDER = [(f"event-{n}", resource) for n, resource in enumerate((ITEM, LINE, PAID, PAID, RUN), start=1)]

BROKEN: dict[str, tuple[Callable[[Story], None], str]] = {
    "an acknowledged item is gone": (_row("items", externalId="X"), "acknowledged and is not in items"),
    "an acknowledged line is gone": (_row("lines", externalId="X"), "acknowledged and is not in lines"),
    "an acknowledged key is gone": (_row("keys", name="X"), "acknowledged and is not in keys"),
    "an acknowledged match is gone": (_row("matches", runId="r"), "acknowledged and is not there"),
    "an acknowledged job is gone": (_drop("jobs"), "acknowledged and is not there"),
    "nobody asked for an item": (_twice("items", id="z", externalId="Z"), "nobody asked for Z"),
    "nobody asked for an endpoint": (_twice("webhooks", id="z", description="Z"), "nobody asked for Z"),
    "nobody asked for a match": (_twice("matches", id="z"), "beyond those acknowledged"),
    "an export was made twice": (_twice("jobs", id="z"), "beyond those acknowledged"),
    "an item is there twice": (_twice("items", id="z"), "has A 2 times"),
    "what was refused is there": (_twice("items", id="z", externalId="C"), "C was refused and is in"),
    "a repetition hears something else": (_again("change", digest="other"), "answered in 2 ways"),
    "a repetition makes another": (_again("export", answer={"id": "z"}), "answered in 2 ways"),
    "a repetition is refused": (
        _again("change", status=409, answer={"code": "invalid_state"}),
        "and refused afterwards",
    ),
    "a repetition is not believed": (
        _again("change", status=401, answer={"code": "revoked_credentials"}),
        "and refused afterwards",
    ),
    "an acknowledged decision is gone": (_row("matches", status="accepted"), "reverse of match"),
    "nobody asked for a decision": (_unasked_reversal, "and nobody asked for it"),
    "one version was changed twice": (
        _asked(told("change", 15, key="k21", about=ITEM, basis=1, answer={"id": ITEM, "version": 2})),
        "was changed 2 times",
    ),
    "a change is lost": (_row("items", description="before"), "and it says before"),
    "an older version is read again": (_older_after_newer, "was read after version 2"),
    "one version has two states": (
        _call("look", answer={"id": PAID, "version": 2, "status": "accepted"}),
        "was accepted and reversed",
    ),
    "a list leaves something out": (_call("walk", answer={"seen": []}), "was left out of a reading"),
    "a list repeats something": (_call("walk", answer={"seen": [[ITEM, 2, "open"]] * 2}), "2 times in one reading"),
    "a revoked key works": (_asked(told("use", 60, about=KEY)), "used after it was revoked"),
    "a key does not work": (_call("use", status=401), "before it was revoked"),
    "a file is cut off": (_call("download", answer={"bytes": 8}), "had 8 of 9 bytes"),
    "another tenant's row is shown": (_call("spy", status=200), "answered with 200"),
    "another tenant's id is told": (_call("look", ids=(THEIRS,)), "ids of another tenant"),
    "another tenant's event is delivered": (_told(*IN_ORDER, ("event-9", THEIRS)), "messages had ids of another"),
    "an amount is allocated twice": (_row("items", amountMinor=400, openAmountMinor=-100), "some of it twice"),
    "an allocation has no match": (_row("lines", matchedAmountMinor=600, openAmountMinor=200), "and matches take 500"),
    "money is lost": (_row("items", openAmountMinor=200), "are not 800"),
    "a match goes where it may not": (_row("events", 4, resourceId=PAID), "reversed became accepted"),
    "a match is not what was told": (_row("matches", 1, status="proposed"), "was told to be accepted"),
    "a match that was told of is gone": (_drop("matches"), "was told of and is not there"),
    "the feed has a gap": (_row("events", 4, position=6), "the feed has a gap"),
    "an event is told twice": (_row("events", 4, id="event-1"), "in the feed twice"),
    "a creation is not told": (_row("events", 0, type="expected_transaction.updated"), "created 0 times"),
    "an event is not delivered": (_told(*IN_ORDER[:4]), "event 5 (match.accepted) was never delivered"),
    "events are delivered out of order": (
        _told(*IN_ORDER[:2], IN_ORDER[3], IN_ORDER[2], IN_ORDER[4]),
        "event 3 was delivered after a later one",
    ),
    "what is no event is delivered": (_told(*IN_ORDER, ("event-9", ITEM)), "and is no event"),
    "postings have a gap": (_row("postings", 2, sequence=4), "postings have a gap"),
    "a posting is not balanced": (_row("postings", 2, lines=[entry("1200", "debit")]), "posting 3 is not balanced"),
    "a match is posted twice": (_twice("postings", 2, sequence=4), "with 2 postings"),
    "a match is not posted": (_drop("postings"), "with 0 postings"),
    "a posting is of another amount": (_row("lines", status="classified"), "500 is posted, and 800 decided"),
    "an item is posted otherwise": (_row("items", matchedAmountMinor=400, openAmountMinor=400), "and -400 matched"),
    "the audit log is broken": (_audit, "the audit log does not hold"),
    "a job never ends": (_row("jobs", status="running"), "is running still"),
    "an import never ends": (
        lambda story: story.acme.imports.append({"id": "i", "status": "processing"}),
        "is processing still",
    ),
}


@pytest.mark.parametrize("what", sorted(BROKEN))
def test_a_contradiction_is_found(story: Story, what: str) -> None:
    broken, said = BROKEN[what]
    broken(story)
    found = story.found()
    assert any(said in one for one in found), found


def test_a_history_without_answers_is_told_from_one_that_has_some() -> None:
    assert answered_slots([]) == (0, 0)
    silent = [told("look", at * SLOT_SECONDS, status=None) for at in range(4)]
    assert answered_slots(silent) == (0, 4)
    # What the service could not do is no answer.
    assert answered_slots([*silent, told("look", 1.0, status=503)]) == (0, 4)
    heard = [told("look", 1.0), told("look", 2.0), told("look", 2.5 * SLOT_SECONDS)]
    assert answered_slots([*silent, *heard]) == (2, 4)
