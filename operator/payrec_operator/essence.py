"""What kopf keeps of a Tenant to see later what has changed: digests, in an annotation of the Tenant."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import kopf

from payrec_operator.constants import STORAGE_PREFIX
from payrec_operator.resources import PREFIX

_DIGEST: Final = "digest"
"""The one field of a spec that has been reduced; no spec of a Tenant has it."""


class DigestStorage(kopf.AnnotationsDiffBaseStorage):
    """Keeps whether spec and our annotations have changed, and not what they were.

    All annotations of a resource together have a limit. A copy of the spec and of others' annotations, as kopf would
    keep it, passes that where these are large; then no patch is accepted any more, not even one that ends a deletion.
    """

    def __init__(self) -> None:
        # v1 would write it a second time, under a shortened name.
        super().__init__(prefix=STORAGE_PREFIX, v1=False)

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        """Return what counts of a resource as it is now."""
        return _reduced(super().build(body=body, extra_fields=extra_fields))

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Return what was kept; releases before this one kept everything."""
        found = super().fetch(body=body)
        return None if found is None else _reduced(found)


def _reduced(essence: kopf.BodyEssence) -> kopf.BodyEssence:
    spec = essence.get("spec") or {}
    if set(spec) != {_DIGEST}:
        spec = {_DIGEST: _digest(spec)}
    annotations = (essence.get("metadata") or {}).get("annotations") or {}
    ours = {name: _short(value) for name, value in annotations.items() if name.startswith(PREFIX)}
    return cast("kopf.BodyEssence", {"spec": spec, "metadata": {"annotations": ours}})


def _short(value: str) -> str:
    digest = _digest(value)
    return value if len(value) <= len(digest) else digest


def _digest(value: Mapping[str, Any] | str) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
