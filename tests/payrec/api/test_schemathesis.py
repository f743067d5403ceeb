"""What the OpenAPI document promises holds: no 5xx, and no answer that it does not describe, whatever is asked."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from payrec.gate.routes import ROUTES, Route
from support import schema_probe
from support.service import Service
from support.wire import rows

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("PAYREC_SCHEMA_EXAMPLES", "15"))
DESCRIBED = [route for route in ROUTES if route.in_schema]


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
async def task(service: Service) -> dict[str, Any]:
    """Return what a probe is told: who asks, the document, and what there is to ask for."""
    tenant = await service.tenant("described", environments=["production"])
    money = {"direction": "credit", "amount": "12.34", "currency": "EUR"}
    expected = await tenant.post("/expected-transactions", {**money, "reference": "INV-2024-17"})
    incoming = await tenant.post(
        "/incoming-transactions", {**money, "bookingDate": "2024-03-04", "remittance": "INV-2024-17"}
    )
    content = json.dumps([{"amount": "x"}, {**money, "bookingDate": "2024-03-04"}]).encode()
    imported = await tenant.post("/incoming-transactions/upload", files={"file": ("lines.json", content)})
    now = await rows(service, tenant, "SELECT clock_timestamp() AS at")
    said = {"takenAt": now[0]["at"].isoformat(), "controlTotals": "[]"}
    snapshot = await tenant.post("/expected-transactions/snapshots", files={"file": ("x.json", b"[]")}, data=said)
    run = await tenant.post("/matches/match", {})
    matches = await tenant.get("/matches")
    key = await tenant.post("/auth/api-keys", {"read": True})
    hook = await tenant.post("/webhooks", {"url": "https://127.0.0.1:65535/", "events": ["*"]})
    source = {"name": "nobody", "kind": "http", "config": {"urls": ["https://127.0.0.1:65535/a.csv"]}}
    source = (await tenant.post("/data-sources", source)).json()
    account = await tenant.post("/accounts", {"identifier": "GIRO", "currency": "EUR"})
    listed = {"reference": "INV-2024-17", "amountMinor": 1_234}
    paid = {"paymentReference": "RUN-2024-17", "totalMinor": 1_234, "currency": "EUR", "lines": [listed]}
    advice = await tenant.post("/remittance-advices", paid)
    lock = await tenant.post("/period-locks", {"through": "2020-12-31", "account": "GIRO", "reason": "closed"})
    for answer in (expected, incoming, imported, snapshot, run, matches, key, hook, account, lock, advice):
        assert answer.is_success, answer.text
    return {
        "baseUrl": service.base_url,
        "document": (await service.http.get(f"{service.base_url}/api/openapi.json")).json(),
        "headers": tenant.headers("production"),
        "operations": [(route.method, route.path) for route in DESCRIBED],
        "examples": EXAMPLES,
        "ids": {
            "/expected-transactions": expected.json()["id"],
            "/expected-transactions/snapshots": snapshot.json()["id"],
            "/incoming-transactions": incoming.json()["id"],
            "/imports": imported.json()["id"],
            "/data-sources": source["id"],
            "/accounts": account.json()["id"],
            "/period-locks": lock.json()["id"],
            "/remittance-advices": advice.json()["id"],
            "/jobs": run.json()["jobId"],
            "/matches": matches.json()["data"][0]["id"],
            "/auth/api-keys": key.json()["id"],
            "/matching/aliases": key.json()["id"],  # of no alias: none has been learned
            "/matching/rejections": key.json()["id"],  # of no match: none was rejected
            "/tenants": tenant.id,
            "/privacy/erasures": key.json()["id"],  # of no erasure: texts would be missed elsewhere
            "/exports": key.json()["id"],  # of no export: it has a job first
            "/events": key.json()["id"],  # of no event: they have their places later
            "/webhooks": hook.json()["id"],
        },
    }


async def _probe(task: dict[str, Any]) -> dict[str, Any]:
    """Return what came of asking, by operation."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(schema_probe.__file__)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, log = await process.communicate(json.dumps(task).encode())
    assert process.returncode == 0, log.decode()[-4000:]
    return dict(json.loads(out))


@pytest.fixture(scope="module")
async def probed(task: dict[str, Any]) -> dict[str, Any]:
    """Return what came of asking everything."""
    return await _probe(task)


@pytest.mark.parametrize("route", DESCRIBED, ids=_name)
async def test_every_answer_is_one_that_the_document_describes(probed: dict[str, Any], route: Route) -> None:
    found = probed[_name(route)]
    assert found["sent"] > 0
    assert found["failures"] == {}


async def test_an_answer_that_the_document_does_not_describe_is_noticed(task: dict[str, Any]) -> None:
    document = copy.deepcopy(task["document"])
    operation = document["paths"]["/jobs/{job_id}"]["get"]
    del operation["responses"]["404"]
    document["components"]["schemas"]["JobPublic"]["properties"]["attempts"] = {"type": "string"}
    found = await _probe({**task, "document": document, "operations": [("GET", "/jobs/{job_id}")]})
    assert set(found["GET /jobs/{job_id}"]["failures"]) == {"UndefinedStatusCode 404", "JsonSchemaError 200"}
