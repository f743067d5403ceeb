"""Backtests, done: day by day, each at the state of knowledge with which it began. Workers import this."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.models.backtests import BacktestCreate, BacktestResult
from payrec.services.backtest_days import Decision, decided
from payrec.services.backtest_figures import ends_of, figures_of, first_of, threshold_of, told
from payrec.services.matching_rules import tenant_rules
from payrec.services.work import LostLeaseError, Work
from payrec.storage.backtests import BacktestStore
from payrec.storage.jobs import JobStore


class BacktestRunner:
    """Does backtests of one tenant environment. They change nothing but their job."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.backtests")

    async def run(self, caller: Caller, scope: TenantScope, job: dict[str, Any], progress: Progress) -> None:
        """Decide each day and end the job with what is told of all.

        Of a line counts the first day that accepts it without a person, else the first that proposes anything.

        Raises
        ------
        LostLeaseError, StoppedError
        ValidationFailedError
            A day is too large.
        """
        wanted = BacktestCreate.model_validate(job["params"], by_alias=True, strict=False)
        given = await tenant_rules(self._work.database, scope.tenant_id, instead=job["params"].get("settings"))
        days = (wanted.to - wanted.from_).days + 1
        progress.done, progress.total = 0, days
        arrived: set[UUID] = set()
        proposed: dict[UUID, Decision] = {}
        version = ""
        for number in range(days):
            day = await decided(self._work.database, scope, wanted.from_ + timedelta(days=number), given.matching)
            arrived |= day.arrived
            version = day.engine_version
            for line, decision in day.decisions.items():
                if line not in proposed or (decision.auto and not proposed[line].auto):
                    proposed[line] = decision
            progress.reach(number + 1)
        async with self._work.database.tenant(scope, readonly=True) as connection:
            store, lines = BacktestStore(connection), sorted(arrived)
            ends, in_fact = ends_of(await store.ended(lines)), first_of(await store.by_runs(lines))
            apart = await store.apart(lines)
        accepted = {line: d.partners for line, d in proposed.items() if d.auto and line in arrived}
        # As in the reports; but where it is, was or would have been accepted for anything, that must be seen.
        arrived -= apart - ends.keys() - in_fact.keys() - accepted.keys()
        in_fact = {line: partners for line, partners in in_fact.items() if line in arrived}
        right = {line for line, partners in accepted.items() if line in ends and ends[line].partners == partners}
        result = BacktestResult(
            days=days,
            proposed=len(proposed.keys() & arrived),
            figures=figures_of(arrived, ends, accepted),
            actual=figures_of(arrived, ends, in_fact),
            at_precision=threshold_of(arrived, ends, proposed, wanted.precision),
            gained=told((line for line in right if not ends[line].by_run), ends),
            lost=told((line for line in in_fact if line not in accepted), ends),
            wrong=told((line for line in accepted if line in ends and line not in right), ends),
            engine_version=version,
            rules_version=given.version,
            settings=job["params"].get("settings"),
        )
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            finished = await JobStore(unit.connection).finish(
                job["id"],
                attempt=job["attempts"],
                now=self._work.clock.now(),
                result=result.model_dump(mode="json", by_alias=True),
                done=days,
            )
            if not finished:
                raise LostLeaseError
            unit.record(Record(action="job.succeeded", resource_id=job["id"]))
        self._logger.info("backtest.finished", days=days, lines=len(arrived), auto_accepted=len(accepted))
