"""A world of the operator without a cluster, and one Tenant in it that is ready."""

from __future__ import annotations

import pytest

from support.operator_secrets import Place
from support.operator_world import OperatorWorld, make_spec


@pytest.fixture
def world() -> OperatorWorld:
    """Return an empty world."""
    return OperatorWorld()


@pytest.fixture
def place(world: OperatorWorld) -> Place:
    """Return a Tenant of which everything is made."""
    made = world.create(make_spec())
    world.passes(made)
    return made
