"""Every route times every principal, against the identity provider that the fixture ``provider`` gives.

What is expected is computed from the table below and from ``support.principals``, both written by hand, never from the
routes' own table. A module of tests takes these in by name.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.gate.routes import ROUTES
from support.principals import PRINCIPALS, Asker
from support.providers import EmbeddedProvider
from support.world import World, in_production, shared_database, world

__all__ = [
    "pytestmark",
    "shared_database",
    "test_another_provider_s_routes_do_not_exist",
    "test_every_route_is_in_the_table",
    "test_outside_development_creating_a_tenant_is_for_platform_administrators",
    "test_what_a_principal_may",
    "world",
]

pytestmark = pytest.mark.anyio

TABLE = """
public      GET     /api/health
public      GET     /api/docs
public      GET     /api/docs/{file}
public      GET     /api/openapi.json
public      GET     /problems/{name}
public      GET     /idp/.well-known/openid-configuration
public      GET     /idp/jwks
public      POST    /idp/token
public      POST    /auth/token
token       POST    /auth/api-keys                               api-keys:manage
token       GET     /auth/api-keys                               api-keys:manage
token       GET     /auth/api-keys/{key_id}                      api-keys:manage
token       DELETE  /auth/api-keys/{key_id}                      api-keys:manage
development POST    /tenants                                     tenants:manage
standard    GET     /tenants                                     read tenants:manage
standard    GET     /tenants/{tenant_id}                         read tenants:manage
standard    PATCH   /tenants/{tenant_id}                         tenants:manage
standard    GET     /tenants/{tenant_id}/settings                read tenants:manage
standard    PATCH   /tenants/{tenant_id}/settings                settings:manage
standard    POST    /expected-transactions                       write
standard    GET     /expected-transactions                       read
standard    POST    /expected-transactions/bulk                  write
standard    POST    /expected-transactions/upload                write
standard    POST    /expected-transactions/snapshots             write
standard    GET     /expected-transactions/snapshots             read
standard    GET     /expected-transactions/snapshots/{snapshot_id}  read
standard    GET     /expected-transactions/snapshots/{snapshot_id}/differences  read
standard    GET     /expected-transactions/{transaction_id}      read
standard    PATCH   /expected-transactions/{transaction_id}      write
standard    POST    /expected-transactions/{transaction_id}/void  write
standard    GET     /expected-transactions/{transaction_id}/candidates  read
standard    POST    /incoming-transactions                       write
standard    GET     /incoming-transactions                       read
standard    POST    /incoming-transactions/bulk                  write
standard    POST    /incoming-transactions/upload                write
standard    POST    /incoming-transactions/upload/preview        write
standard    GET     /incoming-transactions/{transaction_id}      read
standard    GET     /incoming-transactions/{transaction_id}/candidates  read
standard    POST    /incoming-transactions/{transaction_id}/ignore  write
standard    POST    /incoming-transactions/{transaction_id}/classify  write
standard    POST    /incoming-transactions/{transaction_id}/restore  write
standard    POST    /incoming-transactions/{transaction_id}/link-reversal  matches:accept
standard    POST    /data-sources                                settings:manage
standard    GET     /data-sources                                read
standard    GET     /data-sources/{source_id}                    read
standard    PATCH   /data-sources/{source_id}                    settings:manage
standard    DELETE  /data-sources/{source_id}                    settings:manage
standard    POST    /data-sources/{source_id}/sync               write
standard    POST    /accounts                                    settings:manage
standard    GET     /accounts                                    read
standard    GET     /accounts/{account_id}                       read
standard    PATCH   /accounts/{account_id}                       settings:manage
standard    PUT     /accounts/{account_id}/book-balances         write
standard    GET     /accounts/{account_id}/reconciliation        read
standard    GET     /accounts/{account_id}/reconciliation/lines  read
standard    GET     /postings                                    read
standard    POST    /postings/acknowledgements                   periods:manage
standard    GET     /postings/acknowledgements                   read
standard    POST    /period-locks                                periods:manage
standard    GET     /period-locks                                read
standard    GET     /period-locks/{lock_id}                      read
standard    POST    /period-locks/{lock_id}/reopen               periods:manage
standard    GET     /imports                                     read
standard    GET     /imports/{import_id}                         read
standard    GET     /imports/{import_id}/errors                  read
standard    GET     /imports/{import_id}/content                 read
standard    POST    /matches/match                               write
standard    GET     /matches                                     read
standard    GET     /matches/{match_id}                          read
standard    GET     /matches/{match_id}/record                   read
standard    GET     /matches/{match_id}/alternatives             read
standard    POST    /matches                                     matches:accept
standard    POST    /matches/import                              matches:accept
standard    POST    /matches/accept                              matches:accept
standard    POST    /matches/reject                              matches:accept
standard    POST    /matches/{match_id}/accept                   matches:accept
standard    POST    /matches/{match_id}/approve                  matches:accept
standard    POST    /matches/{match_id}/reject                   matches:accept
standard    POST    /matches/{match_id}/reverse                  matches:accept
standard    GET     /matching/calibration                        read
standard    DELETE  /matching/calibration                        settings:manage
standard    GET     /matching/aliases                            read
standard    DELETE  /matching/aliases/{alias_id}                 matches:accept
standard    GET     /matching/rejections                         read
standard    DELETE  /matching/rejections/{match_id}              matches:accept
standard    POST    /privacy/erasures                            privacy:erase
standard    GET     /privacy/erasures                            read
standard    GET     /privacy/erasures/{erasure_id}               read
standard    PUT     /fx-rates                                    matches:accept
standard    GET     /fx-rates                                    read
standard    POST    /fx-rates/upload                             matches:accept
standard    POST    /remittance-advices                          write
standard    GET     /remittance-advices                          read
standard    GET     /remittance-advices/{advice_id}              read
standard    GET     /reports/summary                             read
standard    GET     /reports/ageing                              read
standard    GET     /reports/open-balances                       read
standard    GET     /reports/exceptions                          read
standard    GET     /events                                      read
standard    GET     /events/{event_id}                           read
standard    POST    /webhooks                                    webhooks:manage
standard    GET     /webhooks                                    read
standard    GET     /webhooks/{webhook_id}                       read
standard    PATCH   /webhooks/{webhook_id}                       webhooks:manage
standard    DELETE  /webhooks/{webhook_id}                       webhooks:manage
standard    POST    /webhooks/{webhook_id}/rotate-secret         webhooks:manage
standard    POST    /webhooks/{webhook_id}/test                  webhooks:manage
standard    GET     /webhooks/{webhook_id}/deliveries            read
standard    POST    /webhooks/{webhook_id}/redeliver             webhooks:manage
standard    GET     /jobs                                        read
standard    POST    /jobs                                        write
standard    GET     /jobs/{job_id}                               read
standard    POST    /jobs/{job_id}/cancel                        write
standard    GET     /exports/{export_id}/content                 read
standard    GET     /audit-log                                   read
public      GET     /console
public      GET     /console/sign-in
public      POST    /console/sign-in
public      POST    /console/sign-out
public      POST    /console/authorise
public      GET     /console/callback
public      GET     /console/signed-in
public      GET     /console/static/{version}/{file}
session     GET     /console/{environment}                       read
session     GET     /console/{environment}/overview              read
session     GET     /console/{environment}/overview/figures      read
session     GET     /console/{environment}/overview/activity     read
session     GET     /console/{environment}/review                read
session     GET     /console/{environment}/review/queue          read
session     GET     /console/{environment}/review/items/{match_id} read
session     GET     /console/{environment}/review/items/{match_id}/choices read
session     GET     /console/{environment}/matches/{match_id}    read
session     GET     /console/{environment}/unmatched             read
session     GET     /console/{environment}/unmatched/{side}/{transaction_id}/candidates read
session     GET     /console/{environment}/search                read
session     GET     /console/{environment}/incoming/{transaction_id} read
session     GET     /console/{environment}/expected/{transaction_id} read
session     GET     /console/{environment}/imports               read
session     GET     /console/{environment}/imports/timeline      read
session     GET     /console/{environment}/imports/{import_id}   read
session     GET     /console/{environment}/imports/{import_id}/findings.csv read
session     GET     /console/{environment}/imports/{import_id}/file read
session     GET     /console/{environment}/imports/{import_id}/lines read
session     GET     /console/{environment}/month-end             read
session     GET     /console/{environment}/month-end/readiness   read
session     GET     /console/{environment}/month-end/{account_id} read
session     GET     /console/{environment}/month-end/{account_id}/statement read
session     GET     /console/{environment}/month-end/{account_id}/statement.csv read
session     GET     /console/{environment}/month-end/{account_id}/lines.csv read
"""
"""Who is let in: method, path, and the permissions of which one is enough."""

ORACLE = {(row[1], row[2]): (row[0], frozenset(row[3:])) for row in map(str.split, TABLE.strip().splitlines())}

GATE_STATUSES = {401, 403}
GATE_CODES = {
    "missing_credentials",
    "invalid_credentials",
    "expired_credentials",
    "revoked_credentials",
    "unknown_user",
    "user_disabled",
    "tenant_suspended",
    "identity_provider_unavailable",
    "missing_tenant_header",
    "invalid_tenant_header",
    "missing_environment_header",
    "invalid_environment_header",
    "tenant_mismatch",
    "environment_mismatch",
    "environment_suspended",
    "tenant_provisioning",
    "jwt_required",
    "insufficient_permission",
    "rate_limited",
}
AT_ONCE = 8
"""Requests under way at a time."""


def expected(asker: Asker, method: str, path: str, *, in_development: bool = True) -> tuple[int, str] | None:
    """Return status and code of the gate's refusal, None where it lets the request through."""
    access, permissions = ORACLE[method, path]
    # A page knows the console's cookie alone, and sends everybody else to sign in.
    if access in {"public", "session"} or (access == "development" and in_development):
        return None
    if asker.refused is not None:
        return asker.refused
    if access == "token" and asker.kind == "key":
        return 403, "jwt_required"
    return None if asker.may & permissions else (403, "insufficient_permission")


