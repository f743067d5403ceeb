"""A new signing key, with Keycloak."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.gate_rotation import *  # noqa: F403 - its tests are these, with this provider
from support.keycloak import administered, realm_of_environment
from support.providers import KeycloakProvider, keycloak_provider

realm_of_environment()

ROOT = Path(__file__).resolve().parents[2]
REALM = json.loads((ROOT / "deploy" / "keycloak" / "realm.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[KeycloakProvider]:
    """A realm that nobody else logs in to: the keys that are added here go with it."""
    async with (
        administered(realm_of_environment()) as keycloak,
        keycloak.copied(REALM) as realm,
        keycloak_provider(realm) as started,
    ):
        yield started
