"""Bodies that are held at once: a tenant has half of the room, however many requests it makes and however slowly."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.errors import PayrecError, RateLimitedError, UnavailableError
from payrec.gate.gate import BODIES_BYTES_MAX, LARGE_AT_ONCE
from payrec.gate.room import Held, Room
from payrec.gate.routes import ROUTES, Access, Body
from payrec.gate.streams import Incoming, Watch
from payrec.gate.strict_json import parse_json
from payrec.shares import TenantShares
from support.postgres import EmbeddedPostgres, cloned
from support.service import Service, Tenant, make_config, running
from support.wire import code

ONE, TWO, THREE = (UUID(int=n) for n in (1, 2, 3))
UPLOAD, BULK = "/incoming-transactions/upload", "/expected-transactions/bulk"
FILES, BODIES = 40_000, 20_000


def test_a_tenant_has_half_and_all_together_have_no_more_than_there_is() -> None:
    room = Room(100)
    first, second = room.of(ONE), room.of(TWO)
    first.add(50)
    with pytest.raises(RateLimitedError):
        room.of(ONE).add(1)
    second.add(49)
    with pytest.raises(UnavailableError):
        room.of(THREE).add(2)
    room.of(THREE).add(1)
    first.release()
    room.of(ONE).add(50)


def test_what_has_begun_counts_as_the_least_and_what_has_not_as_nothing() -> None:
    room = Room(100, least=20)
    held = room.of(ONE)
    held.add(0)
    assert room.held == 0
    for count, total in ((1, 20), (18, 20), (2, 21), (9, 30)):
        held.add(count)
        assert room.held == total
    held.release()
    held.release()
    assert room.held == 0


@given(
    steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30) | st.none()), max_size=40), least=st.integers(0, 9)
)
def test_whatever_comes_and_goes_it_is_as_much_as_there_is(steps: list[tuple[int, int | None]], least: int) -> None:
    room = Room(60, least=least)
    requests = [room.of(UUID(int=n // 2)) for n in range(6)]
    sent: Counter[int] = Counter()
    for which, count in steps:
        if count is None:
            requests[which].release()
            requests[which] = room.of(UUID(int=which // 2))
            del sent[which]
            continue
        try:
            requests[which].add(count)
        except PayrecError:
            # As the gate does, which ends the request.
            requests[which].release()
            requests[which] = room.of(UUID(int=which // 2))
            del sent[which]
        else:
            sent[which] += count
        had = [max(least, sent[n]) if sent[n] else 0 for n in range(6)]
        assert room.held == sum(had) <= 60
        assert max(had[n] + had[n + 1] for n in (0, 2, 4)) <= 30
    for request in requests:
        request.release()
    assert room.held == 0


def test_it_takes_a_thousand_strangers_to_keep_others_from_signing_in() -> None:
    """They have one half together, since nobody knows yet whose they are."""
    reading = [route for route in ROUTES if route.access is Access.PUBLIC and route.body is not Body.NONE]
    assert {route.path for route in reading} > {"/auth/token", "/console/sign-in"}
    assert [route for route in reading if 1000 * route.body_bytes_max > BODIES_BYTES_MAX // 2] == []


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """Run a service with little room."""
    with pytest.MonkeyPatch.context() as patched, cloned(postgres) as database:
        for name, count in (("FILES_BYTES_MAX", FILES), ("FILE_BYTES_LEAST", 10), ("BODIES_BYTES_MAX", BODIES)):
            patched.setattr(f"payrec.gate.gate.{name}", count)
        async with running(make_config(database), worker=False) as started:
            yield started


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "room"), [(UPLOAD, FILES), (BULK, BODIES)])
async def test_bodies_of_one_tenant_that_do_not_end_leave_room_for_others(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str, room: int
) -> None:
    slow, other = [await service.tenant(f"{name}-{room}") for name in ("slow", "other")]
    came, go_on, short, add = asyncio.Event(), asyncio.Event(), b" " * 400 + b"[]", Held.add

    def noted(held: Held, count: int) -> None:
        add(held, count)
        if held.count > room // 4:
            came.set()

    async def body() -> AsyncIterator[bytes]:
        yield b" " * (room // 2 - 300)
        await go_on.wait()
        yield b"[]"

    async def send(tenant: Tenant, content: Any) -> Any:
        return await tenant.post(path, headers={"Content-Type": "application/json"}, content=content)

    monkeypatch.setattr(Held, "add", noted)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(send(slow, body()))
        await came.wait()
        refused = await send(slow, short)
        assert (refused.status_code, code(refused), "retry-after" in refused.headers) == (429, "rate_limited", True)
        assert (await send(other, short)).status_code < 429
        go_on.set()
    # As if nobody had waited.
    assert waiting.result().status_code == (await send(slow, short)).status_code < 429


@pytest.mark.anyio
async def test_what_is_made_of_a_body_counts_and_one_of_too_many_values_is_too_large(service: Service) -> None:
    tenant = await service.tenant("packed")
    answer = await tenant.post(BULK, {"items": [{}] * 100})
    assert (answer.status_code, code(answer)) == (413, "payload_too_large")
    assert (await tenant.post(BULK, {"items": [{}] * 10})).status_code == 200


@pytest.mark.anyio
async def test_others_are_answered_while_large_bodies_of_a_tenant_wait_for_their_turn(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, other = [await service.tenant(f"{name}-parsed") for name in ("large", "other")]
    begun: list[int] = []
    enough, go_on = asyncio.Event(), threading.Event()
    loop, text = asyncio.get_running_loop(), "x" * 1_000

    def slowly(body: bytes) -> Any:
        if len(body) > len(text):
            begun.append(len(body))
            if len(begun) == LARGE_AT_ONCE:
                loop.call_soon_threadsafe(enough.set)
            assert go_on.wait(10)
        return parse_json(body)

    monkeypatch.setattr("payrec.gate.gate.parse_json", slowly)
    monkeypatch.setattr("payrec.gate.gate.LARGE_BYTES_MIN", len(text))
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(large.post(BULK, {"items": [{"reference": text}]})) for _ in range(5)]
        await enough.wait()
        for _ in range(20):
            assert (await other.post(BULK, {"items": [{}]})).status_code == 200
        assert len(begun) == LARGE_AT_ONCE
        go_on.set()
    assert {task.result().status_code for task in waiting} == {200}
    assert len(begun) == 5


@pytest.mark.anyio
async def test_a_turn_is_over_when_the_answer_begins_however_slowly_it_is_read() -> None:
    held, turns = Room(100).of(ONE), TenantShares(1)
    held.turn = share = await turns.taken(ONE, seconds=1)
    incoming = Incoming(_never, {})
    incoming.held = held
    went: list[Any] = []

    async def send(message: Any) -> None:
        went.append((message["type"], share.locked()))

    watch = Watch(send, incoming, headers=())
    await watch.send({"type": "http.response.start", "status": 200, "headers": []})
    assert went == [("http.response.start", False)]
    held.release()
    await turns.taken(ONE, seconds=1)


async def _never() -> Any:
    raise AssertionError
