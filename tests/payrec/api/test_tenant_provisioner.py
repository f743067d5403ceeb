"""POST /tenants in a cluster: a row and a resource, or neither, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest
from aiohttp import web

from payrec.constants.tenants import RESOURCE_MADE_WITHIN
from payrec.domain.tenant_resources import ResourceOwner, WantedTenant, WantedUser
from payrec.embedded.postgres import EmbeddedPostgres
from support.kubernetes_api import NAMESPACE, FakeCluster, cluster, status
from support.postgres import cloned
from support.service import Service, make_config, running
from support.wire import code, fields, in_control

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def pods(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    with cloned(postgres) as database:
        async with (
            cluster(tmp_path_factory.mktemp("serviceaccount")) as kube,
            running(make_config(database, **kube.settings), worker=False) as service,
        ):
            yield kube, service


@pytest.fixture
def kube(pods: tuple[FakeCluster, Service]) -> FakeCluster:
    pods[0].answer = None
    pods[0].asked.clear()
    return pods[0]


@pytest.fixture
def service(pods: tuple[FakeCluster, Service]) -> Service:
    return pods[1]


async def make(service: Service, key: str | None = None, **body: Any) -> httpx2.Response:
    headers = {"Idempotency-Key": key} if key is not None else {}
    return await service.http.post(f"{service.base_url}/tenants", json=body, headers=headers)


async def row(service: Service, slug: str) -> list[dict[str, Any]]:
    query = "SELECT id, status, resource_uid, resource_namespace, resource_name FROM tenant WHERE slug = %s"
    async with service.factory.context.database.control(readonly=True) as connection:
        return await (await connection.execute(query, (slug,))).fetchall()


async def test_a_tenant_is_registered_and_its_resource_made(service: Service, kube: FakeCluster) -> None:
    made = await make(
        service,
        name="Acme GmbH",
        slug="acme",
        environments=["test", "production"],
        settings={"locale": "de", "timezone": None},
        admin={"username": "ada@acme", "subject": "s-ada"},
    )
    body = made.json()
    assert (made.status_code, body["status"], made.headers["location"]) == (
        202,
        "provisioning",
        f"/tenants/{body['id']}",
    )
    assert body["environments"] == [{"environment": e, "status": "provisioning"} for e in ("production", "test")]
    assert body["admin"]["username"] == "ada@acme"
    resource = kube.resources["acme"]
    assert resource["spec"] == {
        "slug": "acme",
        "displayName": "Acme GmbH",
        "environments": [{"name": "production"}, {"name": "test"}],
        "settings": {"locale": "de"},
        "users": [
            {
                "username": "ada@acme",
                "subject": "s-ada",
                "roles": ["admin"],
                "environments": ["production", "test"],
            }
        ],
    }
    [found] = await row(service, "acme")
    assert found == {
        "id": UUID(body["id"]),
        "status": "provisioning",
        "resource_uid": None,
        "resource_namespace": NAMESPACE,
        "resource_name": "acme",
    }
    # The operator's part, with the rights that it has and the API has not.
    registry = service.factory.create_tenant_resource_service()
    owner = ResourceOwner(uid=resource["metadata"]["uid"], namespace=NAMESPACE, name="acme")
    state = await registry.claim(owner, "acme", WantedTenant(name="Acme GmbH", settings={"locale": "de"}))
    assert str(state.tenant_id) == body["id"]
    for environment in ("test", "production"):
        await registry.ensure_environment(state.tenant_id, environment, adopt=False)
    ada = WantedUser(username="ada@acme", subject="s-ada", roles=("admin",), environments=("test", "production"))
    [user] = await registry.sync_users(state.tenant_id, [ada])
    assert str(user.user_id) == body["admin"]["id"]
    after = await registry.find(owner)
    assert after is not None
    assert after.status == "active"


async def test_a_password_and_a_name_that_is_too_long_are_refused_before_anything(
    service: Service, kube: FakeCluster
) -> None:
    refused = await make(service, name="Bad", admin={"username": "a", "password": "correct horse"})
    assert (refused.status_code, fields(refused)) == (422, {("/admin/password", "not_allowed")})
    assert fields(await make(service, name="x" * 201, slug="long")) == {("/name", "string_too_long")}
    assert kube.asked == []
    assert await row(service, "bad") == []


async def test_who_asks_again_with_the_same_key_gets_the_same_tenant(service: Service, kube: FakeCluster) -> None:
    first, again = [await make(service, "again-1", name="Again") for _ in range(2)]
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()
    assert code(await make(service, name="Again")) == "slug_taken"
    assert code(await make(service, "again-2", name="Again")) == "slug_taken"
    assert [method for method, _ in kube.asked].count("POST") == 1


@pytest.mark.parametrize("failure", ["refused", "status", "html", "hangs_up"])
async def test_a_request_that_breaks_off_before_the_resource_goes_on_when_asked_again(
    service: Service, kube: FakeCluster, failure: str
) -> None:
    async def broken(request: web.BaseRequest) -> web.StreamResponse | None:
        if request.method != "POST":
            return None
        if failure == "hangs_up":
            assert request.transport is not None
            request.transport.abort()
        if failure == "html":
            return web.Response(body=b"<html>", status=502)
        return status(403, "Forbidden") if failure == "refused" else status(500, "InternalError")

    kube.answer = broken
    slug = f"broken-{failure.replace('_', '-')}"
    first = await make(service, slug, name="Broken", slug=slug)
    assert (first.status_code, code(first)) == (503, "service_unavailable")
    assert "retry-after" in first.headers
    [registered] = await row(service, slug)
    kube.answer = None
    assert code(await make(service, name="Other", slug=slug)) == "slug_taken"  # the first may still be under way
    again = await make(service, slug, name="Broken", slug=slug)
    assert (again.status_code, again.json()["id"]) == (202, str(registered["id"]))
    assert kube.resources[slug]["metadata"]["annotations"]["payrec.dev/tenant-id"] == str(registered["id"])


async def test_without_a_key_a_broken_request_is_taken_over_when_it_must_have_ended(
    service: Service, kube: FakeCluster
) -> None:
    async def away(_request: web.BaseRequest) -> web.StreamResponse | None:
        return status(503, "ServiceUnavailable") if _request.method == "POST" else None

    kube.answer = away
    body: dict[str, Any] = {"slug": "half", "environments": ["test"], "admin": {"username": "half"}}
    assert (await make(service, name="Half", **body)).status_code == 503
    [registered] = await row(service, "half")
    kube.answer = None
    await in_control(
        service, "UPDATE tenant SET updated_at = updated_at - %s WHERE slug = 'half'", RESOURCE_MADE_WITHIN
    )
    again = await make(service, name="Whole", **body)
    assert (again.status_code, again.json()["id"], again.json()["name"]) == (202, str(registered["id"]), "Whole")
    assert kube.resources["half"]["spec"]["displayName"] == "Whole"


async def test_a_resource_of_somebody_else_is_slug_taken_and_leaves_no_row(service: Service, kube: FakeCluster) -> None:
    kube.apply("theirs")
    assert code(await make(service, name="Theirs")) == "slug_taken"
    assert await row(service, "theirs") == []

    async def late(request: web.BaseRequest) -> web.StreamResponse | None:
        if request.method == "POST":
            kube.apply("late")
        return None

    kube.answer = late
    answers = [await make(service, "late", name="Late") for _ in range(2)]
    assert [(a.status_code, a.json()["code"]) for a in answers] == [(409, "slug_taken")] * 2
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert await row(service, "late") == []


async def test_what_the_api_server_refuses_is_named_and_leaves_no_row(service: Service, kube: FakeCluster) -> None:
    async def strict(request: web.BaseRequest) -> web.StreamResponse | None:
        if request.method == "POST":
            return status(422, "Invalid", "spec.settings.locale", "spec.users[0].username", "spec.mystery")
        return None

    kube.answer = strict
    refused = await make(service, "strict", name="Strict")
    assert fields(refused) == {("/settings/locale", "refused"), ("/admin", "refused"), ("", "refused")}
    assert "secret-value" not in refused.text
    assert await row(service, "strict") == []
    kube.answer = None
    assert (await make(service, "strict", name="Strict")).status_code == 202


async def test_of_many_at_once_one_is_made(service: Service, kube: FakeCluster) -> None:
    answers = await asyncio.gather(*(make(service, name="Crowd", environments=["test"]) for _ in range(20)))
    assert Counter(a.status_code for a in answers) == {202: 1, 409: 19}
    [made] = [a for a in answers if a.status_code == 202]
    assert kube.resources["crowd"]["metadata"]["annotations"]["payrec.dev/tenant-id"] == made.json()["id"]


async def test_an_answer_without_end_is_cut_off(service: Service, kube: FakeCluster) -> None:
    async def endless(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b'{"a":"' + b"x" * 2**21, status=200)

    kube.answer = endless
    assert (await make(service, name="Endless")).status_code == 503
    assert await row(service, "endless") == []


async def test_another_certificate_is_not_believed(postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with cloned(postgres) as database:
        async with cluster(tmp_path) as one, cluster(tmp_path / "other") as other:
            settings = {**one.settings, "service_account_dir": other.folder}
            async with running(make_config(database, **settings), worker=False) as service:
                assert (await make(service, name="Acme")).status_code == 503
                assert one.asked == []
