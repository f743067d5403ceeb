"""Data sources of exchange rates: what the European Central Bank publishes is pulled, and stored as rates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.constants.fx_rates import ECB_DAILY_URL
from support.ages import aged
from support.ecb_files import table, xml, zipped
from support.file_servers import FileServer, SftpServer, file_server
from support.matching_world import World
from support.sources import PATH, created, shown, synced

pytestmark = pytest.mark.anyio

DAY = {"2026-03-10": {"USD": "1.0856"}}
RATES = {"name": "rates", "kind": "http", "format": "ecb_fx_rates"}


@pytest.fixture
async def files() -> AsyncIterator[FileServer]:
    async with file_server() as server:
        yield server


async def rates(world: World) -> dict[tuple[str, str], str]:
    page = (await world.tenant.get("/fx-rates", params={"limit": 200})).json()
    return {(row["date"], row["quote"]): row["rate"] for row in page["data"]}


async def pulled(world: World, source: dict[str, Any]) -> tuple[int, int]:
    """Sync when everything has stopped changing, and return how many files were read and how many failed."""
    await synced(world, source)
    await world.sql(aged("data_source_object", "2 minutes"))
    result = await synced(world, source)
    return result["imported"], result["failed"]


async def test_the_rates_of_each_day_are_pulled_once(world: World, files: FileServer) -> None:
    url = f"{files.url}/eurofxref-daily.xml"
    source = (await world.tenant.post(PATH, {**RATES, "config": {"urls": [url]}})).json()
    files.files["eurofxref-daily.xml"] = xml(DAY)
    assert await pulled(world, source) == (1, 0)
    assert await rates(world) == {("2026-03-10", "USD"): "1.0856"}
    assert await pulled(world, source) == (0, 0)
    # The next day's file is at the same address; it corrects nothing, so the day before stays.
    files.files["eurofxref-daily.xml"] = xml({"2026-03-11": {"USD": "1.09", "GBP": "0.84"}})
    assert await pulled(world, source) == (1, 0)
    assert len(await rates(world)) == 3
    assert (await shown(world, source))["status"] == "ok"
    assert (await world.tenant.get("/imports")).json()["data"] == []
    assert (await world.bystander.get("/fx-rates")).json()["data"] == []


async def test_a_file_that_is_none_fails_by_itself_and_stores_nothing(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp, format="ecb_fx_rates")
    sftp.put("eurofxref-hist.zip", zipped(table(DAY)))
    sftp.put("other.csv", b"Booking date;Amount\n2026-03-10;1.00\n")
    result = await synced(world, source)
    assert (result["imported"], result["failed"], result["errors"][0]["code"]) == (1, 1, "unreadable_file")
    assert await rates(world) == {("2026-03-10", "USD"): "1.0856"}
    assert (await shown(world, source))["status"] == "failing"


async def test_a_source_of_rates_is_one_that_is_pulled_and_brings_nothing_else(world: World) -> None:
    source = await world.tenant.post(PATH, RATES)
    assert (source.status_code, source.json()["config"]["urls"]) == (201, [ECB_DAILY_URL])
    for wrong, pointer in (
        ({"kind": "upload"}, "/kind"),
        ({"account": "DE1"}, "/account"),
        ({"profile": {"delimiter": ";"}}, "/profile"),
    ):
        refused = await world.tenant.post(PATH, {**RATES, "name": "other", **wrong})
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
    path = f"{PATH}/{source.json()['id']}"
    assert (await world.tenant.request("PATCH", path, json={"account": "DE1"})).status_code == 422
    parameters = {"dataSourceId": source.json()["id"]}
    answer = await world.tenant.request("POST", "/incoming-transactions/upload", json=[], params=parameters)
    assert (answer.status_code, answer.json()["code"]) == (409, "invalid_state")