async def refusal(world: World, asker: Asker, method: str, path: str) -> tuple[int, str] | None:
    """Send a request that changes nothing, and return the gate's refusal."""
    options: dict[str, Any] = {}
    if path.startswith("/incoming-transactions/upload"):
        options = {"content": b"nothing", "headers": {"Content-Type": "text/plain"}}
    elif path == "/idp/token":
        options = {"data": {"grant_type": "none"}}
    elif method in {"POST", "PATCH", "PUT"}:
        options = {"json": {"noSuchMember": True}}
    headers = [*asker.headers, *options.pop("headers", {}).items()]
    answer = await world.ask(method, re.sub(r"\{\w+\}", str(uuid4()), path), headers, **options)
    assert answer.status_code < 500 or answer.status_code == 503, f"{method} {path}: {answer.text}"
    code = _code(answer)
    # The console's forms ask where a request comes from, and refuse it by a page.
    if path != "/idp/token" and not path.startswith("/console") and answer.status_code in GATE_STATUSES:
        assert code in GATE_CODES, f"{method} {path}: {answer.text}"
    return (answer.status_code, code) if code in GATE_CODES else None


def _code(answer: httpx2.Response) -> str:
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    return str(answer.json()["code"]) if is_problem else ""


async def differences(
    world: World, asker: Asker, routes: list[tuple[str, str]], *, in_development: bool = True
) -> list[str]:
    """Return where the gate does something else than the table says."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def difference(method: str, path: str) -> str | None:
        async with turn:
            found = await refusal(world, asker, method, path)
        wanted = expected(asker, method, path, in_development=in_development)
        return f"{method} {path}: {found} instead of {wanted}" if found != wanted else None

    found = await asyncio.gather(*(difference(*route) for route in routes))
    return [line for line in found if line is not None]


def test_every_route_is_in_the_table() -> None:
    """A route that nobody has thought about here is a failure."""
    names = {"PUBLIC": "public", "STANDARD": "standard", "JWT_ONLY": "token", "PUBLIC_IN_DEVELOPMENT": "development"}
    names["SESSION"] = "session"
    routes = {(r.method, r.path): (names[r.access.name], frozenset(p.value for p in r.permissions)) for r in ROUTES}
    assert routes == ORACLE


@pytest.mark.parametrize("name", PRINCIPALS)
async def test_what_a_principal_may(world: World, name: str) -> None:
    asker = await PRINCIPALS[name](world)
    assert await differences(world, asker, list(ORACLE)) == []


async def test_another_provider_s_routes_do_not_exist(world: World) -> None:
    embedded = isinstance(world.provider, EmbeddedProvider)
    answer = await world.ask("GET", "/idp/jwks", {})
    assert (answer.status_code, _code(answer)) == ((200, "") if embedded else (404, "not_found"))


async def test_outside_development_creating_a_tenant_is_for_platform_administrators(
    world: World, shared_database: EmbeddedDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = []
    async with in_production(world, shared_database, tmp_path, monkeypatch) as there:
        for name, made in PRINCIPALS.items():
            lines = await differences(there, await made(there), [("POST", "/tenants")], in_development=False)
            wrong += [f"{name}: {line}" for line in lines]
    assert wrong == []
