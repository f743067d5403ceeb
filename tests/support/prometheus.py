"""A real Prometheus on loopback that scrapes what a test tells it, every second."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from support.monitoring import program
from support.ports import free_port
from support.wire import until

SCRAPED_EVERY: Final = "1s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """Answers queries."""

    url: str
    http: httpx2.AsyncClient

    async def ask(self, path: str, **parameters: str) -> Any:
        """Return what an endpoint of its interface answers."""
        answer = await self.http.get(f"{self.url}/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, f"{parameters}: {answer.text}"
        return answer.json()["data"]

    async def instant(self, query: str, *, at: float | None = None) -> list[dict[str, Any]]:
        """Return the series of a query that have a number now, or at an instant (Unix time)."""
        given = {} if at is None else {"time": str(at)}
        found = (await self.ask("query", query=query, **given))["result"]
        return [one for one in found if not math.isnan(float(one["value"][1]))]

    async def over(self, query: str, *, since: float, until: float) -> list[dict[str, Any]]:
        """Return the series of a query that have a number anywhere between two instants (Unix time)."""
        # A scrape that was late is soon followed by the next, and what it saw may be gone by then.
        given = {"start": str(since), "end": str(until), "step": "0.1"}
        found = (await self.ask("query_range", query=query, **given))["result"]
        return [one for one in found if any(not math.isnan(float(value)) for _, value in one["values"])]

    async def shown(self, query: str) -> None:
        """Wait until a query finds something."""

        async def something() -> bool | None:
            return bool(await self.instant(query)) or None

        await until(something, seconds=60)

    async def scraped(self, *, after: float) -> None:
        """Wait until every target has been scraped since an instant, and was there."""

        async def all_of_them() -> bool | None:
            oldest = await self.instant("min(timestamp(up == 1))")
            count = await self.instant("count(up) - sum(up)")
            is_up = bool(count) and float(count[0]["value"][1]) == 0
            return True if is_up and oldest and float(oldest[0]["value"][1]) > after else None

        await until(all_of_them, seconds=120)


@asynccontextmanager
async def prometheus(folder: Path, targets: Mapping[str, tuple[int, Mapping[str, str]]]) -> AsyncIterator[Prometheus]:
    """Run Prometheus: ``targets`` are the port of each job, and the labels that the monitors would give it."""
    jobs = [
        {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": dict(labels)}]}
        for name, (port, labels) in targets.items()
    ]
    every = {"scrape_interval": SCRAPED_EVERY, "scrape_timeout": SCRAPED_EVERY}
    config = folder / "prometheus.yml"
    # JSON is YAML.
    config.write_text(json.dumps({"global": every, "scrape_configs": jobs}), encoding="utf-8")
    port, log = free_port(), folder / "prometheus.log"
    arguments = [
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with log.open("wb") as written:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own command, which starts at once
            [program("prometheus"), *arguments], stdin=subprocess.DEVNULL, stdout=written, stderr=written
        )
    try:
        async with httpx2.AsyncClient(timeout=30.0) as http:
            made = Prometheus(url=f"http://127.0.0.1:{port}", http=http)

            async def ready() -> bool | None:
                assert process.poll() is None, log.read_text()
                try:
                    return True if (await http.get(f"{made.url}/-/ready")).status_code == 200 else None
                except httpx2.HTTPError:
                    return None

            await until(ready, seconds=120)
            yield made
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)
