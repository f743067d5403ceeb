"""Reconciling: one pass from what a resource asks for to what is there, and a status of what was observed.

Pure but for the ports: no clock, no randomness, no Kubernetes. A pass may end between any two calls, and may be the
second one over the same thing; the next one goes on with what it sees.
"""

from __future__ import annotations

from datetime import datetime

from payrec_operator.deletion import release
from payrec_operator.environments import drop_environments, settle_environments
from payrec_operator.errors import InvalidSpecError, NamespaceTerminatingError
from payrec_operator.keys import settle_keys
from payrec_operator.outcome import Outcome
from payrec_operator.passes import Pass
from payrec_operator.ports import World
from payrec_operator.problems import Problem, problem_of
from payrec_operator.reasons import Reason
from payrec_operator.reports import report, report_unseen
from payrec_operator.resources import TenantResource, TenantSpec
from payrec_operator.stops import paused, stopped


async def reconcile(
    resource: TenantResource, world: World, *, now: datetime, attempt: int = 0, jitter: float = 0.0
) -> Outcome:
    """Bring the world nearer to what the resource asks for, and return what came of it.

    ``attempt`` counts the passes over this resource that failed one after another before this one, and ``jitter`` in
    0..1 is drawn for the wait after it. A resource that is being deleted is let go in steps, see ``release``.
    """
    try:
        if resource.deleting:
            return await release(resource, world, now=now, attempt=attempt, jitter=jitter)
        if resource.paused:
            return paused(resource, now=now)
        return await _reconcile(resource, resource.spec(), world, now=now, attempt=attempt, jitter=jitter)
    except InvalidSpecError as error:
        problem = Problem(reason=Reason.INVALID_SPEC, message=str(error))
        return stopped(resource, problem, now=now, attempt=attempt, jitter=jitter)
    except NamespaceTerminatingError:
        # The resource goes with its namespace; its deletion is the next that is heard of it.
        return Outcome(status=None, result="stopped", reason=Reason.DELETING)
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the status, and the next pass tries again
        return stopped(resource, problem_of(error), now=now, attempt=attempt, jitter=jitter, errors=[error])


async def _reconcile(
    resource: TenantResource, spec: TenantSpec, world: World, *, now: datetime, attempt: int, jitter: float
) -> Outcome:
    state = Pass(resource=resource, spec=spec, world=world, now=now)
    if not await state.look():
        if resource.status.get("tenantId"):
            state.corrected.append("tenant")
        await world.registry.claim(resource.owner, spec.slug, spec.wanted, adopt=resource.adopting)
        state.changed = True
        if not await state.look():
            problem = Problem(reason=Reason.INTERNAL_ERROR, message="the tenant is gone again", transient=True)
            return stopped(resource, problem, now=now, attempt=attempt, jitter=jitter)
    if state.observation.tenant.status == "deleting":
        problem = Problem(reason=Reason.DELETING, message="the tenant is being deleted, though not by this resource")
        return stopped(resource, problem, now=now, attempt=attempt, jitter=jitter)
    await _settle(state)
    if state.changed and not await _look_again(state):
        return report_unseen(state, attempt=attempt, jitter=jitter)
    if not state.observation.applied and state.tenant is None:
        # A tenant opens with its environments, and the last of them may have been made only now.
        await _apply(state)
        if not await _look_again(state):
            return report_unseen(state, attempt=attempt, jitter=jitter)
    return report(state, attempt=attempt, jitter=jitter)


async def _look_again(state: Pass) -> bool:
    """Observe what the pass has left behind; false where that cannot be seen."""
    before = state.observation
    with state.guarded(state.tell_tenant):
        await state.look()
    return state.observation is not before


async def _apply(state: Pass) -> None:
    with state.guarded(state.tell_tenant):
        state.changed = True
        await state.world.registry.apply(state.tenant_id, state.spec.wanted)


async def _settle(state: Pass) -> None:
    """Do what is to be done, part by part; none stops the others."""
    registry, spec = state.world.registry, state.spec
    if not state.observation.applied:
        await _apply(state)
    await settle_environments(state)
    if not state.observation.users_synced:
        with state.guarded(state.tell_users):
            state.changed = True
            await registry.sync_users(state.tenant_id, spec.wanted_users)
    blocked = await settle_keys(state)
    await drop_environments(state, blocked)
