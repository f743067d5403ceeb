"""A job that kills each worker that takes it is given up, and what ran beside it is done all the same."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from uuid import UUID

import pytest

from payrec.constants.jobs import JOB_ATTEMPTS_MAX
from payrec.jobs.runner import JobRunner
from payrec.services.exports import ExportService
from payrec.services.matching import MatchingService
from support.attempts import LAPSE, queue, queued_run
from support.matching_world import World
from support.wire import until

pytestmark = pytest.mark.anyio

LIVES: Final = 2 * JOB_ATTEMPTS_MAX
"""Processes of a worker, one after the other: more than two jobs that fail one after the other take."""


class Life:
    """One process of a worker, which ends when its export begins; its match run takes longer than the export to begin.

    What it was doing then is never heard of again.
    """

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.is_dying = False
        self.is_matching = False
        self.exported = asyncio.Event()
        match = MatchingService.run

        async def killing(*_given: Any) -> None:
            self.is_dying = True
            await asyncio.Event().wait()

        async def long(*given: Any) -> None:
            self.is_matching = True
            await self.exported.wait()
            await match(*given)

        monkeypatch.setattr(ExportService, "run", killing)
        monkeypatch.setattr(MatchingService, "run", long)

    async def lived(self, first: str) -> list[asyncio.Task[None]]:
        """Let it do what there is to do, and return what it was doing at its end."""
        runner = JobRunner(self.world.service.factory)
        tasks = {}
        for kind in sorted(("match", "export"), key=lambda kind: kind != first):
            drain = runner.drain(self.world.scope.environment_id, kind)
            tasks[kind] = asyncio.create_task(drain)
            await until(lambda task=tasks[kind]: self._has_begun(task))  # type: ignore[misc]
            if kind == "export" and not self.is_dying:
                self.exported.set()
        await until(lambda: self._is_over(tasks["match"]))
        return [task for task in tasks.values() if not task.done()]

    async def _has_begun(self, task: asyncio.Task[None]) -> bool | None:
        return True if task.done() or self.is_dying or self.is_matching else None

    async def _is_over(self, match: asyncio.Task[None]) -> bool | None:
        return True if match.done() or self.is_dying else None


@pytest.mark.parametrize("first", ["match", "export"])
async def test_what_runs_beside_a_job_that_kills_workers_is_done(
    payable: World, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    world, left = payable, []
    innocent = await queued_run(world)
    poison: UUID = await queue(world.service.factory.context, world.scope, "export")
    for _ in range(LIVES):
        with monkeypatch.context() as patch:
            left += await Life(world, patch).lived(first)
        await world.sql(LAPSE)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    assert (await world.job(innocent))["status"] == "succeeded"
    given_up = await world.job(str(poison))
    assert (given_up["status"], given_up["error"]["detail"]) == ("failed", "given up after 5 attempts")
