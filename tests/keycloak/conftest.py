"""Tests against a running Keycloak whose realm is ``deploy/keycloak/realm.json``; without one they are skipped."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.keycloak import realm_of_environment
from support.providers import KeycloakProvider, keycloak_provider


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[KeycloakProvider]:
    """Return the realm behind a forwarder of the module's own."""
    async with keycloak_provider(realm_of_environment()) as started:
        yield started
