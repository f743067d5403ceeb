"""A new signing key, with Keycloak."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.gate_rotation import *  # noqa: F403 - its tests are these, with this provider
from support.keycloak import administered, realm_description, realm_of_environment
from support.providers import KeycloakProvider, keycloak_provider

realm_of_environment()


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[KeycloakProvider]:
    """A realm that nobody else logs in to: the keys that are added here go with it."""
    async with (
        administered(realm_of_environment()) as keycloak,
        keycloak.copied(realm_description()) as realm,
        keycloak_provider(realm) as started,
    ):
        yield started
