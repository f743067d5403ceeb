"""The chain over the audit log: everything that a record says counts, and nothing can be moved between records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.audit_chain import (
    CONTENT_FIELDS,
    DEED_FIELDS,
    FIRST_ROOT,
    SealHash,
    commitment,
    content_hash,
    is_committed,
)

RECORD_FIELDS = (*DEED_FIELDS, *CONTENT_FIELDS)
TEXTS = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
RECORDS = st.fixed_dictionaries(
    {
        "change_id": st.uuids(),
        "ordinal": st.integers(min_value=1, max_value=3),
        "at": st.datetimes(timezones=st.just(UTC)),
        **dict.fromkeys(RECORD_FIELDS, TEXTS),
    }
)
SALTS = st.binary(min_size=16, max_size=16)
COMMITTED = st.lists(
    st.tuples(st.uuids(), st.integers(min_value=1, max_value=9), st.binary(min_size=32, max_size=32)), max_size=6
)


def committed_to(record: dict[str, Any], salt: bytes) -> bytes:
    return commitment(record, content_hash(record, salt))


def stored(record: dict[str, Any], salt: bytes) -> dict[str, Any]:
    """Return a record beside what is kept of it when it is sealed."""
    return {**record, "salt": salt, "content": content_hash(record, salt), "commitment": committed_to(record, salt)}


def root_of(committed: list[tuple[UUID, int, bytes]], *, previous: bytes = FIRST_ROOT, sequence: int = 1) -> bytes:
    seal = SealHash(previous_root=previous, sequence=sequence)
    for one in committed:
        seal.add(*one)
    assert seal.count == len(committed)
    return seal.root


@given(RECORDS, RECORDS, SALTS, SALTS)
def test_equal_commitments_are_of_equal_records(
    one: dict[str, Any], other: dict[str, Any], salt: bytes, other_salt: bytes
) -> None:
    is_same = (one, salt) == (other, other_salt)
    assert (committed_to(one, salt) == committed_to(other, other_salt)) == is_same
    assert is_committed(stored(one, salt))
    assert is_committed({**stored(one, salt), **other}) == (one == other)


@given(RECORDS, SALTS, st.sampled_from(["change_id", "ordinal", "at", *RECORD_FIELDS]))
def test_each_thing_that_a_record_says_counts(record: dict[str, Any], salt: bytes, name: str) -> None:
    changed = dict(record)
    if name == "at":
        changed["at"] = record["at"].replace(microsecond=(record["at"].microsecond + 1) % 1_000_000)
    elif name == "change_id":
        changed["change_id"] = UUID(int=record["change_id"].int ^ 1)
    elif name == "ordinal":
        changed["ordinal"] += 1
    else:
        # Nothing and an empty text are two things.
        changed[name] = "" if record[name] is None else f"{record[name]}x"
    assert committed_to(changed, salt) != committed_to(record, salt)
    assert not is_committed({**stored(record, salt), **changed})
    # Of what was erased, all else is proved without it, and nothing comes in its place.
    gone = {**stored(record, salt), **dict.fromkeys(CONTENT_FIELDS), "salt": None}
    assert is_committed(gone)
    assert not is_committed({**gone, name: changed[name]})


@given(RECORDS, SALTS, st.sampled_from(list(pairwise(RECORD_FIELDS))), st.text(max_size=3))
def test_no_text_moves_from_one_field_to_the_next(
    record: dict[str, Any], salt: bytes, names: tuple[str, str], text: str
) -> None:
    here, there = names
    moved = {**record, here: f"{record[here] or ''}{text}", there: record[there] or ""}
    back = {**record, here: record[here] or "", there: f"{text}{record[there] or ''}"}
    assert (committed_to(moved, salt) == committed_to(back, salt)) == (moved == back)


@given(COMMITTED, COMMITTED, st.binary(min_size=32, max_size=32), st.integers(min_value=1, max_value=99))
def test_equal_roots_are_of_equal_seals(
    one: list[tuple[UUID, int, bytes]], other: list[tuple[UUID, int, bytes]], previous: bytes, sequence: int
) -> None:
    assert (root_of(one) == root_of(other)) == (one == other)
    assert root_of(one, previous=previous) == root_of(one) or previous != FIRST_ROOT
    assert (root_of(one, sequence=sequence) == root_of(one)) == (sequence == 1)


def test_a_commitment_and_a_root_are_what_they_were() -> None:
    """What was sealed by this release has to be verifiable by every later one."""
    record = {
        "change_id": UUID(int=1),
        "ordinal": 1,
        "at": datetime(2026, 3, 1, tzinfo=UTC) + timedelta(microseconds=7),
        "actor": "user:1",
        "action": "match.accepted",
        "resource_id": UUID(int=2),
        "reason": None,
        "before": None,
        "after": '{"a": 1.10}',
        "request_id": "r",
    }
    salt = bytes(range(16))
    committed = committed_to(record, salt)
    assert committed.hex() == "e08ac5d55ec46991994f03e677369043c46e03afec1c6dde26f3aace062a8521"
    assert (
        root_of([(UUID(int=1), 1, committed)]).hex()
        == "88eeefd15b8b042bd609e36923c5f40d8475f427d83cffaac95c2ba13bfaefac"
    )
    # Before content had a hash of its own.
    before = bytes.fromhex("15ce2dc363d75aba00113123d4fe3f7dbcb7e9c784ba31a2db66ab84a0b9e931")
    row = {**record, "salt": salt, "content": None, "commitment": before}
    assert is_committed(row)
    assert not is_committed({**row, "actor": "user:2"})
    assert not is_committed({**row, "salt": bytes(16)})
