"""What the OpenAPI document promises holds: no 5xx, and no answer that it does not describe, whatever is asked."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from payrec.gate.routes import ROUTES, Access, Route
from support import schema_probe, schema_walk
from support.described import described
from support.service import Service

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("PAYREC_SCHEMA_EXAMPLES", "10"))
WALK_SECONDS = float(os.environ.get("PAYREC_WALK_SECONDS", "8"))
DESCRIBED = [route for route in ROUTES if route.in_schema]


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
async def task(service: Service) -> dict[str, Any]:
    """Return what a probe is told: who asks, the document, and what there is to ask for."""
    tenant, ids = await described(service, "described")
    return {
        "baseUrl": service.base_url,
        "document": (await service.http.get(f"{service.base_url}/api/openapi.json")).json(),
        "headers": tenant.headers("production"),
        "operations": [(route.method, route.path) for route in DESCRIBED],
        "examples": EXAMPLES,
        "ids": ids,
    }


async def _probe(task: dict[str, Any], *, by: ModuleType = schema_probe) -> dict[str, Any]:
    """Return what came of asking: of a probe by operation."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(by.__file__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
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


async def test_two_tenants_that_say_each_others_ids_learn_and_reach_nothing(service: Service) -> None:
    asking = [route for route in DESCRIBED if route.access in {Access.STANDARD, Access.JWT_ONLY}]
    tenants = []
    for slug in ("walker-a", "walker-b"):
        secret = f"SECRET-OF-{slug}"
        tenant, ids = await described(service, slug, text=secret)
        tenants.append({"headers": tenant.headers("production"), "ids": ids, "secret": secret})
    document = (await service.http.get(f"{service.base_url}/api/openapi.json")).json()
    found = await _probe(
        {
            "baseUrl": service.base_url,
            "document": document,
            "operations": [(route.method, route.path) for route in asking],
            "seconds": WALK_SECONDS,
            "tenants": tenants,
        },
        by=schema_walk,
    )
    assert found["failures"] == {}
    assert found["sent"]["own 2xx"] > 0
    assert found["asked"]
