"""Letting a deleted resource go: its Secrets, its keys, then its data as the policy says.

What cannot be done is tried a bounded number of times; then, or with the annotation ``payrec.dev/abandon``, the
resource goes and the tenant stays, closed as far as that can be done. Nothing is ever dropped by giving up.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from payrec.domain.tenant_resources import TenantState
from payrec_operator.conditions import TYPES, Condition
from payrec_operator.constants import DELETION_SECRET_TRIES_MAX, DELETION_TRIES_MAX
from payrec_operator.errors import OperatorError
from payrec_operator.outcome import Event, Outcome, Status, events_of, kept_fields, render_conditions, retry_delay
from payrec_operator.ports import World
from payrec_operator.problems import problem_of
from payrec_operator.reasons import Reason
from payrec_operator.resources import TenantResource
from payrec_operator.stops import paused


async def release(resource: TenantResource, world: World, *, now: datetime, attempt: int, jitter: float) -> Outcome:
    """Take the next step of a deletion; ``Outcome.release`` says when the resource may go.

    A tenant that does not belong to the resource is left alone.
    """
    if resource.abandoned:
        is_closed = await _close(resource, world)
        return _given_up(resource, "the annotation payrec.dev/abandon is there", is_closed=is_closed, now=now)
    if resource.paused:
        return paused(resource, now=now)
    try:
        tenant = await world.registry.find(resource.owner)
        if tenant is None:
            return Outcome(status=None, result="released", reason=Reason.DELETING, release=True)
        await _delete_secrets(resource, world, attempt=attempt)
        await _part(resource, world, tenant)
    except Exception as error:  # noqa: BLE001 - whatever it is, the number of tries is bounded
        problem = problem_of(error)
        if attempt + 1 >= DELETION_TRIES_MAX:
            is_closed = await _close(resource, world)
            return _given_up(resource, problem.message, is_closed=is_closed, now=now, error=error)
        conditions = _conditions(Reason.DROP_FAILED, problem.message)
        return Outcome(
            status=_status(resource, conditions, now=now),
            result="failed",
            reason=Reason.DELETING,
            events=events_of(resource, conditions),
            retry_after=retry_delay(attempt, jitter),
            errors=(error,),
        )
    if resource.drops:
        message = "the keys are off; the schemas are set aside and dropped soon"
    else:
        message = "the keys are off; the tenant and its data are kept, suspended, for a Tenant of this name and slug"
    if resource.others:
        message += f"; payrec is done, and the resource stays until others let it go: {', '.join(resource.others)}"
    conditions = _conditions(Reason.DROPPING_SCHEMAS, message)
    if not resource.drops:
        # Nobody is to read of dropping where nothing is dropped, so Ready alone tells.
        conditions = conditions[:1]
    return Outcome(
        status=_status(resource, conditions, now=now),
        result="released",
        reason=Reason.DELETING,
        events=events_of(resource, conditions),
        release=True,
    )


async def _delete_secrets(resource: TenantResource, world: World, *, attempt: int) -> None:
    """Delete the Secrets before their keys end; after some tries the keys go first, which matters more."""
    try:
        for secret in await world.secrets.owned(resource.owner, fresh=True):
            await world.secrets.delete(resource.owner, secret.name)
    except OperatorError:
        if attempt < DELETION_SECRET_TRIES_MAX:
            raise


async def _part(resource: TenantResource, world: World, tenant: TenantState) -> None:
    if resource.drops:
        await world.registry.begin_drop(tenant.tenant_id)
    else:
        await world.registry.orphan(tenant.tenant_id)


async def _close(resource: TenantResource, world: World) -> bool:
    """Revoke the keys and leave the tenant suspended; false where that cannot be done."""
    with suppress(Exception):
        tenant = await world.registry.find(resource.owner)
        if tenant is not None:
            await _delete_secrets(resource, world, attempt=DELETION_SECRET_TRIES_MAX)
            await world.registry.orphan(tenant.tenant_id)
        return True
    return False


def _given_up(
    resource: TenantResource, why: str, *, is_closed: bool, now: datetime, error: Exception | None = None
) -> Outcome:
    message = f"the resource is let go and nothing was dropped: {why}"
    if not is_closed:
        # Nobody comes back to it, and what a resource owns nobody else may suspend or delete: so somebody has to know.
        message += "; the tenant could not be closed, and its keys may still work: make the resource again with the"
        message += " annotation payrec.dev/adopt, and delete it"
    conditions = _conditions(Reason.DROP_FAILED, message)
    return Outcome(
        status=_status(resource, conditions, now=now),
        result="released",
        reason=Reason.DELETING,
        events=[Event(type="Warning", reason=Reason.DROP_FAILED, message=message)],
        release=True,
        errors=() if error is None else (error,),
    )


def _conditions(reason: Reason, message: str) -> list[Condition]:
    """Return the conditions of a deletion; what else was there says nothing any more."""
    going = reason is Reason.DROPPING_SCHEMAS
    return [
        Condition(type="Ready", status="False", reason=Reason.DELETING, message=message),
        Condition(type="Deleting", status="True" if going else "False", reason=reason, message=message),
    ]


def _status(resource: TenantResource, conditions: list[Condition], *, now: datetime) -> Status:
    return Status(
        fields=kept_fields(resource, observed=True),
        conditions=render_conditions(resource, conditions, now=now, keep=TYPES),
    )
