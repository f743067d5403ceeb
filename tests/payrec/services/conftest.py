"""What several tests of services have: an identity provider on loopback, and a world that accepts what is high."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from support.idp import FakeProvider, fake_provider
from support.matching_world import World, matching_world
from support.service import Service, Tenant


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """Return a provider that publishes the RSA key ``first``; modules that want more of it add to it."""
    with fake_provider() as running:
        yield running


@pytest.fixture
async def accepting(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    """Return an empty world whose runs accept what is sure enough by itself."""
    async with matching_world(service, acme, globex) as made:
        await made.set(autoAccept=True, autoAcceptMinConfidence="high")
        yield made
