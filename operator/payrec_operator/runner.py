"""Runs passes: one at a time for each Tenant, bounded in number and time, counted; what one knows of another is here.

Two of kopf's handlers for one object may run at the same time (a timer and an update do), and the body that a handler
gets may be older than the status that the pass before it has made. Both are dealt with here, for all triggers alike.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import structlog

from payrec.domain.caller import Clock
from payrec_operator.conditions import by_type
from payrec_operator.metrics import API_SERVER_ERROR, OperatorMetrics, TenantFacts
from payrec_operator.outcome import Outcome, Status
from payrec_operator.ports import World
from payrec_operator.problems import Problem, problem_of
from payrec_operator.reasons import Reason
from payrec_operator.reconcile import reconcile
from payrec_operator.resources import TenantResource, instant_of
from payrec_operator.stops import stopped

Trigger = Literal["change", "timer", "secret", "wake", "delete"]
"""What a pass is caused by: the Tenant itself, time, one of its Secrets, something that is due, its deletion."""

PASS_SECONDS_MAX: Final = 120.0
"""How long a pass may take; what it has done stays, and the next one goes on."""

PASSES_MAX: Final = 20
"""Passes at the same time. The database's pool is smaller, and they take turns."""

FRESH_SECONDS: Final = 10.0
"""How long a full pass counts for whoever has nothing new to say: resuming and updating come together."""

_FULL: Final = frozenset({"reconciled", "paused", "invalid"})
"""Results after which another pass over the same resource would find nothing to do."""


@dataclass(slots=True)
class _Memory:
    """What is known of one Tenant between its passes."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    failures: int = 0
    """Passes that failed, one after another, up to the last one; those before a deletion are no tries at it."""
    deleting: bool = False
    seen: tuple[int, tuple[tuple[str, str], ...]] | None = None
    """Generation and annotations of the last full pass."""
    ended_at: float = float("-inf")
    unwritten: Status | None = None
    """The last status, until it has been seen on the API server."""


class Runner:
    """Runs passes. ``chance`` returns a number from 0 to 1, for waits that must not fall together."""

    def __init__(
        self, *, world: World, metrics: OperatorMetrics, clock: Clock, chance: Callable[[], float], fresh: float
    ) -> None:
        self._world = world
        self._metrics = metrics
        self._clock = clock
        self.chance = chance
        self._fresh_seconds = min(FRESH_SECONDS, fresh)
        self._memories: dict[str, _Memory] = {}
        self._turns = asyncio.Semaphore(PASSES_MAX)
        self._running: dict[object, float] = {}
        self._logger = structlog.get_logger("payrec_operator")

    async def run(self, trigger: Trigger, body: Mapping[str, Any], obstacle: Exception | None = None) -> Outcome | None:
        """Make a pass over a Tenant, as ``body`` shows it once its turn has come; None where there is no need.

        ``obstacle`` is why nothing may be done for it, which is told and tried again as what fails in a pass.
        """
        uid = str(body["metadata"]["uid"])
        memory = self._memories.setdefault(uid, _Memory())
        async with memory.lock, self._turns:
            resource = self._read(memory, body)
            if self._is_fresh(trigger, memory, resource):
                self._metrics.reconciles.labels(trigger=trigger, result="skipped").inc()
                return None
            if resource.deleting and not memory.deleting:
                memory.failures, memory.deleting = 0, True
            begun, mark = self._clock.monotonic(), object()
            self._running[mark] = begun
            self._metrics.active.inc()
            try:
                outcome = await self._pass(resource, memory.failures, obstacle)
            finally:
                del self._running[mark]
                self._metrics.active.dec()
                self._metrics.seconds.observe(self._clock.monotonic() - begun)
            self._remember(uid, memory, resource, outcome)
            self._tell(trigger, resource, outcome)
            return outcome

    def write_status(self, uid: str, body: dict[str, Any]) -> None:
        """Write the Tenant's newest status into a body; whoever comes late with this writes nothing old."""
        memory = self._memories.get(uid)
        if memory is not None and memory.unwritten is not None:
            memory.unwritten.apply(body)

    def note(self, error: Exception, place: tuple[str, str, str]) -> None:
        """Note an error outside a pass, which the next timer makes good."""
        namespace, name, _ = place
        self.note_refusal()
        self._logger.warning("reconcile.error", namespace=namespace, tenant=name, error=str(error))

    def note_refusal(self) -> None:
        """Note that the API server was away or has refused what no pass tells of."""
        self._metrics.errors.labels(reason=API_SERVER_ERROR).inc()

    def forget(self, uid: str) -> None:
        """Forget a Tenant that is gone."""
        self._memories.pop(uid, None)
        self._metrics.forget(uid)

    @property
    def stuck_seconds(self) -> float:
        """How long the oldest pass has been running; one that ignores its bound means that the process is stuck."""
        return max((self._clock.monotonic() - begun for begun in self._running.values()), default=0.0)

    def _read(self, memory: _Memory, body: Mapping[str, Any]) -> TenantResource:
        """Return the Tenant, with the status that was made last, also where the API server's is older."""
        shown = {"metadata": body["metadata"], "spec": body.get("spec"), "status": copy.deepcopy(body.get("status"))}
        if shown["status"] is not None:
            shown["status"] = dict(shown["status"])
        if memory.unwritten is not None:
            before = copy.deepcopy(shown["status"])
            memory.unwritten.apply(shown)
            if shown["status"] == before:
                memory.unwritten = None
        return TenantResource.parse(shown)

    def _is_fresh(self, trigger: Trigger, memory: _Memory, resource: TenantResource) -> bool:
        if trigger not in {"change", "timer"} or memory.seen != _identity(resource):
            return False
        return self._clock.monotonic() - memory.ended_at < self._fresh_seconds

    async def _pass(self, resource: TenantResource, failures: int, obstacle: Exception | None) -> Outcome:
        now, jitter = self._clock.now(), self.chance()
        if obstacle is not None:
            problem = Problem(reason=Reason.PROGRESSING, message=str(obstacle), transient=True)
            return stopped(resource, problem, now=now, attempt=failures, jitter=jitter, errors=[obstacle])
        try:
            async with asyncio.timeout(PASS_SECONDS_MAX):
                return await reconcile(resource, self._world, now=now, attempt=failures, jitter=jitter)
        except TimeoutError as error:
            problem = Problem(
                reason=Reason.PROGRESSING,
                message=f"the pass was ended after {PASS_SECONDS_MAX:.0f} s, and goes on where it was",
                transient=True,
            )
            return stopped(resource, problem, now=now, attempt=failures, jitter=jitter, errors=[error])

    def _remember(self, uid: str, memory: _Memory, resource: TenantResource, outcome: Outcome) -> None:
        memory.failures = memory.failures + 1 if outcome.result == "failed" else 0
        memory.seen = _identity(resource) if outcome.result in _FULL else None
        memory.ended_at = self._clock.monotonic()
        if outcome.status is not None:
            memory.unwritten = outcome.status
            self._metrics.observe(uid, _facts(resource, outcome))

    def _tell(self, trigger: Trigger, resource: TenantResource, outcome: Outcome) -> None:
        metrics = self._metrics
        metrics.reconciles.labels(trigger=trigger, result=outcome.result).inc()
        if outcome.result in {"failed", "stopped", "invalid"}:
            metrics.errors.labels(reason=str(outcome.reason)).inc()
        if outcome.result != "failed":
            metrics.last_success.set(self._clock.now().timestamp())
        for kind in outcome.corrected:
            metrics.drift.labels(kind=kind).inc()
        for result, count in outcome.rotations.items():
            metrics.rotations.labels(result=result).inc(count)
        where = {"namespace": resource.owner.namespace, "tenant": resource.owner.name, "trigger": trigger}
        for error in outcome.errors:
            # What the status says in a sentence needs no traceback, above all not at every turn of the timer.
            unforeseen = problem_of(error).reason is Reason.INTERNAL_ERROR
            self._logger.warning("reconcile.error", **where, error=str(error), exc_info=error if unforeseen else None)
        if outcome.events or outcome.corrected:
            self._logger.info("reconcile.changed", **where, result=outcome.result, reason=str(outcome.reason))


