"""Any order of changes, crashes, errors, hands that interfere and time: it converges, and harms nobody."""

from __future__ import annotations

import copy
import random
from collections import Counter
from datetime import timedelta
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from payrec.domain.scope import schema_name
from support.operator_faults import Fault, Plan
from support.operator_registry import HEAD, Schema
from support.operator_secrets import Place
from support.operator_world import OperatorWorld

ENVIRONMENTS = ("production", "test", "staging")
KEYS = ("ledger", "probe")
SECRETS = ("one", "two", "three")
HANDS = ("revoke", "edit", "id", "remove", "disown", "unlabel", "base-url")
PASSES_MAX = 80
"""Passes within which everything has to be at rest once nothing fails."""

WAITS = (
    timedelta(seconds=20),
    timedelta(minutes=11),
    timedelta(minutes=40),
    timedelta(hours=3),
    timedelta(days=2),
    timedelta(days=40),
)

CALLS = (
    *("secrets.owned", "secrets.list", "secrets.read", "secrets.write", "secrets.delete", "observe", "find"),
    *("claim", "apply", "sync_users", "ensure_environment", "set_environment_suspended", "mint", "promote"),
)
RARE_CALLS = ("identify", "set_flags", "revoke", "orphan", "begin_drop", "drop_environment")
"""Those of few passes: ``test_crashes`` has each of their steps fail."""

STEPS = tuple(step for call in (*CALLS, *RARE_CALLS) for step in (call, f"behind {call}"))
FAULTS: tuple[Fault, Fault] = ("crash", "error")
KINDS = (
    *("reconciled", "paused", "stopped", "failed", "released", "adopted", "dropped"),
    *("SecretRotated", "OverlapActive", "SecretConflict", "SchemaConflict", "SchemaNotOwned", "UsernameConflict"),
    *("DatabaseUnavailable", "KeyStoreUnavailable", "DroppingSchemas"),
    *(f"fault in {call}" for call in CALLS),
)
"""What has to happen for walks to say anything."""

seeds = st.integers(0, 2**32 - 1)
"""Of a pass: Hypothesis takes the same few of many values again and again, so dice choose what fails."""

soon = st.one_of(st.none(), seeds)
"""Of a pass right after a change; None where there is no such pass."""

names = st.sampled_from(("acme", "globex"))
flags = st.booleans()
schemas = st.tuples(names, st.sampled_from(ENVIRONMENTS))
makers = st.sampled_from(["nobody", "somebody"])


@st.composite
def specs(draw: st.DrawFn, slug: str) -> dict[str, Any]:
    """Return a spec that the resource's definition accepts."""
    policy = draw(st.sampled_from(["Retain", "Delete"]))
    ensures = ["present", "present", "absent"] if policy == "Delete" else ["present"]
    listed = draw(st.lists(st.sampled_from(ENVIRONMENTS), min_size=1, unique=True))
    environments = [
        {"name": name, "ensure": draw(st.sampled_from(ensures)), "suspended": draw(flags)} for name in listed
    ]
    names = draw(st.lists(st.sampled_from(KEYS), unique=True))
    secrets = draw(st.permutations(SECRETS))
    rotations = [None, {"interval": "2h", "overlap": "30m"}, {"interval": "720h"}]
    keys = [
        {
            "name": name,
            "environment": draw(st.sampled_from(listed)),
            "secretName": secret,
            "permissions": draw(st.sampled_from([["read"], ["read", "write"]])),
            "rotation": draw(st.sampled_from(rotations)),
        }
        for name, secret in zip(names, secrets, strict=False)
    ]
    users = [{"username": u, "roles": ["viewer"]} for u in draw(st.lists(st.sampled_from("ab"), unique=True))]
    return {
        "slug": slug,
        "environments": environments,
        "apiKeys": keys,
        "users": users,
        "suspended": draw(flags),
        "deletionPolicy": policy,
    }


def homes_of(body: dict[str, Any]) -> set[str]:
    """Return the Secrets that keys of a Tenant name whose environments are to be there; none of one that is going."""
    if "deletionTimestamp" in body["metadata"]:
        return set()
    spec = body["spec"]
    present = {e["name"] for e in spec["environments"] if e["ensure"] == "present"}
    return {k["secretName"] for k in spec["apiKeys"] if k["environment"] in present}


