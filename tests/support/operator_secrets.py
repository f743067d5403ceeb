"""The Secrets of a namespace in memory: resource versions, owners, and a watch cache that is behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from payrec.domain.tenant_resources import ResourceOwner
from payrec_operator.errors import (
    NamespaceTerminatingError,
    SecretConflictError,
    SecretForbiddenError,
    SecretsUnavailableError,
)
from payrec_operator.ports import KeySecret
from support.operator_faults import Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    owner: str | None
    version: int
    data: Mapping[str, str]
    labelled: bool = True
    """Whether it is found when the Tenant's Secrets are listed."""


Place = tuple[str, str]


class MemorySecrets:
    """Implements ``Secrets``."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.stored: dict[Place, StoredSecret] = {}
        self.cache: dict[Place, StoredSecret] = {}
        self.forbidden = False
        self.terminating: set[str] = set()
        self.writes = 0
        self.reads = 0
        self._version = 0

    async def read(self, owner: ResourceOwner, name: str) -> KeySecret | None:
        self.faults.enter("secrets.read", SecretsUnavailableError)
        self.reads += 1
        found = self.stored.get((owner.namespace, name))
        self.faults.step(SecretsUnavailableError)
        return None if found is None else _seen(owner, name, found)

    async def owned(self, owner: ResourceOwner, *, fresh: bool = False) -> Sequence[KeySecret]:
        self.faults.enter("secrets.list" if fresh else "secrets.owned", SecretsUnavailableError)
        self.reads += fresh
        found = self.stored if fresh else self.cache
        return [
            _seen(owner, name, secret)
            for (namespace, name), secret in found.items()
            if namespace == owner.namespace and secret.owner == owner.uid and secret.labelled
        ]

    async def write(self, owner: ResourceOwner, name: str, data: Mapping[str, str], *, seen: str | None) -> str:
        self.faults.enter("secrets.write", SecretsUnavailableError)
        place = (owner.namespace, name)
        found = self.stored.get(place)
        if owner.namespace in self.terminating and found is None:
            raise NamespaceTerminatingError
        if self.forbidden:
            raise SecretForbiddenError(f"the operator may not write Secret {name}")
        if (found is None) != (seen is None) or (found is not None and str(found.version) != seen):
            raise SecretConflictError(f"Secret {name} is not as it was")
        if found is not None and found.owner != owner.uid:
            raise SecretConflictError(f"Secret {name} is somebody else's")
        self.put(place, owner.uid, data)
        self.writes += 1
        version = self.stored[place].version
        self.faults.step(SecretsUnavailableError)
        return str(version)

    async def delete(self, owner: ResourceOwner, name: str) -> None:
        self.faults.enter("secrets.delete", SecretsUnavailableError)
        if self.forbidden:
            raise SecretForbiddenError(f"the operator may not delete Secret {name}")
        found = self.stored.get((owner.namespace, name))
        if found is not None and found.owner == owner.uid:
            del self.stored[owner.namespace, name]
            self.writes += 1
        self.faults.step(SecretsUnavailableError)

    def put(self, place: Place, owner: str | None, data: Mapping[str, str]) -> None:
        """Create or change a Secret as anybody may."""
        self._version += 1
        self.stored[place] = StoredSecret(owner=owner, version=self._version, data=dict(data))

    def disown(self, place: Place) -> None:
        self._version += 1
        self.stored[place] = replace(self.stored[place], owner=None, version=self._version)

    def unlabel(self, place: Place) -> None:
        self._version += 1
        self.stored[place] = replace(self.stored[place], labelled=False, version=self._version)

    def catch_up(self) -> None:
        """Let the watch cache see what is there."""
        self.cache = dict(self.stored)

    def collect_garbage(self, uid: str) -> None:
        """Delete what an owner leaves behind, as the API server does."""
        self.stored = {place: s for place, s in self.stored.items() if s.owner != uid}


def _seen(owner: ResourceOwner, name: str, secret: StoredSecret) -> KeySecret:
    return KeySecret(
        name=name, owned=secret.owner == owner.uid, resource_version=str(secret.version), data=dict(secret.data)
    )
