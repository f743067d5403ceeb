"""Every route times every principal, with the embedded identity provider."""

from __future__ import annotations

import pytest

from support.gate_matrix import *  # noqa: F403 - its tests are these, with this provider
from support.providers import EmbeddedProvider


@pytest.fixture(scope="module")
def provider() -> EmbeddedProvider:
    return EmbeddedProvider()
