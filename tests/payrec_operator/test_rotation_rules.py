"""Rules of rotation: when a key is due, and what asks for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.tenant_resources import KeyState, StoredKey
from payrec_operator.reports import retiring_in_use
from payrec_operator.resources import ApiKeySpec
from payrec_operator.rotation import backoff, is_requested, next_rotation, request_text
from support.operator_world import OperatorWorld, make_key, make_spec


@given(st.integers(0, 2**128 - 1), st.text(max_size=8), st.integers(1, 10_000))
def test_the_jitter_is_a_tenth_at_most_and_always_the_same(key_id: int, uid: str, hours: int) -> None:
    key = ApiKeySpec.model_validate(make_key(rotation={"interval": f"{hours}h"}))
    made = datetime(2026, 3, 1, tzinfo=UTC)
    held = replace(_stored("ledger", "active", made=made), key_id=UUID(int=key_id))
    planned = next_rotation(key, held, uid=uid)
    assert planned is not None
    assert planned == next_rotation(key, held, uid=uid)
    assert timedelta(hours=hours) * 0.9 <= planned - made + timedelta(microseconds=1)
    assert planned - made <= timedelta(hours=hours)


def test_keys_made_together_are_not_changed_together() -> None:
    world = OperatorWorld()
    keys = [make_key(f"key-{n}", rotation={"interval": "720h"}) for n in range(32)]
    place = world.create(make_spec(apiKeys=keys))
    world.passes(place)
    assert len({k["nextRotationTime"] for k in world.status(place)["apiKeys"]}) == 32


@given(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9))
def test_removing_an_annotation_asks_for_nothing_and_adding_one_does(whole: str, own: str) -> None:
    assert not is_requested((), request_text((whole,)))
    assert not is_requested((whole,), request_text((whole, own)))
    assert not is_requested((own,), request_text((whole, own)))
    assert not is_requested((whole, own), request_text((whole, own)))
    assert is_requested((whole, own), request_text((whole,)))
    assert is_requested((whole,), None)


def test_the_wait_after_a_failure_doubles_up_to_an_hour() -> None:
    assert [backoff(n) / timedelta(minutes=1) for n in (1, 2, 3, 6, 7, 10_000)] == [1, 2, 4, 32, 60, 60]


def _stored(name: str, state: KeyState, *, made: datetime, used: datetime | None = None) -> StoredKey:
    return StoredKey(
        key_id=UUID(int=1),
        public_id="p",
        name=name,
        environment="production",
        read=True,
        write=True,
        state=state,
        created_at=made,
        last_used_at=used,
    )


@given(st.one_of(st.none(), st.timedeltas(timedelta(days=-30), timedelta(days=30))))
def test_a_key_that_is_replaced_counts_as_used_only_when_all_had_time_to_read_the_new_one(
    used: timedelta | None,
) -> None:
    rotated = datetime(2026, 3, 1, tzinfo=UTC)
    before = rotated - timedelta(days=30)
    keys = [
        _stored("ledger", "retiring", made=before, used=None if used is None else rotated + used),
        _stored("ledger", "active", made=rotated, used=rotated + timedelta(days=30)),
        # Another name's rotation says nothing of this one, nor does a key without a successor.
        _stored("reports", "active", made=before, used=rotated),
        _stored("gone", "retiring", made=before, used=rotated),
    ]
    assert retiring_in_use(keys) == (used is not None and used > timedelta(minutes=10))
