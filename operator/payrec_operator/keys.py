"""API keys and their Secrets: the steps of a rotation, and what is left of keys that are no longer listed.

At no moment may a Secret hold a key that does not work. So a key is made before its Secret is written, its Secret is
deleted before it is revoked, and the overlap of a key begins only when no Secret holds it any more: an operator that
stops between two steps leaves nothing that goes bad by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from uuid import UUID

from payrec.domain.tenant_resources import StoredKey
from payrec_operator.conditions import by_type, instant
from payrec_operator.constants import SECRET_WRITES_MAX
from payrec_operator.errors import SecretConflictError, SecretsUnavailableError
from payrec_operator.passes import API_KEY, API_KEY_ID, KeyFinding, Pass
from payrec_operator.ports import KeySecret
from payrec_operator.problems import CREDENTIALS_REASONS, Problem
from payrec_operator.reasons import Reason
from payrec_operator.resources import ApiKeySpec
from payrec_operator.rotation import Decision, KeyMemory, decide, is_healthy, is_requested


async def settle_keys(state: Pass) -> frozenset[str]:
    """Look after each key; return the environments of which a Secret may still hold a key."""
    if state.secrets is None:
        return frozenset(k.environment for k in state.observation.keys)
    over: list[StoredKey] = []
    for key in state.spec.keys:
        finding = state.finding(key.name)
        with state.guarded(state.tell_key(key.name)):
            over += await _settle(state, key, finding)
    return await _sweep(state, over)


async def _settle(state: Pass, key: ApiKeySpec, finding: KeyFinding) -> list[StoredKey]:
    """Do what is to be done about one key; return those of its name that are over."""
    assert state.secrets is not None
    secret = state.secrets.get(key.secret_name)
    decision = _decision(state, key, secret, state.known(secret))
    if decision.acts:
        # Decided by a cache, which may be behind: once more by what is there now.
        secrets = await state.refresh()
        secret = secrets.get(key.secret_name) or await state.world.secrets.read(state.resource.owner, key.secret_name)
        if secret is not None and not secret.owned:
            raise SecretConflictError(_foreign(key))
        if key.environment not in state.registered:
            finding.problem = Problem(reason=Reason.KEY_STORE_UNAVAILABLE, message="waits for its environment")
            return []
        decision = _decision(state, key, secret, await state.identify(secret))
        if decision.healthy and key.secret_name not in secrets:
            # Ours, and not among those that are found as ours: writing it again makes it so.
            decision = replace(decision, rewrite=True)
    finding.deferred_until = decision.deferred_until
    _tell_wait(state, key, decision, finding)
    if decision.mint:
        await _rotate(state, key, secret, finding)
        if not decision.healthy and any(k.name == key.name for k in state.observation.keys):
            state.corrected.append("secret")
    elif decision.promote:
        held = await state.identify(secret)
        assert held is not None, "only a key that works is promoted"
        await _promote(state, key, held.key_id)
    for key_id in decision.flags:
        state.changed = True
        await state.world.registry.set_flags(state.tenant_id, key_id, read=key.read, write=key.write)
    if decision.rewrite and not decision.mint:
        assert secret is not None
        held = await state.identify(secret)
        assert held is not None
        await state.write(key.secret_name, state.data(key, key_id=held.key_id, text=secret.data[API_KEY]), seen=secret)
        state.corrected.append("secret")
    return [k for k in state.observation.keys if k.key_id in decision.collect]


async def _rotate(state: Pass, key: ApiKeySpec, secret: KeySecret | None, finding: KeyFinding) -> None:
    """Make a key, write it, and let the overlap of the one before begin."""
    finding.attempted = state.changed = True
    minted = await state.world.registry.mint(
        state.tenant_id, name=key.name, environment=key.environment, read=key.read, write=key.write
    )
    data = state.data(key, key_id=minted.key_id, text=minted.text)
    if await _replace(state, key, secret, data):
        await _promote(state, key, minted.key_id)
        finding.rotated = True
    finding.attempted = False


async def _replace(state: Pass, key: ApiKeySpec, secret: KeySecret | None, data: dict[str, str]) -> bool:
    """Write a Secret over the one that was seen; false where somebody else has put a newer working key there."""
    before = await state.identify(secret)
    for _ in range(SECRET_WRITES_MAX):
        try:
            await state.write(key.secret_name, data, seen=secret)
        except SecretConflictError:
            secret = await state.world.secrets.read(state.resource.owner, key.secret_name)
        else:
            return True
        if secret is None:
            continue
        if not secret.owned:
            raise SecretConflictError(_foreign(key))
        state.remember(secret)
        held = await state.identify(secret)
        if held != before and is_healthy(key, held, secret.data.get(API_KEY_ID)):
            return False  # ours is collected, as all that are in no Secret
    raise SecretsUnavailableError(f"Secret {key.secret_name} changes while it is written")


async def _promote(state: Pass, key: ApiKeySpec, key_id: UUID) -> None:
    """Make the Secret's key the active one, once no other Secret holds one that is going to end."""
    if any(k.name == key.name and k.state == "active" and k.key_id != key_id for k in state.observation.keys):
        for other in list((await state.refresh()).values()):
            held = await state.identify(other)
            if other.name != key.secret_name and held is not None and held.name == key.name:
                await state.delete(other.name)
    state.changed = True
    await state.world.registry.promote(state.tenant_id, key_id, retire_until=state.now + key.overlap)


