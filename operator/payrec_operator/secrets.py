"""The Secrets of keys on the API server, and what the watch says of them.

Only Secrets with the label ``app.kubernetes.io/managed-by: payrec-operator`` are watched; only those that the Tenant
controls (its ``ownerReference`` with ``controller: true``) are changed or deleted.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from payrec.domain.tenant_resources import ResourceOwner
from payrec_operator.api_server import ApiServer, NotThereError
from payrec_operator.errors import SecretConflictError
from payrec_operator.ports import KeySecret

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "payrec-operator"
"""Value of that label on what the operator makes."""

OWNER_LABEL: Final = "payrec.dev/tenant-uid"
"""Label with the UID of the Tenant, by which its Secrets are listed."""

SELECTOR: Final = f"{MANAGED_BY_LABEL}={MANAGER}"
"""What the watch of Secrets asks for."""

SURE_SECONDS_MAX: Final = 3600.0
"""How long a Tenant's Secrets count without having been asked for again: a bound for whatever a watch may miss."""


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


class SecretCache:
    """What the watch has said of our Secrets. It may be behind, and knows when it may have missed something.

    A watch begins with a list, at the start and after it broke for long, and what was deleted before is simply not in
    it. So every list begins an epoch, and in each a Tenant's Secrets count once they have been asked for. A list is a
    new one when it tells of an object of which the one before has told already.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._secrets: dict[str, dict[tuple[str, str], KeySecret]] = {}
        self._owners: dict[tuple[str, str], str] = {}
        self._ours: dict[tuple[str, str], str] = {}
        self._asked: dict[str, tuple[int, float]] = {}
        self._epoch = 0
        self._listed: dict[str, set[str]] = {}

    def listed(self, kind: str, body: Mapping[str, Any]) -> None:
        """Note that an object of this kind came in a list; the watch of Tenants breaks with that of Secrets."""
        uid = str(body["metadata"]["uid"])
        told = self._listed.setdefault(kind, set())
        if not told or uid in told:
            self._epoch += 1
            told.clear()
        told.add(uid)

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
        self._asked[uid] = (self._epoch, self._monotonic() + SURE_SECONDS_MAX * _share(uid))

    def of(self, uid: str) -> list[KeySecret] | None:
        """Return the Secrets of a Tenant, or None where some of that may be outdated."""
        epoch, until = self._asked.get(uid, (None, 0.0))
        if epoch != self._epoch or self._monotonic() > until:
            return None
        return list(self._secrets.get(uid, {}).values())

    def forget_tenant(self, uid: str) -> None:
        """Forget a Tenant that is gone; its Secrets follow by themselves."""
        self._asked.pop(uid, None)

    def _drop(self, place: tuple[str, str]) -> None:
        uid = self._owners.pop(place, None)
        if uid is not None:
            self._secrets[uid].pop(place)
            if not self._secrets[uid]:
                del self._secrets[uid]


def _share(uid: str) -> float:
    """Return a Tenant's own number from a half to one, so that those of one list are not asked for at once."""
    return 0.5 + zlib.crc32(uid.encode()) / 2**33


class KubernetesSecrets:
    """The port ``Secrets`` over the API server."""

    def __init__(self, api: ApiServer, cache: SecretCache) -> None:
        self._api = api
        self._cache = cache

    async def read(self, owner: ResourceOwner, name: str) -> KeySecret | None:
        """Return a Secret as the API server has it now, whoever controls it."""
        body = await self._get(owner, name)
        return None if body is None else key_secret(body, uid=owner.uid)

    async def owned(self, owner: ResourceOwner, *, fresh: bool = False) -> Sequence[KeySecret]:
        """Return the Secrets that the Tenant controls: from the watch cache, or ``fresh`` from the API server."""
        cached = None if fresh else self._cache.of(owner.uid)
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
    collection = f"/api/v1/namespaces/{owner.namespace}/secrets"
    return collection if name is None else f"{collection}/{name}"


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
