"""What the clock starts in a worker, to be started by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from payrec.factory import Factory
from payrec.jobs.app import create_app
from payrec.jobs.runner import JobRunner
from payrec.jobs.worker import context_of
from support.service import direct_url


def clock_tasks(factory: Factory) -> dict[str, Callable[[], Awaitable[None]]]:
    """Return what does each task of the clock once by its name, as a worker does it: in a task of its own."""
    given = SimpleNamespace(additional_context=context_of(factory, JobRunner(factory)))
    registry = create_app(url=direct_url(factory.context.config)).periodic_registry

    def started(function: Callable[..., Any]) -> Callable[[], Awaitable[None]]:
        return lambda: asyncio.create_task(function(given, timestamp=0))

    return {periodic.task.name: started(periodic.task.func) for periodic in registry.periodic_tasks.values()}
