"""What tests of the gate share."""

from __future__ import annotations

import pytest

from support.entrance import Entrance
from support.service import Service


@pytest.fixture
def entrance(service: Service) -> Entrance:
    """Return a gate before the service that the tests of a module share."""
    return Entrance(service.factory)
