"""Which fields of a tenant its resource owns: those that it names, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from payrec.domain.tenant_resources import WantedTenant

NAME: Final = "/name"
STATUS: Final = "/status"
SETTINGS: Final = "/settings"


def owned_fields(wanted: WantedTenant) -> list[str]:
    """Return JSON pointers (RFC 6901) to what a resource names. The status is always its own: not suspended is open."""
    named = [STATUS] if wanted.name is None else [NAME, STATUS]
    return named + sorted(p for p in touched_fields(wanted.settings, SETTINGS) if not p.endswith("/"))


def refused_fields(owned: Iterable[str], changed: Iterable[str]) -> list[str]:
    """Return those of the changed fields that are owned, or hold what is owned, or are within it."""
    kept = list(owned)
    refused = (c for c in changed if any(c == o or c.startswith(f"{o}/") or o.startswith(f"{c}/") for o in kept))
    return [pointer.rstrip("/") for pointer in refused]


def touched_fields(patch: Mapping[str, Any], pointer: str = "") -> list[str]:
    """Return pointers to the members of a merge patch that replace or remove something.

    That of an empty object ends with a slash: it replaces what is no object, and changes nothing of what is one.
    """
    found = []
    for name, value in patch.items():
        at = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        if isinstance(value, Mapping):
            found.extend(touched_fields(value, at) or [f"{at}/"])
        else:
            found.append(at)
    return found
