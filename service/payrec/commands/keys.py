"""``payrec keys``: create, list, revoke."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from payrec.commands.administration import ADMINISTRATOR, administer
from payrec.commands.terminal import say, table
from payrec.domain.caller import Caller
from payrec.factory import Factory
from payrec.models.api_keys import ApiKeyCreate, ApiKeyPublic, ApiKeyQuery
from payrec.services.validation import validated

PAGE_SIZE = 200


def run(arguments: argparse.Namespace) -> int:
    """Do one of the actions."""
    return administer({"create": _create, "list": _list, "revoke": _revoke}[arguments.action], arguments)


async def _create(factory: Factory, arguments: argparse.Namespace) -> None:
    given = {
        "name": arguments.name,
        "read": arguments.read,
        "write": arguments.write,
        "expiresAt": arguments.expires_at,
    }
    body = validated(ApiKeyCreate, {name: value for name, value in given.items() if value is not None}, pointer="")
    caller = await _caller(factory, arguments)
    made = await factory.create_api_key_service().create(caller, body)
    # The key alone, so that it can be taken with $(…); it is shown this once.
    say(str(made.api_key))


async def _list(factory: Factory, arguments: argparse.Namespace) -> None:
    caller = await _caller(factory, arguments)
    service = factory.create_api_key_service()
    found: list[ApiKeyPublic] = []
    cursor: str | None = None
    while True:
        page = await service.page(caller, ApiKeyQuery(limit=PAGE_SIZE, sort="createdAt", cursor=cursor))
        found.extend(page.data)
        cursor = page.next_cursor
        if cursor is None:
            break
    rows = [
        (
            k.public_id,
            k.status,
            " ".join(flag for flag, has in (("read", k.read), ("write", k.write)) if has),
            str(k.id),
            _instant(k.last_used_at),
            _instant(k.expires_at),
            k.name or "",
        )
        for k in found
    ]
    say(table(("public id", "status", "flags", "id", "last used", "expires", "name"), rows))


async def _revoke(factory: Factory, arguments: argparse.Namespace) -> None:
    caller = await _caller(factory, arguments)
    await factory.create_api_key_service().revoke(caller, str(arguments.id))
    say(f"revoked {arguments.id}")


async def _caller(factory: Factory, arguments: argparse.Namespace) -> Caller:
    scope = await factory.create_tenant_service().scope(arguments.tenant, arguments.environment)
    return Caller(principal=ADMINISTRATOR.principal, request_id=ADMINISTRATOR.request_id, scope=scope)


def _instant(at: datetime | None) -> str:
    """Return an instant to the second, as RFC 3339 has it and ``--expires-at`` takes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at is not None else "never"
