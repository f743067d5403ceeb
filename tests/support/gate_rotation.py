"""The provider takes a new signing key into use while requests come: nobody notices, whatever provider it is."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections import Counter

import pytest

from support.wire import until
from support.world import World, bearer, shared_database, world

__all__ = ["pytestmark", "shared_database", "test_a_rotation_refuses_nobody", "world"]

pytestmark = pytest.mark.anyio

CLIENTS = 4
ROTATIONS = 2
REQUESTS_BETWEEN = 50
"""Requests of all clients after each rotation at least."""


def kid_of(token: str) -> str:
    """Return the kid of a token's header."""
    head = token.partition(".")[0]
    return str(json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))["kid"])


async def test_a_rotation_refuses_nobody(world: World) -> None:
    """Under load, with tokens of the keys before and of the new one; keys go on beside them."""
    admin = await world.person("admin")
    credentials = [await world.provider.token(admin), (await world.key("read"))["apiKey"]]
    answers: Counter[int] = Counter()
    is_over = asyncio.Event()

    async def client(first: int) -> None:
        for turn in itertools.count(first):
            if is_over.is_set():
                return
            headers = world.place() | bearer(credentials[turn % len(credentials)])
            answers[(await world.ask("GET", "/jobs", headers)).status_code] += 1

    async def asked(before: int) -> bool | None:
        return answers.total() >= before + REQUESTS_BETWEEN or None

    clients = [asyncio.create_task(client(number)) for number in range(CLIENTS)]
    for _ in range(ROTATIONS):
        await world.provider.rotate()
        credentials.append(await world.provider.token(admin))
        before = answers.total()
        await until(lambda before=before: asked(before))  # type: ignore[misc]
    is_over.set()
    await asyncio.gather(*clients)
    assert len({kid_of(token) for token in credentials if token.count(".") == 2}) == ROTATIONS + 1
    assert set(answers) == {200}
