"""Tenants as the API server has them now, with finalizer and status, for what is not one of kopf's handlers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from payrec_operator.api_server import ApiServer
from payrec_operator.constants import FINALIZER, STORAGE_PREFIX
from payrec_operator.errors import SecretConflictError

WRITES_MAX: Final = 3
"""Tries at writing what others change at the same moment; the next pass writes it otherwise."""


class StatusWriter:
    """Reads Tenants and writes their status, with the resource version that was read."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def read(self, namespace: str, name: str, uid: str) -> dict[str, Any] | None:
        """Return the Tenant of this UID, or None where it is gone."""
        found = await self._api.find(f"read Tenant {name}", _path(namespace, name))
        return found if found is not None and found["metadata"]["uid"] == uid else None

    async def hold(self, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the Tenant with our finalizer, which is put there where kopf has not done so yet.

        None where nothing is to be made any more: it is gone, or going. And where others change it at each moment.
        """
        found: Mapping[str, Any] | None = body
        for _ in range(WRITES_MAX):
            if found is None or found["metadata"].get("deletionTimestamp"):
                return None
            metadata = found["metadata"]
            others = metadata.get("finalizers") or ()
            if FINALIZER in others:
                return found
            patch = {"resourceVersion": metadata["resourceVersion"], "finalizers": [*others, FINALIZER]}
            try:
                return await self._patch("put the finalizer on", metadata, {"metadata": patch})
            except SecretConflictError:
                found = await self.read(metadata["namespace"], metadata["name"], metadata["uid"])
        return None

    async def write(self, body: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
        """Apply a change to a Tenant's status, on what the API server has; nothing is sent where it changes nothing."""
        metadata = body["metadata"]
        for _ in range(WRITES_MAX):
            changed = copy.deepcopy(body)
            change(changed)
            if changed.get("status") == body.get("status"):
                return
            try:
                status = _changed(body.get("status") or {}, changed["status"])
                patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
                await self._patch("write the status of", metadata, patch, part="/status")
            except SecretConflictError:
                found = await self.read(metadata["namespace"], metadata["name"], metadata["uid"])
                if found is None:
                    return
                body, metadata = found, found["metadata"]
            else:
                return

    async def nudge(self, body: dict[str, Any]) -> None:
        """Change a Tenant where nobody looks, so that the watch tells of it once more."""
        metadata = body["metadata"]
        # kopf has an annotation for that, which it takes away again; any other value than before will do.
        annotations = {f"{STORAGE_PREFIX}/touch-dummy": metadata["resourceVersion"]}
        await self._patch("look again at", metadata, {"metadata": {"annotations": annotations}})

    async def _patch(
        self, doing: str, metadata: Mapping[str, Any], patch: dict[str, Any], *, part: str = ""
    ) -> dict[str, Any]:
        return await self._api.ask(
            f"{doing} Tenant {metadata['name']}",
            "PATCH",
            _path(metadata["namespace"], metadata["name"]) + part,
            patch,
            content_type="application/merge-patch+json",
        )


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what makes one of the other when it is merged into it (RFC 7396)."""
    return {**after, **dict.fromkeys(before.keys() - after.keys())}


def _path(namespace: str, name: str) -> str:
    return f"/apis/payrec.dev/v1/namespaces/{namespace}/tenants/{name}"