def seconds_until_next(outcome: Outcome, now: datetime, *, within: float) -> float | None:
    """Return when something of this Tenant is due before the timer would come by, in seconds."""
    waits = [outcome.retry_after] if outcome.retry_after is not None else []
    if outcome.wake_at is not None:
        waits.append(max(outcome.wake_at - now, timedelta(seconds=1)))
    soonest = min((wait.total_seconds() for wait in waits), default=None)
    return soonest if soonest is not None and soonest < within else None


def _identity(resource: TenantResource) -> tuple[int, tuple[tuple[str, str], ...]]:
    return resource.generation, tuple(sorted(resource.annotations.items()))


def _facts(resource: TenantResource, outcome: Outcome) -> TenantFacts:
    assert outcome.status is not None, "only a status says something"
    fields, conditions = outcome.status.fields, by_type(outcome.status.conditions)
    planned = instant_of(fields.get("nextRotationTime"))
    keys: dict[str, int] = {str(state): count for state, count in outcome.keys.items()}
    if outcome.retiring_in_use:
        keys["retiring_in_use"] = outcome.retiring_in_use
    return TenantFacts(
        namespace=resource.owner.namespace,
        name=resource.owner.name,
        conditions={kind: str(condition["status"]) for kind, condition in conditions.items()},
        environments=[str(entry["state"]) for entry in fields.get("environments", ())],
        keys=keys,
        is_behind=conditions.get("MigrationsCurrent", {}).get("status") == "False",
        next_rotation_at=planned.timestamp() if planned is not None else None,
        finalizing=resource.deleting,
        on_hold=outcome.reason in {Reason.PAUSED, Reason.SUSPENDED},
    )
