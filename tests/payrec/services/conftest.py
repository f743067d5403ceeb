"""An identity provider on loopback for the tests of those who speak to one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.idp import FakeProvider, fake_provider


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """Return a provider that publishes the RSA key ``first``; modules that want more of it add to it."""
    with fake_provider() as running:
        yield running
