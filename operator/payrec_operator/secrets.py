"""The Secrets of keys on the API server, and what the watch says of them.

Only Secrets with the label ``app.kubernetes.io/managed-by: payrec-operator`` are watched; only those that the Tenant
controls (its ``ownerReference`` with ``controller: true``) are changed or deleted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from payrec.domain.tenant_resources import ResourceOwner
from payrec_operator.api_server import METADATA_ONLY, ApiServer, NotThereError, objects
from payrec_operator.errors import SecretConflictError, SecretForbiddenError, SecretsUnavailableError
from payrec_operator.ports import KeySecret

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "payrec-operator"
"""Value of that label on what the operator makes."""

OWNER_LABEL: Final = "payrec.dev/tenant-uid"
"""Label with the UID of the Tenant, by which its Secrets are listed."""

SELECTOR: Final = f"{MANAGED_BY_LABEL}={MANAGER}"
"""What the watch of Secrets asks for."""

SURE_SECONDS_MAX: Final = 60.0
"""How long the watch is believed without a look at all Secrets: a bound for whatever it may miss."""

Place = tuple[str, str]
"""Namespace and name."""

Version = tuple[Place, str]
"""A Secret as it is at one time: where it is, and its resource version."""


def controlled_by(metadata: Mapping[str, Any]) -> str | None:
    """Return the UID of the Tenant that controls an object."""
    for reference in metadata.get("ownerReferences") or ():
        is_tenant = reference.get("kind") == "Tenant" and str(reference.get("apiVersion", "")).startswith("payrec.dev/")
        if is_tenant and reference.get("controller"):
            return str(reference["uid"])
    return None


def owner_name(metadata: Mapping[str, Any]) -> str | None:
    """Return the name of the Tenant that controls an object."""
    uid = controlled_by(metadata)
    names = [r["name"] for r in metadata.get("ownerReferences") or () if str(r.get("uid")) == uid]
    return str(names[0]) if names else None


def _decoded(data: Mapping[str, str] | None) -> dict[str, str]:
    """Return the values as text; what is none (somebody edited it) is shown as nothing, which no key is."""
    found = {}
    for name, value in (data or {}).items():
        try:
            found[name] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            found[name] = ""
    return found


def key_secret(body: Mapping[str, Any], *, uid: str | None) -> KeySecret:
    """Return a Secret as the core knows it, seen by the Tenant of this UID."""
    metadata = body["metadata"]
    return KeySecret(
        name=metadata["name"],
        owned=uid is not None and controlled_by(metadata) == uid,
        resource_version=metadata["resourceVersion"],
        data=_decoded(body.get("data")),
    )


def versions_of(bodies: Iterable[Mapping[str, Any]]) -> dict[Version, str]:
    """Return which Secrets there are, with the UID of the Tenant that controls each; no others."""
    return {
        ((metadata["namespace"], metadata["name"]), metadata["resourceVersion"]): uid
        for metadata in (body["metadata"] for body in bodies)
        if (uid := controlled_by(metadata)) is not None
    }


class SecretCache:
    """What the watch has said of our Secrets. A Tenant's count once they have been asked for.

    It may be behind. After a break the watch may begin with a list, and what was deleted before is simply not in it:
    that it begins anew is told to nobody where the list is empty. So it is compared with all Secrets now and then.
    """

    def __init__(self) -> None:
        self._secrets: dict[str, dict[Place, KeySecret]] = {}
        self._owners: dict[Place, str] = {}
        self._ours: dict[Place, str] = {}
        self._asked: set[str] = set()

    def is_ours(self, body: Mapping[str, Any], *, gone: bool) -> bool:
        """Tell whether a change that the watch tells of is one that we made."""
        metadata = body["metadata"]
        place = (metadata["namespace"], metadata["name"])
        if gone:
            return self._ours.pop(place, None) == ""
        return bool(self._ours.get(place) == metadata["resourceVersion"])

    def wrote(self, body: Mapping[str, Any]) -> None:
        """Note a Secret as we have just written it."""
        metadata = body["metadata"]
        self._ours[metadata["namespace"], metadata["name"]] = metadata["resourceVersion"]
        self.put(body)

    def deleted(self, body: Mapping[str, Any]) -> None:
        """Note that we have just deleted a Secret."""
        metadata = body["metadata"]
        self._ours[metadata["namespace"], metadata["name"]] = ""
        self.forget(body)

    def put(self, body: Mapping[str, Any]) -> None:
        """Note a Secret as it was heard of."""
        metadata = body["metadata"]
        uid = controlled_by(metadata)
        place = (metadata["namespace"], metadata["name"])
        self._drop(place)
        if uid is not None:
            self._secrets.setdefault(uid, {})[place] = key_secret(body, uid=uid)
            self._owners[place] = uid

    def forget(self, body: Mapping[str, Any]) -> None:
        """Note that a Secret is gone."""
        metadata = body["metadata"]
        self._drop((metadata["namespace"], metadata["name"]))

    def replace(self, uid: str, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Note all Secrets of a Tenant as they were listed for it just now."""
        for place in list(self._secrets.get(uid, ())):
            self._drop(place)
        for body in bodies:
            self.put(body)
        self._asked.add(uid)

    def compare(self, there: Mapping[Version, str], *, namespace: str | None = None) -> None:
        """Doubt each Tenant of whose Secrets the watch has not said what is there, or what is in one namespace.

        Which of both is the older does not matter: who is doubted is asked for, and nothing else comes of it.
        """
        told = {
            (place, secret.resource_version): uid
            for uid, secrets in self._secrets.items()
            for place, secret in secrets.items()
            if namespace in {None, place[0]}
        }
        for place, _ in told.keys() - there.keys():
            self._drop(place)
        self._asked -= {uid for _, uid in told.items() ^ there.items()}

    def of(self, uid: str) -> list[KeySecret] | None:
        """Return the Secrets of a Tenant, or None where they have not been asked for since there was a doubt."""
        return list(self._secrets.get(uid, {}).values()) if uid in self._asked else None

    def namespaces(self) -> list[str]:
        """Return where Secrets of ours are."""
        return sorted({namespace for namespace, _ in self._owners})

    def forget_tenant(self, uid: str) -> None:
        """Forget a Tenant that is gone; its Secrets follow by themselves."""
        self._asked.discard(uid)

    def _drop(self, place: Place) -> None:
        uid = self._owners.pop(place, None)
        if uid is not None:
            self._secrets[uid].pop(place)
            if not self._secrets[uid]:
                del self._secrets[uid]


