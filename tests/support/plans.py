"""Plans of queries: what their scans have looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all


@contextmanager
def explained(patch: pytest.MonkeyPatch, module: ModuleType) -> Iterator[list[dict[str, Any]]]:
    """Have what a module of storage reads explained instead of read, and collect the plans."""
    plans: list[dict[str, Any]] = []

    async def explain(
        connection: Connection, query: str, parameters: Any = None, *, prepare: bool | None = None
    ) -> list[dict[str, Any]]:
        text = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query}"
        [row] = await fetch_all(connection, text, parameters, prepare=prepare)
        plans.append(row["QUERY PLAN"][0]["Plan"])
        return []

    with patch.context() as here:
        here.setattr(module, "fetch_all", explain)
        yield plans


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the nodes of a plan."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def visited(plan: dict[str, Any], of: str = "") -> int:
    """Return how many rows the scans of a plan have looked at, of relations whose names begin with ``of``."""
    total = 0
    for node in nodes(plan):
        named = node.get("Relation Name", "" if node["Node Type"] == "Bitmap Index Scan" else None)
        if named is not None and named.startswith(of):
            removed = sum(node.get(f"Rows Removed by {how}", 0) for how in ("Filter", "Index Recheck"))
            total += (node["Actual Rows"] + removed) * node["Actual Loops"]
    return round(total)


def handled(plan: dict[str, Any]) -> int:
    """Return how many rows the nodes of a plan have given or thrown away, all together."""
    total = 0
    for node in nodes(plan):
        removed = sum(count for name, count in node.items() if name.startswith("Rows Removed by"))
        total += (node["Actual Rows"] + removed) * node["Actual Loops"]
    return round(total)