class AnyOrder(RuleBasedStateMachine):
    """Two Tenants in one namespace, which has Secrets of others; one database, which has schemas of others."""

    met: ClassVar[Counter[str]] = Counter()
    """What has happened in all walks."""

    @initialize(name=names, foreign=st.dictionaries(schemas, makers, max_size=4), adopts=flags, data=st.data())
    def begin(self, name: str, foreign: dict[tuple[str, str], str], adopts: bool, data: st.DataObject) -> None:  # noqa: FBT001
        self.world = OperatorWorld()
        self.foreign_secrets: dict[Place, dict[str, str]] = {}
        self.places: dict[str, Place] = {}
        self.requests = self.plans = 0
        for (slug, environment), maker in foreign.items():
            self.put_foreign_schema(slug, environment, maker)
        self.write_spec(name, None, data)
        self.annotate(name, "adopt", adopts)

    # What people do with resources

    @rule(name=names, seed=soon, data=st.data())
    def write_spec(self, name: str, seed: int | None, data: st.DataObject) -> None:
        spec = data.draw(specs(name))
        if name in self.places:
            self.world.change(self.places[name], **spec)
            self._excuse_what_is_not_found()
        else:
            self.places[name] = self.world.create(spec, name=name)
        self._run_soon(name, seed)

    @rule(name=names, verb=st.sampled_from(["rotate", "rotate.ledger", "rotate.probe"]), ask=flags, seed=soon)
    def ask_for_rotation(self, name: str, verb: str, ask: bool, seed: int | None) -> None:  # noqa: FBT001
        if name in self.places:
            self.requests += 1
            self.world.annotate(self.places[name], verb, str(self.requests) if ask else None)
            self._run_soon(name, seed)

    @rule(name=names, verb=st.sampled_from(["paused", "adopt"]), on=flags)
    def annotate(self, name: str, verb: str, on: bool) -> None:  # noqa: FBT001 - hypothesis draws it
        if name in self.places:
            self.world.annotate(self.places[name], verb, "true" if on else None)

    @rule(name=names, seed=soon)
    def delete(self, name: str, seed: int | None) -> None:
        if name in self.places:
            self.world.delete(self.places[name])
            self._excuse_what_is_not_found()
            self._run_soon(name, seed)

    # What hands and others do

    @rule(secret=st.sampled_from(SECRETS), what=st.sampled_from(HANDS))
    def interfere(self, secret: str, what: str) -> None:
        place = ("shop", secret)
        text = self.world.text(place)
        if text is None or (place in self.foreign_secrets and what != "remove"):
            return
        if what == "revoke" and text in self.world.registry.keys:
            self.world.revoke(text)
        elif what == "edit":
            self.world.edit(place, api_key="something")
        elif what == "id":
            self.world.edit(place, api_key_id="something")
        elif what == "base-url":
            self.world.edit(place, base_url="something")
        elif what == "unlabel":
            self.world.secrets.unlabel(place)
            self._excuse_what_is_not_found()
        elif what == "remove":
            self.world.remove(place)
            self.foreign_secrets.pop(place, None)
        elif what == "disown":
            self.world.secrets.disown(place)
            self.world.excused.add(text)
            self.foreign_secrets[place] = dict(self.world.secrets.stored[place].data)

    @rule(secret=st.sampled_from(SECRETS))
    def put_foreign_secret(self, secret: str) -> None:
        place = ("shop", secret)
        if place not in self.world.secrets.stored:
            self.world.secrets.put(place, None, {"api-key": "not ours"})
            self.foreign_secrets[place] = {"api-key": "not ours"}

    @rule(name=names, environment=st.sampled_from(ENVIRONMENTS), maker=makers)
    def put_foreign_schema(self, name: str, environment: str, maker: str) -> None:
        schema = schema_name(name, environment)
        if schema not in self.world.registry.schemas:
            self.world.registry.schemas[schema] = Schema(maker)

    @rule(name=names, environment=st.sampled_from(ENVIRONMENTS))
    def drop_schema(self, name: str, environment: str) -> None:
        self.world.registry.schemas.pop(schema_name(name, environment), None)

    @rule(name=names, username=st.sampled_from("ab"))
    def add_user(self, name: str, username: str) -> None:
        registry = self.world.registry
        tenant = next((t for t in registry.tenants.values() if t.slug == name), None)
        if tenant is not None and username not in registry.users:
            registry.take_username(tenant, username)

    @rule(wait=st.sampled_from(WAITS))
    def wait(self, wait: timedelta) -> None:
        self.world.advance(wait)

    # What the operator does

    @rule(name=names, seed=seeds, fresh=flags, lost=flags)
    def fail(self, name: str, seed: int, fresh: bool, lost: bool) -> None:  # noqa: FBT001 - hypothesis draws it
        if name in self.places:
            if fresh:
                self.world.secrets.catch_up()
            self._run(name, self._plan(seed), lost=lost)

    @rule(name=names, fresh=flags)
    def succeed(self, name: str, fresh: bool) -> None:  # noqa: FBT001 - hypothesis draws it
        if name in self.places:
            if fresh:
                self.world.secrets.catch_up()
            self._run(name, {})

    @precondition(lambda self: self.places)
    @rule(seed=soon)
    def settle(self, seed: int | None) -> None:
        for name in list(self.places):
            self._run_soon(name, seed)
            if name in self.places:
                self._settle(name)

    @invariant()
    def others_things_are_as_they_were(self) -> None:
        if hasattr(self, "world"):
            for place, data in self.foreign_secrets.items():
                assert self.world.secrets.stored[place].data == data
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.settle(None)

    def _excuse_what_is_not_found(self) -> None:
        """A Secret without its label is found by its name alone: where no key names it, it stays when its key ends."""
        bodies = [self.world.objects[place] for place in self.places.values()]
        homes = {body["metadata"]["uid"]: homes_of(body) for body in bodies}
        for (_, secret), stored in self.world.secrets.stored.items():
            if not stored.labelled and stored.owner in homes and secret not in homes[stored.owner]:
                self.world.excused.add(stored.data["api-key"])

    def _run_soon(self, name: str, seed: int | None) -> None:
        if seed is not None:
            self._run(name, self._plan(seed))

    def _plan(self, seed: int) -> Plan:
        """Return what fails: a call or two, before or behind what it does."""
        self.plans += 1
        dice = random.Random(f"{seed} {self.plans} {self.world.writes}")  # noqa: S311 - the same each time, no secret
        return {step: dice.choice(FAULTS) for step in dice.sample(STEPS, dice.choice([1, 1, 2, 3]))}

    def _run(self, name: str, plan: Plan, *, lost: bool = False) -> Any:
        """Make a pass, and look that it has dropped nothing but what it was told to."""
        place, registry = self.places[name], self.world.registry
        body = copy.deepcopy(self.world.objects[place])
        others = {n: s.maker for n, s in registry.schemas.items() if s.maker in ("nobody", "somebody")}
        dropped = len(registry.dropped)
        outcome = self.world.run(place, plan, lost=lost)
        self.met.update(f"fault in {call}" for call in self.world.faults.met)
        if outcome is not None:
            self.met.update([outcome.result, *(event.reason for event in outcome.events)])
        self.met["dropped"] += len(registry.dropped) - dropped
        deletes = body["spec"]["deletionPolicy"] == "Delete"
        going = deletes and "deletionTimestamp" in body["metadata"]
        absent = {e["name"] for e in body["spec"]["environments"] if e["ensure"] == "absent"}
        allowed = {schema_name(name, e) for e in (ENVIRONMENTS if going else absent)}
        assert set(registry.dropped[dropped:]) <= allowed
        adopts = body["metadata"]["annotations"].get("payrec.dev/adopt") == "true"
        registered = {schema_name(t.slug, e) for t in registry.tenants.values() for e in t.environments}
        for schema, maker in others.items():
            taken = maker == "nobody" and schema.startswith(name) and (adopts or schema in registered)
            assert taken or registry.schemas[schema].maker == maker
            self.met["adopted"] += registry.schemas[schema].maker != maker
        if place not in self.world.objects:
            del self.places[name]
        return outcome

    def _settle(self, name: str) -> None:
        """Let nothing fail: everything comes to rest, and is as the resource says."""
        for _ in range(PASSES_MAX):
            written = self.world.writes
            self.world.secrets.catch_up()
            outcome = self._run(name, {})
            if name not in self.places:
                return
            place = self.places[name]
            if outcome.result == "paused":
                return
            keys = self.world.status(place).get("apiKeys", [])
            waiting = any("failedAttempts" in k or "is made at" in k.get("message", "") for k in keys)
            if outcome.retry_after is not None:
                self.world.advance(outcome.retry_after)
            elif waiting and outcome.wake_at is not None and outcome.wake_at > self.world.now:
                self.world.advance(outcome.wake_at - self.world.now)
            elif self.world.writes == written:
                break
        else:
            raise AssertionError(f"not at rest: {self.world.status(place)}")
        before = copy.deepcopy(self.world.objects[place])
        again = self._run(name, {})
        assert (self.world.writes, self.world.objects[place]) == (written, before)
        assert again.events == []
        self._check_result(name)

    def _check_result(self, name: str) -> None:
        world, place = self.world, self.places[name]
        body = world.objects[place]
        spec, uid = body["spec"], body["metadata"]["uid"]
        if world.condition(place, "Ready") == ("False", "SlugConflict"):
            return
        tenant = next(t for t in world.registry.tenants.values() if t.owner == uid)
        present = {e["name"]: e for e in spec["environments"] if e["ensure"] == "present"}
        for environment, wanted in present.items():
            schema = world.registry.schemas[schema_name(name, environment)]
            state = world.states(place)[environment]
            if schema.maker != f"tenant:{tenant.tenant_id}":
                assert state == "Failed"
                continue
            closed = wanted["suspended"] or spec["suspended"]
            assert (schema.revision, state) == (HEAD, "Suspended" if closed else "Applied")
        absent = {e["name"] for e in spec["environments"]} - set(present)
        assert not absent & set(tenant.environments)
        listed = {k["name"]: k for k in spec["apiKeys"] if k["environment"] in present}
        for key in world.registry.keys.values():
            if world.registry.tenant_of[key.key_id] == tenant.tenant_id and key.state != "revoked":
                assert key.name in listed
        for key in listed.values():
            self._check_key(place, tenant.environments, key, uid)
        homes = homes_of(body)
        for (_, secret), stored in world.secrets.stored.items():
            if stored.owner == uid and stored.labelled and secret not in homes:
                # The key's new Secret cannot be written, so the one before stays, with a key that works.
                assert world.registry.is_alive(stored.data["api-key"])
                assert world.condition(place, "CredentialsReady") != ("True", "SecretsSynced")

    def _check_key(self, place: Place, environments: dict[str, str], key: dict[str, Any], uid: str) -> None:
        world = self.world
        stored = world.secrets.stored.get((place[0], key["secretName"]))
        if stored is not None and stored.owner != uid:
            assert world.condition(place, "CredentialsReady") == ("False", "SecretConflict")
            return
        if environments.get(key["environment"], "provisioning") == "provisioning":
            assert world.condition(place, "SchemasReady") != ("True", "SchemasApplied")
            if key["environment"] not in environments:
                assert world.key(place, key["name"])["message"]
                assert world.condition(place, "CredentialsReady") != ("True", "SecretsSynced")
                return
        assert stored is not None
        held = world.registry.keys[stored.data["api-key"]]
        assert (held.state, held.name, held.environment) == ("active", key["name"], key["environment"])
        assert (held.read, held.write) == ("read" in key["permissions"], "write" in key["permissions"])
        assert stored.data["api-key-id"] == str(held.key_id) == world.key(place, key["name"])["currentKeyId"]
        assert stored.data["base-url"] == "https://payrec.example"


def test_everything_in_any_order_converges_and_harms_nobody() -> None:
    AnyOrder.met.clear()
    run_state_machine_as_test(AnyOrder, settings=settings(max_examples=500, stateful_step_count=40))
    assert (+AnyOrder.met).keys() >= set(KINDS)
