"""``payrec tenants``: create, list, suspend, resume, delete; and what a backup has of their registration."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from payrec.commands.administration import ADMINISTRATOR, administer
from payrec.commands.terminal import say, table
from payrec.constants.tenants import REGISTRATION_BYTES_MAX
from payrec.domain.scope import TenantScope
from payrec.errors import ConfigurationError, ConflictError
from payrec.factory import Factory
from payrec.models.tenant_registrations import TenantRegistration
from payrec.models.tenants import TenantCreate, TenantPatch, TenantPublic, TenantQuery
from payrec.services.validation import field_errors, validated

PAGE_SIZE = 200


def run(arguments: argparse.Namespace) -> int:
    """Do one of the actions."""
    if arguments.action == "delete":
        _confirm(arguments)
    actions = {
        "create": _create,
        "list": _list,
        "suspend": _suspend,
        "resume": _resume,
        "delete": _delete,
        "export-registration": _export_registration,
        "restore-registration": _restore_registration,
        "mend": _mend,
        "wake": _wake,
    }
    return administer(actions[arguments.action], arguments, ready=arguments.action != "mend")


async def _create(factory: Factory, arguments: argparse.Namespace) -> None:
    if factory.context.config.tenant_provisioner == "database":
        _need_admin(factory)
    given = {"name": arguments.name, "slug": arguments.slug, "environments": arguments.environments}
    body = validated(TenantCreate, {name: value for name, value in given.items() if value is not None}, pointer="")
    tenant = await factory.create_tenant_service().create(ADMINISTRATOR, body)
    say(_table([tenant]))


async def _list(factory: Factory, arguments: argparse.Namespace) -> None:
    service = factory.create_tenant_service()
    found: list[TenantPublic] = []
    cursor: str | None = None
    while True:
        query = TenantQuery(limit=PAGE_SIZE, status=arguments.status, sort="createdAt", cursor=cursor)
        page = await service.page(ADMINISTRATOR, query)
        found.extend(page.data)
        cursor = page.next_cursor
        if cursor is None:
            break
    say(_table(found))


async def _suspend(factory: Factory, arguments: argparse.Namespace) -> None:
    await _change(factory, arguments.slug, TenantPatch(status="suspended"))


async def _resume(factory: Factory, arguments: argparse.Namespace) -> None:
    await _change(factory, arguments.slug, TenantPatch(status="active"))


async def _change(factory: Factory, slug: str, patch: TenantPatch) -> None:
    service = factory.create_tenant_service()
    tenant = await service.find(slug)
    if tenant.status not in {"active", "suspended"}:
        raise ConflictError(f"the tenant {slug} is {tenant.status}")
    etag = f'"{tenant.version}"'
    say(_table([await service.patch(ADMINISTRATOR, str(tenant.id), patch, etag)]))


async def _delete(factory: Factory, arguments: argparse.Namespace) -> None:
    _need_admin(factory)
    await factory.create_tenant_service().delete(ADMINISTRATOR, arguments.slug)
    say(f"deleted {arguments.slug}")


async def _export_registration(factory: Factory, arguments: argparse.Namespace) -> None:
    found = await factory.create_tenant_registration_service().export(arguments.slug)
    say(found.model_dump_json(by_alias=True, indent=2))


async def _restore_registration(factory: Factory, arguments: argparse.Namespace) -> None:
    _need_admin(factory)
    given = _registration(arguments.file)
    scopes = await factory.create_tenant_registration_service().restore(ADMINISTRATOR, given)
    say(_places(scopes))


async def _mend(factory: Factory, _arguments: argparse.Namespace) -> None:
    _need_admin(factory)
    say(_places(await factory.create_tenant_registration_service().mend()))


async def _wake(factory: Factory, arguments: argparse.Namespace) -> None:
    count = await factory.create_tenant_registration_service().wake(arguments.slug)
    say(f"workers look at {count} environments of {arguments.slug}")


def _places(scopes: Sequence[TenantScope]) -> str:
    return table(("environment", "schema", "role"), [(s.environment, s.schema_name, s.role_name) for s in scopes])


def _registration(path: Path) -> TenantRegistration:
    try:
        with path.open("rb") as file:
            text = file.read(REGISTRATION_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > REGISTRATION_BYTES_MAX:
        raise ConfigurationError(f"{path} has more than {REGISTRATION_BYTES_MAX} bytes: it is no registration")
    try:
        return TenantRegistration.model_validate_json(text)
    except ValidationError as error:
        first = field_errors(error.errors(include_url=False, include_input=False))[0]
        raise ConfigurationError(f"{path} is no registration: {first.pointer or '/'} {first.detail}") from None


def _need_admin(factory: Factory) -> None:
    if factory.context.config.admin_database_url is None:
        raise ConfigurationError("ADMIN_DATABASE_URL is not set")


def _confirm(arguments: argparse.Namespace) -> None:
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError("--yes is needed where nobody can be asked: a deleted tenant cannot be brought back")
    sys.stdout.write(f"This deletes the tenant {arguments.slug} with all of its data. Type its slug to go on: ")
    sys.stdout.flush()
    if sys.stdin.readline().strip() != arguments.slug:
        raise ConfigurationError("not confirmed, so nothing was deleted")


def _table(tenants: list[TenantPublic]) -> str:
    rows = [
        (t.slug, t.status, str(t.id), ", ".join(_environment(e.environment, e.status) for e in t.environments), t.name)
        for t in tenants
    ]
    return table(("slug", "status", "id", "environments", "name"), rows)


def _environment(name: str, status: str) -> str:
    return name if status == "active" else f"{name} ({status})"
