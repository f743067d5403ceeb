"""Attacks on authentication, with the embedded identity provider."""

from __future__ import annotations

from dataclasses import replace

import pytest

from payrec.embedded import passwords
from support.gate_attacks import *  # noqa: F403 - its tests are these, with this provider
from support.providers import EmbeddedProvider
from support.world import World


@pytest.fixture(scope="module")
def provider() -> EmbeddedProvider:
    return EmbeddedProvider()


async def test_a_login_costs_the_same_whoever_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash each: the time of a refusal does not tell who exists."""
    hashed: list[bytes] = []
    scrypt = passwords._scrypt

    def counted(secret: bytes, salt: bytes, n: int) -> bytes:
        hashed.append(secret)
        return scrypt(secret, salt, n)

    monkeypatch.setattr(passwords, "_scrypt", counted)
    somebody = await world.person("viewer")
    for username in (somebody.username, "nobody", "Ünknown"):
        before = len(hashed)
        answer = await world.provider.log_in(replace(somebody, username=username, password="wrong"))
        assert (answer.status_code, len(hashed)) == (401, before + 1), username