async def _sweep(state: Pass, over: Sequence[StoredKey]) -> frozenset[str]:
    """Delete Secrets that have no place, then revoke what is over or no longer listed.

    Returns the environments of which a Secret may still hold a key.
    """
    assert state.secrets is not None
    listed = {k.name: k for k in state.spec.keys}
    homes = {k.secret_name for k in state.spec.keys}
    going = state.registered & {e.name for e in state.spec.absent}
    unlisted = [k for k in state.observation.keys if k.name not in listed]
    if not (over or unlisted or going or any(name not in homes for name in state.secrets)):
        return frozenset()
    blocked = frozenset(k.environment for k in state.observation.keys)
    with state.guarded(state.tell_credentials):
        for secret in list((await state.refresh()).values()):
            with state.guarded(state.tell_credentials):
                held = await state.identify(secret)
                is_over = held is not None and (held.name not in listed or held.environment in going)
                if is_over or await _is_astray(state, secret, held, homes):
                    await state.delete(secret.name)
        still = [key for s in state.secrets.values() if (key := await state.identify(s)) is not None]
        blocked = frozenset(k.environment for k in still)
        ids = {k.key_id for k in still}
        ended = [k.key_id for k in (*over, *unlisted) if k.key_id not in ids]
        if ended:
            state.changed = True
            await state.world.registry.revoke(state.tenant_id, ended)
    return blocked


async def _is_astray(state: Pass, secret: KeySecret, held: StoredKey | None, homes: AbstractSet[str]) -> bool:
    """Tell whether a Secret is one that no key names, and no key needs any more."""
    if secret.name in homes or held is None:
        return secret.name not in homes
    # The key has got another Secret: this one stays until that one works.
    key = next(k for k in state.spec.keys if k.name == held.name)
    home = (state.secrets or {}).get(key.secret_name)
    return home is not None and is_healthy(key, await state.identify(home), home.data.get(API_KEY_ID))


def _decision(state: Pass, key: ApiKeySpec, secret: KeySecret | None, held: StoredKey | None) -> Decision:
    data = secret.data if secret is not None else None
    expected = None
    if held is not None and data is not None:
        expected = state.data(key, key_id=held.key_id, text=data[API_KEY])
    memory = state.memories.get(key.name, KeyMemory())
    requests = state.resource.rotation_requests(key.name)
    is_asked_anew = all(is_requested(requests, known) for known in (memory.rotation_request, memory.failed_request))
    if is_asked_anew or state.resource.status.get("observedGeneration") != state.resource.generation:
        # The resource has been corrected since it failed, or asks again, so the next try is now.
        memory = replace(memory, last_failure_at=None)
    return decide(
        key,
        held=held,
        data=data,
        expected=expected,
        keys=[k for k in state.observation.keys if k.name == key.name],
        memory=memory,
        requests=requests,
        uid=state.resource.owner.uid,
        now=state.now,
    )


def _tell_wait(state: Pass, key: ApiKeySpec, decision: Decision, finding: KeyFinding) -> None:
    """Say again why the last try failed, so that the status stays as it is until the next."""
    if decision.failed_until is not None:
        before = by_type(state.resource.status.get("conditions")).get("CredentialsReady", {})
        known = [r for r in CREDENTIALS_REASONS if r == before.get("reason")]
        finding.waiting_until = decision.failed_until
        finding.problem = Problem(
            reason=known[0] if known else Reason.KEY_STORE_UNAVAILABLE,
            message=state.memories[key.name].message or "the last try failed",
        )
    elif decision.crowded_until is not None:
        finding.waiting_until = decision.crowded_until
        finding.problem = Problem(
            reason=Reason.KEY_STORE_UNAVAILABLE,
            message="many keys of this name were made in a short time and still work; the next one is made at "
            + instant(decision.crowded_until),
        )


def _foreign(key: ApiKeySpec) -> str:
    return f"Secret {key.secret_name} is there and this Tenant does not control it: delete it or choose another name"
