"""Merge patches of settings (RFC 7396)."""

from __future__ import annotations

from typing import Any


def merged(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return ``target`` with ``patch`` applied: members merge, null removes, anything else replaces."""
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            present = result.get(name)
            result[name] = merged(present if isinstance(present, dict) else {}, value)
        else:
            result[name] = value
    return result