class KubernetesSecrets:
    """The port ``Secrets`` over the API server. ``sure_seconds`` is how long the watch is believed."""

    def __init__(
        self, api: ApiServer, cache: SecretCache, *, monotonic: Callable[[], float], sure_seconds: float
    ) -> None:
        self._api = api
        self._cache = cache
        self._monotonic = monotonic
        self._sure_seconds = sure_seconds
        self._sure_until = monotonic() + sure_seconds
        self._comparing = asyncio.Lock()
        self._sees_all = True

    async def read(self, owner: ResourceOwner, name: str) -> KeySecret | None:
        """Return a Secret as the API server has it now, whoever controls it."""
        body = await self._get(owner, name)
        return None if body is None else key_secret(body, uid=owner.uid)

    async def owned(self, owner: ResourceOwner, *, fresh: bool = False) -> Sequence[KeySecret]:
        """Return the Secrets that the Tenant controls: from the watch cache, or ``fresh`` from the API server."""
        if not fresh:
            await self._compare_when_due()
            cached = self._cache.of(owner.uid)
            if cached is not None:
                return cached
        answer = await self._api.ask(
            f"list the Secrets of Tenant {owner.name}",
            "GET",
            _path(owner),
            query={"labelSelector": f"{SELECTOR},{OWNER_LABEL}={owner.uid}"},
        )
        bodies = answer["items"]
        self._cache.replace(owner.uid, bodies)
        found = [key_secret(body, uid=owner.uid) for body in bodies]
        return [secret for secret in found if secret.owned]

    async def _compare_when_due(self) -> None:
        """Look at all Secrets where the last look was long ago; one pass does so for all, and these wait for it."""
        async with self._comparing:
            if self._monotonic() < self._sure_until:
                return
            if self._sees_all:
                try:
                    await self._compare(None)
                except SecretForbiddenError:
                    self._sees_all = False
            if not self._sees_all:
                for namespace in self._cache.namespaces():
                    with contextlib.suppress(SecretForbiddenError):
                        await self._compare(namespace)
            self._sure_until = self._monotonic() + self._sure_seconds

    async def _compare(self, namespace: str | None) -> None:
        path = "/api/v1/secrets" if namespace is None else _collection(namespace)
        # An API server that does not answer is no reason to doubt what was heard; the next look may find it.
        with contextlib.suppress(SecretsUnavailableError):
            found = objects(self._api, "list all Secrets of Tenants", path, selector=SELECTOR, accept=METADATA_ONLY)
            there: dict[Version, str] = {}
            async for body in found:
                there |= versions_of([body])
            self._cache.compare(there, namespace=namespace)

    async def write(self, owner: ResourceOwner, name: str, data: Mapping[str, str], *, seen: str | None) -> str:
        """Create (``seen`` None) or replace a Secret of the resource version ``seen``; return the new version."""
        if seen is None:
            body = await self._create(owner, name, data)
        else:
            found = await self._get(owner, name)
            if found is None or controlled_by(found["metadata"]) != owner.uid:
                raise SecretConflictError(f"Secret {name} is gone, or is somebody else's")
            if found["metadata"]["resourceVersion"] != seen:
                raise SecretConflictError(f"Secret {name} has changed since it was read")
            body = await self._replace(owner, found, data)
        return str(body["metadata"]["resourceVersion"])

    async def delete(self, owner: ResourceOwner, name: str) -> None:
        """Delete a Secret that the Tenant controls; one that is not there, or is not ours, is no error and stays."""
        found = await self._get(owner, name)
        if found is None or controlled_by(found["metadata"]) != owner.uid:
            return
        # Exactly the one that was looked at: somebody may make another of this name at any moment.
        preconditions = {"uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"]}
        with contextlib.suppress(NotThereError):
            await self._api.ask(f"delete Secret {name}", "DELETE", _path(owner, name), {"preconditions": preconditions})
        self._cache.deleted(found)

    async def _get(self, owner: ResourceOwner, name: str) -> dict[str, Any] | None:
        return await self._api.find(f"read Secret {name}", _path(owner, name))

    async def _create(self, owner: ResourceOwner, name: str, data: Mapping[str, str]) -> dict[str, Any]:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": name,
                "namespace": owner.namespace,
                "labels": _labels(owner),
                "ownerReferences": [_reference(owner)],
            },
            "data": _encoded(data),
        }
        made = await self._api.ask(f"create Secret {name}", "POST", _path(owner), body)
        self._cache.wrote(made)
        return made

    async def _replace(self, owner: ResourceOwner, found: Mapping[str, Any], data: Mapping[str, str]) -> dict[str, Any]:
        """Replace the data of a Secret that was read just now; labels and annotations of others stay."""
        metadata = dict(found["metadata"])
        metadata.pop("managedFields", None)
        metadata["labels"] = {**(metadata.get("labels") or {}), **_labels(owner)}
        body = {**found, "metadata": metadata, "data": _encoded(data)}
        made = await self._api.ask(f"update Secret {metadata['name']}", "PUT", _path(owner, metadata["name"]), body)
        self._cache.wrote(made)
        return made


def _path(owner: ResourceOwner, name: str | None = None) -> str:
    collection = _collection(owner.namespace)
    return collection if name is None else f"{collection}/{name}"


def _collection(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"


def _labels(owner: ResourceOwner) -> dict[str, str]:
    return {MANAGED_BY_LABEL: MANAGER, OWNER_LABEL: owner.uid}


def _reference(owner: ResourceOwner) -> dict[str, Any]:
    """Make the Tenant the controller, so that the Secret goes with it.

    Its deletion is not blocked: that would take a right to the Tenant's finalizers, and keys are revoked first anyway.
    """
    return {
        "apiVersion": "payrec.dev/v1",
        "kind": "Tenant",
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _encoded(data: Mapping[str, str]) -> dict[str, str]:
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
