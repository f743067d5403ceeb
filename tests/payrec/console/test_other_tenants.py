"""Whatever has an id has a page for its own tenant and environment, and is not there for anybody else."""

from __future__ import annotations

import re
from typing import Final

import pytest

from support.browser import ConsoleWorld
from support.console_places import address_of, keep_places
from support.console_routes import console_paths

pytestmark = pytest.mark.anyio

ROUTES: Final = [path for path in console_paths() if re.search(r"\{\w+_id\}", path)]
"""Every page and download of something with an id, by the router table."""

QUERIES: Final = {
    "{account_id}/statement": "?cutOff=2026-03-31",
    "{account_id}/statement.csv": "?cutOff=2026-03-31",
    "{account_id}/lines.csv": "?cutOff=2026-03-31&part=open",
}
"""What else has to be said, by what comes behind the month-end's own address."""


async def test_what_is_another_tenants_or_environments_is_not_there(console_world: ConsoleWorld) -> None:
    places = await keep_places(console_world.globex)
    async with console_world.client(console_world.globex) as theirs, console_world.client() as ours:
        for route in ROUTES:
            query = QUERIES.get(route.rpartition("/month-end/")[2], "")
            path = address_of(route, places) + query
            elsewhere = address_of(route, {**places, "environment": "test"}) + query
            answers = [await theirs.get(path), await theirs.get(elsewhere), await ours.get(path)]
            assert [answer.status_code for answer in answers] == [200, 404, 404], route
    assert len(ROUTES) >= 12
