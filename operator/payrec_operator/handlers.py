"""The kopf shell: each handler hands a Tenant to the runner, and what came of it to kopf. No decision is made here.

Handlers return nothing, because kopf would write what they return into the status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import kopf

from payrec_operator.constants import FINALIZER
from payrec_operator.errors import OperatorError
from payrec_operator.outcome import Outcome
from payrec_operator.patience import Patience
from payrec_operator.resources import PREFIX
from payrec_operator.runner import PASS_SECONDS_MAX, Trigger, seconds_until_next
from payrec_operator.secrets import controlled_by, owner_name
from payrec_operator.startup import GROUP, PLURAL, VERSION, Operator, configure, drop_tombstones, start_or_exit

TENANTS: Final = (GROUP, VERSION, PLURAL)
SECRETS: Final = ("v1", "secrets")

RELEASE_SECONDS_MAX: Final = 30.0
"""Longest wait between two tries at a deletion, so that an annotation that ends the matter is seen soon."""

STUCK_SECONDS: Final = PASS_SECONDS_MAX * 2
"""Age of a pass from which on the process counts as stuck: every pass is ended long before."""

NUDGE_SECONDS: Final = 60.0
"""Time without news of a Tenant that is being deleted, after which kopf is made to look at it again."""

_TIMER_JITTER: Final = 0.5
"""Part of the period within which the first turn of a timer falls, so that not all Tenants are looked at together."""


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def open_operator(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Open everything, and begin what goes on by itself."""
    configure(settings)
    operator = await start_or_exit()
    memo.operator = operator
    settings.networking.error_backoffs = Patience(operator.runner.note_refusal)
    memo.tasks = [asyncio.create_task(drop_tombstones(operator), name="tombstones")]
    memo.due, memo.leaving = {}, {}
    # Its period is a setting, which nobody reads at import.
    period = float(operator.settings.resync_interval)
    chance = operator.runner.chance
    kopf.timer(
        *TENANTS,
        id="resync",
        interval=period,
        initial_delay=lambda **_: period * (1 - _TIMER_JITTER * chance()),
    )(look_again)


@kopf.on.cleanup()
async def close_operator(memo: kopf.Memo, **_: Any) -> None:
    """End what goes on, and close everything."""
    for task in memo.get("tasks", ()):
        task.cancel()
    if "operator" in memo:
        await memo.operator.close()


@kopf.on.probe(id="passes", errors=kopf.ErrorsMode.PERMANENT)
async def end_passes(memo: kopf.Memo, **_: Any) -> str:
    """Fail when passes no longer end: then only a new process helps."""
    stuck = memo.operator.runner.stuck_seconds
    if stuck > STUCK_SECONDS:
        raise kopf.PermanentError(f"a pass has been running for {stuck:.0f} s")
    return "ok"


@kopf.on.probe(id="database", errors=kopf.ErrorsMode.PERMANENT)
async def reach_database(memo: kopf.Memo, **_: Any) -> str:
    """Say whether the database answers; a process whose database is away must not be ended for it."""
    state: str = await memo.operator.database_state()
    return state


def is_asked(diff: kopf.Diff, **_: Any) -> bool:
    """Tell whether a change is one of the spec or of our annotations; others' annotations and labels are theirs."""
    return any(_concerns_us(change) for change in diff)


def _concerns_us(change: Any) -> bool:
    _, field, old, new = change
    if not field or field[0] == "spec":
        return True
    # Where there is no annotation yet, or the last one went, kopf tells of all annotations, or of all metadata.
    place = ("metadata", "annotations")
    if field[:2] != place[: len(field)]:
        return False
    sides = [old, new]
    for name in place[len(field) :]:
        sides = [(side or {}).get(name) for side in sides]
    names = field[2:3] or {name for side in sides for name in side or ()}
    return any(name.startswith(PREFIX) for name in names)


@kopf.on.resume(*TENANTS, id="tenant", deleted=False)
@kopf.on.create(*TENANTS, id="tenant")
@kopf.on.update(*TENANTS, id="tenant", when=is_asked)
async def reconcile_tenant(body: kopf.Body, patch: kopf.Patch, memo: kopf.Memo, **_: Any) -> None:
    """Look at a Tenant that is new, has changed, or was there when the operator began."""
    outcome = await memo.operator.runner.run("change", body)
    _hand_over(memo, body, patch, outcome)
    if outcome is not None and outcome.retry_after is not None:
        raise kopf.TemporaryError(str(outcome.reason), delay=outcome.retry_after.total_seconds())


async def look_again(body: kopf.Body, memo: kopf.Memo, **_: Any) -> None:
    """Look at a Tenant of which nothing has been heard for a while.

    Nothing is left to kopf to write: a patch that is refused ends its timer, and that Tenant would have none any more.
    """
    await _look(memo, "timer", body)


@kopf.on.delete(*TENANTS, id="tenant")
async def release_tenant(body: kopf.Body, patch: kopf.Patch, memo: kopf.Memo, **_: Any) -> None:
    """Let a Tenant go, once its deletion is dealt with."""
    outcome = await memo.operator.runner.run("delete", body)
    _hand_over(memo, body, patch, outcome)
    if outcome is not None and not outcome.release:
        wait = outcome.retry_after.total_seconds() if outcome.retry_after is not None else RELEASE_SECONDS_MAX
        raise kopf.TemporaryError(str(outcome.reason), delay=min(wait, RELEASE_SECONDS_MAX))


