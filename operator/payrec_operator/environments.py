"""Environments: those that are to be there are made or mended, those that are to be gone are dropped.

One that the resource no longer lists is left as it is: only ``ensure: absent`` drops.
"""

from __future__ import annotations

from payrec.errors import RevisionAheadError
from payrec_operator.passes import Pass
from payrec_operator.problems import problem_of
from payrec_operator.resources import EnvironmentSpec


async def settle_environments(state: Pass) -> None:
    """Make what is not there, mend what is not sound, open and close."""
    for wanted in state.spec.present:
        with state.guarded(state.tell_environment(wanted.name)):
            await _settle(state, wanted)


async def drop_environments(state: Pass, blocked: frozenset[str]) -> None:
    """Drop what is to be gone, after its keys: ``blocked`` are environments of which a key may still be in a Secret."""
    registered = {e.environment for e in state.observation.tenant.environments}
    for wanted in state.spec.absent:
        if wanted.name not in registered or wanted.name in blocked:
            continue
        with state.guarded(state.tell_environment(wanted.name)):
            state.changed = True
            await state.world.registry.drop_environment(state.tenant_id, wanted.name)


async def _settle(state: Pass, wanted: EnvironmentSpec) -> None:
    observation, registry = state.observation, state.world.registry
    found = next((e for e in observation.tenant.environments if e.environment == wanted.name), None)
    if found is None or found.status == "provisioning" or wanted.name not in observation.sound:
        state.changed = True
        try:
            made = await registry.ensure_environment(state.tenant_id, wanted.name, adopt=state.resource.adopting)
        except RevisionAheadError as error:
            # The newer tables are served as they are, so whether they are open is still ours to say.
            state.environments[wanted.name] = problem_of(error)
        else:
            # Migrations belong to a new release; only what somebody has undone counts as corrected.
            state.corrected += [kind for kind in made.corrected if kind != "migration"]
            found = made
            state.registered.add(wanted.name)
    elif wanted.name in observation.ahead:
        state.environments[wanted.name] = problem_of(RevisionAheadError())
    if found is not None and found.status != "provisioning" and (found.status == "suspended") != wanted.suspended:
        state.changed = True
        await registry.set_environment_suspended(state.tenant_id, wanted.name, suspended=wanted.suspended)
