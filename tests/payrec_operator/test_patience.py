"""What the API server refuses is tried again: a watch for ever, anything else as often as kopf does by itself."""

from __future__ import annotations

import asyncio
from itertools import islice

import kopf
import pytest

from payrec_operator.patience import TRIES, WATCHER, Patience

pytestmark = pytest.mark.anyio

LONG = 100


@pytest.mark.parametrize(
    ("name", "tries", "told"),
    [(f"{WATCHER}tenants.v1.payrec.dev@shop", LONG, LONG), ("worker for acme", len(TRIES), 0)],
)
async def test_a_watch_is_tried_for_ever_and_counted(name: str, tries: int, told: int) -> None:
    refused: list[str] = []

    async def waits() -> list[float]:
        return list(islice(Patience(lambda: refused.append(name)), LONG))

    found = await asyncio.create_task(waits(), name=name)
    assert (len(found), len(refused)) == (tries, told)
    assert tuple(found[: len(TRIES)]) == TRIES
    assert max(found) == TRIES[-1], "who is let in again is so within seconds"


def test_what_is_not_a_watch_is_tried_as_by_kopf() -> None:
    assert kopf.OperatorSettings().networking.error_backoffs == TRIES