@kopf.on.event(*TENANTS)
async def hear_of_tenant(type: str | None, body: kopf.Body, memo: kopf.Memo, **_: Any) -> None:  # noqa: A002 - kopf's
    """Note a Tenant that is gone, or is on its way; one that only others hold any more is gone to us."""
    place = _place(body)
    if type == "DELETED" or _is_left_to_others(body):
        _forget(memo, place[2])
    elif body["metadata"].get("deletionTimestamp"):
        _cancel(memo.leaving, place[2])
        memo.leaving[place[2]] = asyncio.create_task(_see_off(memo, place), name=f"leaving {place[1]}")


@kopf.on.event(*SECRETS)
async def hear_of_secret(type: str | None, body: kopf.Body, memo: kopf.Memo, **_: Any) -> None:  # noqa: A002 - kopf's
    """Note a Secret as it is, and look at its Tenant where somebody else has changed or deleted it.

    Not an index of kopf's: that waits for every object to be seen before it lets any of them go on.
    """
    operator: Operator = memo.operator
    if type == "DELETED":
        operator.cache.forget(body)
    else:
        operator.cache.put(body)
    if type is None:
        return
    metadata = body["metadata"]
    uid, name = controlled_by(metadata), owner_name(metadata)
    if uid is not None and name is not None and not operator.cache.is_ours(body, gone=type == "DELETED"):
        await _look_aside(memo, "secret", (metadata["namespace"], name, uid))


def _hand_over(memo: kopf.Memo, body: Mapping[str, Any], patch: kopf.Patch, outcome: Outcome | None) -> None:
    """Give a pass's status and events to kopf, which tries again by itself what failed."""
    if outcome is None:
        return
    operator: Operator = memo.operator
    if outcome.status is not None:
        patch.fns.append(partial(operator.runner.write_status, body["metadata"]["uid"]))
    _tell(body, outcome)
    _come_back(memo, _place(body), replace(outcome, retry_after=None))


def _is_left_to_others(body: Mapping[str, Any]) -> bool:
    """Tell whether a Tenant is being deleted, and what keeps it there is not ours."""
    metadata = body["metadata"]
    return bool(metadata.get("deletionTimestamp")) and FINALIZER not in (metadata.get("finalizers") or ())


def _place(body: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = body["metadata"]
    return metadata["namespace"], metadata["name"], metadata["uid"]


def _tell(body: Mapping[str, Any], outcome: Outcome) -> None:
    for event in outcome.events:
        kopf.event(body, type=event.type, reason=str(event.reason), message=event.message)  # type: ignore[arg-type]


def _come_back(memo: kopf.Memo, place: tuple[str, str, str], outcome: Outcome) -> None:
    """See to another pass where something is due before the timer comes by."""
    operator: Operator = memo.operator
    _cancel(memo.due, place[2])
    now, period = operator.factory.context.clock.now(), float(operator.settings.resync_interval)
    wait = seconds_until_next(outcome, now, within=period)
    if wait is not None and not outcome.release:
        # The context goes along, and with it what kopf needs to post events.
        memo.due[place[2]] = asyncio.create_task(_look_later(memo, place, wait), name=f"due {place[1]}")


def _cancel(tasks: dict[str, asyncio.Task[None]], uid: str) -> None:
    task = tasks.pop(uid, None)
    if task is not None and task is not asyncio.current_task():
        task.cancel()


async def _look_later(memo: kopf.Memo, place: tuple[str, str, str], seconds: float) -> None:
    await asyncio.sleep(seconds)
    await _look_aside(memo, "wake", place)


async def _see_off(memo: kopf.Memo, place: tuple[str, str, str]) -> None:
    """Have kopf look again at a Tenant that is being deleted, until we have let it go.

    kopf tries for a minute to send what came of an event, and then waits for the next one. A Tenant that is being
    deleted has no timer, so it would stay for ever; nor does every watch tell of its end.
    """
    operator: Operator = memo.operator
    while True:
        await asyncio.sleep(NUDGE_SECONDS)
        try:
            body = await operator.statuses.read(*place)
            if body is None or _is_left_to_others(body):
                _forget(memo, place[2])
                return
            await operator.statuses.nudge(body)
        except OperatorError as error:
            operator.runner.note(error, place)


def _forget(memo: kopf.Memo, uid: str) -> None:
    """Forget a Tenant that is gone."""
    operator: Operator = memo.operator
    operator.cache.forget_tenant(uid)
    operator.runner.forget(uid)
    for tasks in (memo.due, memo.leaving):
        _cancel(tasks, uid)


async def _look_aside(memo: kopf.Memo, trigger: Trigger, place: tuple[str, str, str]) -> None:
    """Make a pass that is not about an event of the Tenant itself, which is read by ourselves."""
    operator: Operator = memo.operator
    try:
        body = await operator.statuses.read(*place)
    except OperatorError as error:
        operator.runner.note(error, place)
    else:
        if body is not None:
            await _look(memo, trigger, body)


async def _look(memo: kopf.Memo, trigger: Trigger, body: Mapping[str, Any]) -> None:
    """Make a pass of which the status is written by ourselves.

    kopf puts the finalizer on a Tenant before it has anything done. Where it could not yet, this comes first: what was
    made for a Tenant without one would stay, its keys at work, when the Tenant is deleted.
    """
    operator: Operator = memo.operator
    obstacle: OperatorError | None = None
    try:
        held = await operator.statuses.hold(body)
        if held is None:
            return
        body = held
    except OperatorError as error:
        obstacle = error
    outcome = await operator.runner.run(trigger, body, obstacle)
    if outcome is None:
        return
    place = _place(body)
    _tell(body, outcome)
    _come_back(memo, place, outcome)
    if outcome.status is None:
        return
    try:
        await operator.statuses.write(dict(body), partial(operator.runner.write_status, place[2]))
    except OperatorError as error:
        operator.runner.note(error, place)
