"""Every route times every principal, with Keycloak."""

from __future__ import annotations

from support.gate_matrix import *  # noqa: F403 - its tests are these, with this directory's provider
from support.keycloak import realm_of_environment

realm_of_environment()
