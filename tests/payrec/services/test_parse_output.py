"""Statements written while they are read: whatever comes in turns, each is whole, in its place, and nothing is held."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.continuity import Continuity
from payrec.domain.identity import fingerprint
from payrec.domain.incoming_transactions import identity_of
from payrec.domain.statements import Entry, Problem, Statement
from payrec.services.parse_duplicates import DuplicateCounter
from payrec.services.parse_output import JsonDocument, JsonLines, Shown
from payrec.services.spool import SegmentedSpool

KINDS = ("statement", "interim", "transactions")

Event = tuple[str, int]
"""``begin``, ``entry`` or ``end`` of the statement of an index."""


@st.composite
def readings(draw: st.DrawFn) -> tuple[list[Statement], list[Event]]:
    """Return statements, and their events in any order that a reader may have: begun in order of their index."""
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=6))
    statements = [Statement(index, kind=kind, account=f"A{index}") for index, kind in enumerate(kinds)]
    events: list[Event] = []
    open_: list[int] = []
    for number in draw(st.lists(st.integers(0, 30), max_size=30)):
        begun = sum(kind == "begin" for kind, _ in events)
        if number % 5 == 0 and begun < len(kinds):
            open_.append(begun)
            events.append(("begin", begun))
        elif open_:
            at = open_[number % len(open_)]
            events.append(("end" if number % 3 == 0 else "entry", at))
            if number % 3 == 0:
                open_.remove(at)
    begun = sum(kind == "begin" for kind, _ in events)
    events += [("begin", index) for index in range(begun, len(kinds))]
    events += [("end", index) for index in (*open_, *range(begun, len(kinds)))]
    return statements, events


def verdict(statement: Statement) -> Continuity:
    if statement.kind != "statement":
        return "not_available"
    return "ok" if statement.index % 2 else "first"


def tell(sink: JsonDocument | JsonLines, statements: list[Statement], events: list[Event]) -> None:
    counts = [0] * len(statements)
    for kind, index in events:
        statement = statements[index]
        if kind == "begin":
            sink.begin(statement)
        elif kind == "end":
            statement.transaction_count = counts[index]
            sink.end(statement)
        else:
            sink.entry(Entry(index, counts[index], currency="EUR"))
            sink.problem(Problem(f"told_{counts[index] % 3}", statement=index))
            counts[index] += 1
    sink.finish({"outcome": "read"}, lambda index: verdict(statements[index]))


def documents(statements: list[Statement], events: list[Event], shown: Shown | None = None) -> dict[str, Any]:
    pieces: list[bytes] = []
    with JsonDocument(pieces.append, shown=shown) as sink:
        tell(sink, statements, events)
    found: dict[str, Any] = json.loads(b"".join(pieces))
    return found


@given(readings())
def test_every_statement_is_whole_and_in_its_place(reading: tuple[list[Statement], list[Event]]) -> None:
    statements, events = reading
    found = documents(statements, events)
    assert [s["index"] for s in found["statements"]] == list(range(len(statements)))
    for statement, document in zip(statements, found["statements"], strict=True):
        entries = sum(event == ("entry", statement.index) for event in events)
        assert (
            [e["index"] for e in document["entries"]]
            == list(range(entries))
            == list(range(document["transactionCount"]))
        )
        assert (document["kind"], document["account"]["id"]) == (statement.kind, statement.account)
        assert document["checks"]["continuity"] == verdict(statement)
    assert len(found["problems"]) == sum(kind == "entry" for kind, _ in events)
    assert found["outcome"] == "read"


@given(readings())
def test_lines_are_one_for_each_thing(reading: tuple[list[Statement], list[Event]]) -> None:
    statements, events = reading
    pieces: list[bytes] = []
    with JsonLines(pieces.append) as sink:
        tell(sink, statements, events)
    lines = [json.loads(line) for line in b"".join(pieces).splitlines()]
    entries = sum(kind == "entry" for kind, _ in events)
    kinds = [line["type"] for line in lines]
    assert kinds == ["entry", "problem"] * entries + ["statement"] * len(statements) + ["file"]


@given(readings(), st.integers(0, 3), st.integers(0, 4), st.integers(0, 2), st.integers(0, 4), st.integers(0, 2_000))
def test_what_is_shown_is_a_beginning_of_all(
    reading: tuple[list[Statement], list[Event]], entries: int, statements: int, per_code: int, problems: int, size: int
) -> None:
    whole = documents(*reading)
    shown = Shown(
        entries_per_statement=entries, statements=statements, problems_per_code=per_code, problems=problems, bytes=size
    )
    found = documents(*reading, shown=shown)
    assert len(found["statements"]) <= statements
    assert len(found["problems"]) <= problems
    for part, all_of_it in zip(found["statements"], whole["statements"], strict=False):
        assert len(part["entries"]) <= entries
        assert part == {**all_of_it, "entries": all_of_it["entries"][: len(part["entries"])]}


@given(st.lists(st.tuples(st.integers(0, 9), st.binary(min_size=1, max_size=40)), max_size=60), st.integers(1, 100))
def test_sequences_come_back_as_they_were_written(pieces: list[tuple[int, bytes]], memory_bytes: int) -> None:
    wanted: dict[int, bytes] = {}
    with SegmentedSpool(memory_bytes=memory_bytes) as spool:
        for count, (sequence, data) in enumerate(pieces):
            spool.append(sequence, data)
            wanted[sequence] = wanted.get(sequence, b"") + data
            if count % 7 == 0:
                # Reading one in between disturbs nothing.
                assert b"".join(spool.read(sequence)) == wanted[sequence]
        assert {n: b"".join(spool.read(n)) for n in range(11)} == {n: wanted.get(n, b"") for n in range(11)}


def entries_of(draws: list[tuple[str, int, int, bool]]) -> Iterator[Entry]:
    for name, amount_minor, text, pending in draws:
        entry = Entry(
            amount_minor=amount_minor,
            currency="EUR",
            booking_on=date(2026, 1, 2),
            remittance=str(text),
            external_id=name,
            status="pending" if pending else "booked",
        )
        entry.fingerprint = fingerprint(entry)
        yield entry


def counted(entries: list[Entry]) -> int:
    """Return the duplicates by the words of the rule: booked ones first, then whoever is there already."""
    stored: dict[bytes, Entry] = {}
    reused: list[bytes] = []
    found = 0
    for entry in sorted(entries, key=lambda e: e.status != "booked"):
        first = stored.setdefault(identity_of(entry), entry)
        if first is entry:
            continue
        other = first.fingerprint != entry.fingerprint and first.amount_minor != entry.amount_minor
        if entry.status == "booked" and first.status == "booked" and other:
            reused.append(entry.fingerprint)
        else:
            found += 1
    return found + len(reused) - len(set(reused))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.integers(1, 2), st.booleans()), max_size=30))
def test_duplicates_are_counted_by_identity(draws: list[tuple[str, int, int, bool]]) -> None:
    entries = list(entries_of(draws))
    with DuplicateCounter() as counter:
        for entry in entries:
            counter.add(entry)
        assert counter.count() == counted(entries)
