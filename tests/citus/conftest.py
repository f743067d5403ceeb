"""The cluster, for the tests that are about it; without one they are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import citus
from support.citus import CitusServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[CitusServer]:
    """Return the cluster, with a migrated template database."""
    with citus.server() as cluster:
        yield cluster
