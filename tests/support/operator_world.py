"""A world in memory for the operator's decisions: Tenant objects, their Secrets, the registry, a clock."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from payrec_operator.conditions import by_type
from payrec_operator.outcome import Outcome
from payrec_operator.passes import API_KEY
from payrec_operator.ports import World
from payrec_operator.reconcile import reconcile
from payrec_operator.resources import TenantResource, by_name
from support.operator_faults import Crash, Faults, Plan, drive
from support.operator_registry import MemoryRegistry
from support.operator_secrets import MemorySecrets, Place

BASE_URL = "https://payrec.example"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def make_key(name: str = "ledger", environment: str = "production", **changed: Any) -> dict[str, Any]:
    """Return an entry of ``spec.apiKeys``."""
    key = {"name": name, "environment": environment, "secretName": f"{name}-key", "permissions": ["read", "write"]}
    return {**key, **changed}


def make_spec(slug: str = "acme", **changed: Any) -> dict[str, Any]:
    """Return a spec of two environments and one key that rotates."""
    rotation = {"interval": "720h", "overlap": "24h"}
    return {
        "slug": slug,
        "environments": [{"name": "production"}, {"name": "test"}],
        "apiKeys": [make_key(rotation=rotation)],
        **changed,
    }


class OperatorWorld:
    """Everything that is outside of the decisions, and the invariant that holds at each moment."""

    def __init__(self) -> None:
        self.now = START
        self.faults = Faults(self.check)
        self.registry = MemoryRegistry(self.faults, lambda: self.now)
        self.secrets = MemorySecrets(self.faults)
        self.world = World(registry=self.registry, secrets=self.secrets, base_url=BASE_URL)
        self.objects: dict[Place, dict[str, Any]] = {}
        self.attempts: dict[Place, int] = {}
        self.excused: set[str] = set()
        """Texts that ended by somebody's hand, or were put by hand where they are."""
        self.patches = 0
        self._uids = itertools.count(1)

    @property
    def writes(self) -> int:
        """Everything that was changed anywhere."""
        return self.registry.writes + self.secrets.writes + self.patches

    def create(
        self, spec: Mapping[str, Any], *, name: str = "acme", namespace: str = "shop", **annotations: str
    ) -> Place:
        """Create a Tenant object; annotations without their prefix, ``_`` for what a name cannot have."""
        place = (namespace, name)
        self.objects[place] = {
            "metadata": {
                "uid": f"uid-{next(self._uids)}",
                "namespace": namespace,
                "name": name,
                "generation": 1,
                "annotations": {f"payrec.dev/{verb}": value for verb, value in annotations.items()},
            },
            "spec": copy.deepcopy(dict(spec)),
        }
        return place

    def change(self, place: Place, **changed: Any) -> None:
        """Change fields of the spec."""
        body = self.objects[place]
        if body["spec"] != (spec := {**body["spec"], **copy.deepcopy(changed)}):
            body["spec"] = spec
            body["metadata"]["generation"] += 1

    def annotate(self, place: Place, verb: str, value: str | None) -> None:
        """Set or remove one of our annotations."""
        annotations = self.objects[place]["metadata"]["annotations"]
        annotations.pop(f"payrec.dev/{verb}", None)
        if value is not None:
            annotations[f"payrec.dev/{verb}"] = value

    def delete(self, place: Place) -> None:
        """Delete the object; it goes once the operator lets it."""
        self.objects[place]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"

    def run(self, place: Place, plan: Plan | None = None, *, lost: bool = False) -> Outcome | None:
        """Make one pass; None where it crashed. The status is written unless ``lost``; the object goes when it may."""
        body = self.objects[place]
        self.faults.begin(plan or {})
        resource = TenantResource.parse(copy.deepcopy(body))
        attempt = self.attempts.get(place, 0)
        try:
            outcome = drive(reconcile(resource, self.world, now=self.now, attempt=attempt, jitter=0.5))
        except Crash:
            return None
        finally:
            self.check()
        if lost:
            return outcome
        self.attempts[place] = attempt + 1 if outcome.retry_after is not None else 0
        if outcome.status is not None:
            before = copy.deepcopy(body)
            outcome.status.apply(body)
            self.patches += body != before
        if outcome.release:
            del self.objects[place]
            self.secrets.collect_garbage(body["metadata"]["uid"])
        return outcome

    def passes(self, place: Place, count: int = 1) -> Outcome:
        """Make passes without faults, with a cache that is not behind; return the last one's outcome."""
        outcome = None
        for _ in range(count):
            self.secrets.catch_up()
            outcome = self.run(place)
        assert outcome is not None
        return outcome

    def advance(self, delta: timedelta) -> None:
        """Let time pass."""
        self.now += delta
        self.check()

    def check(self) -> None:
        """Fail where a Secret of a Tenant holds a key that does not work, unless by somebody's hand."""
        uids = {b["metadata"]["uid"] for b in self.objects.values()}
        for place, secret in self.secrets.stored.items():
            text = secret.data.get(API_KEY)
            if secret.owner in uids and text is not None and text not in self.excused:
                assert self.registry.is_alive(text), f"Secret {place} holds a key that has ended"

    # By hand

    def revoke(self, text: str) -> None:
        """Revoke a key, wherever it is."""
        self.excused.add(text)
        self.registry.end(text)

    def edit(self, place: Place, **changed: str) -> None:
        """Change what a Secret holds."""
        found = self.secrets.stored[place]
        data = {**found.data, **{k.replace("_", "-"): v for k, v in changed.items()}}
        self.excused.add(data.get(API_KEY, ""))
        self.secrets.put(place, found.owner, data)

    def remove(self, place: Place) -> None:
        """Delete a Secret."""
        self.secrets.stored.pop(place, None)

    # What is there

    def status(self, place: Place) -> dict[str, Any]:
        """Return the status."""
        status: dict[str, Any] = self.objects[place].get("status", {})
        return status

    def condition(self, place: Place, kind: str) -> tuple[str, str] | None:
        """Return status and reason of a condition."""
        found = by_type(self.status(place).get("conditions")).get(kind)
        return None if found is None else (found["status"], found["reason"])

    def key(self, place: Place, name: str = "ledger") -> dict[str, Any]:
        """Return a key's entry of the status."""
        return by_name(self.status(place)["apiKeys"])[name]

    def states(self, place: Place) -> dict[str, str]:
        """Return the environments' states of the status."""
        return {e["name"]: e["state"] for e in self.status(place)["environments"]}

    def text(self, place: Place) -> str | None:
        """Return the key that a Secret holds."""
        secret = self.secrets.stored.get(place)
        return None if secret is None else secret.data.get(API_KEY)
