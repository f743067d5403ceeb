"""A typed client can be generated from the document, for every operation, and works against the service."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from payrec.gate.routes import ROUTES
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

# Lines of JSON are bytes to the generator, which knows neither them nor what to do with an unknown type.
CONFIG = {"content_type_overrides": {"application/x-ndjson": "application/octet-stream"}, "post_hooks": []}


@pytest.fixture(scope="module")
async def client(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a client, generated from what the service serves."""
    folder = tmp_path_factory.mktemp("client")
    document = (await service.http.get(f"{service.base_url}/api/openapi.json")).text
    (folder / "openapi.json").write_text(document, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    options = ("--path", "openapi.json", "--config", "config.json", "--output-path", "made", "--fail-on-warning")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "openapi_python_client", "generate", *options),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout=120)
    assert process.returncode == 0, output.decode()[-4000:]
    return folder / "made"


def _operations(client: Path) -> dict[str, str]:
    found = (path for path in client.glob("payrec_client/api/*/*.py") if path.name != "__init__.py")
    return {path.stem: path.read_text(encoding="utf-8") for path in found}


async def test_it_has_every_operation_and_knows_every_body(client: Path) -> None:
    operations = _operations(client)
    assert len(operations) == len([route for route in ROUTES if route.in_schema])
    assert {name for name, text in operations.items() if "body: Any" in text} == set()


async def test_it_speaks_to_the_service(client: Path, acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(client))
    part = importlib.import_module
    create = part("payrec_client.api.expected_transactions.create_expected_transactions_post")
    listing = part("payrec_client.api.expected_transactions.list_expected_transactions_get")
    models = part("payrec_client.models")
    production = "production"
    body = models.ExpectedTransactionCreate.from_dict(
        {"direction": "credit", "amount": "12.30", "currency": "EUR", "externalId": "of a client"}
    )
    # Closed in the end, or its connection would be a warning in whatever test comes next.
    async with part("payrec_client").AuthenticatedClient(acme.base_url, token=acme.token) as made_client:
        who: dict[str, Any] = {"client": made_client, "x_tenant_id": acme.id}
        environment = models.CreateExpectedTransactionsPostXEnvironment(production)
        made = await create.asyncio_detailed(**who, x_environment=environment, body=body)
        assert made.status_code == 201
        assert (made.parsed.amount_minor, made.parsed.external_id) == (1230, "of a client")

        refused = await create.asyncio(**who, x_environment=environment, body=body)
        assert isinstance(refused, models.Problem)
        assert refused.code == "duplicate_external_id"

        environment = models.ListExpectedTransactionsGetXEnvironment(production)
        page = await listing.asyncio(**who, x_environment=environment)
        assert [one.id for one in page.data] == [made.parsed.id]
        environment = models.ListExpectedTransactionsGetXEnvironment("test")
        assert (await listing.asyncio(**who, x_environment=environment)).data == []
