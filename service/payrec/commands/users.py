"""``payrec users``: add, list, enable, disable, and change what they may do."""

from __future__ import annotations

import argparse
import asyncio
import sys

from payrec.commands.administration import ADMINISTRATOR, administer
from payrec.commands.terminal import say, table
from payrec.constants import PASSWORD_LENGTH_MAX
from payrec.errors import ConfigurationError
from payrec.factory import Factory
from payrec.models.tenants import AdminCreate
from payrec.services.users import NewUser
from payrec.services.validation import validated


def run(arguments: argparse.Namespace) -> int:
    """Do one of the actions."""
    actions = {
        "add": _add,
        "list": _list,
        "enable": _enable,
        "disable": _disable,
        "set-roles": _set_roles,
        "set-environments": _set_environments,
    }
    return administer(actions[arguments.action], arguments)


async def _add(factory: Factory, arguments: argparse.Namespace) -> None:
    given = {"username": arguments.username, "email": arguments.email, "subject": arguments.subject}
    password: str | None = None
    if arguments.password_stdin:
        if factory.context.passwords is None:
            raise ConfigurationError(
                "--password-stdin is for the embedded identity provider; with IDP_ISSUER_URL, passwords are kept there"
            )
        password = await asyncio.to_thread(_read_password)
        given["password"] = password
    checked = validated(AdminCreate, {name: value for name, value in given.items() if value is not None}, pointer="")
    tenant = await factory.create_tenant_service().find(arguments.tenant)
    password_hash = None
    if password is not None and factory.context.passwords is not None:
        password_hash = await factory.context.passwords.hash(password)
    user_id = await factory.create_user_service().add(
        ADMINISTRATOR,
        tenant.id,
        NewUser(
            username=checked.username,
            roles=arguments.roles,
            environments=arguments.environments or [e.environment for e in tenant.environments],
            email=checked.email,
            subject=checked.subject,
            user_id=arguments.id,
        ),
        password_hash=password_hash,
    )
    say(str(user_id))


async def _list(factory: Factory, arguments: argparse.Namespace) -> None:
    tenant = await factory.create_tenant_service().find(arguments.tenant)
    users = await factory.create_user_service().of_tenant(tenant.id)
    rows = [
        (
            u["username"],
            u["status"],
            ", ".join(u["roles"]),
            ", ".join(u["environments"]),
            "yes" if u["subject"] is not None else "no",
            str(u["id"]),
            u["email"] or "",
        )
        for u in users
    ]
    say(table(("username", "status", "roles", "environments", "linked", "id", "email"), rows))


async def _enable(factory: Factory, arguments: argparse.Namespace) -> None:
    await factory.create_user_service().change(ADMINISTRATOR, arguments.username, status="active")
    say(f"enabled {arguments.username}")


async def _disable(factory: Factory, arguments: argparse.Namespace) -> None:
    service = factory.create_user_service()
    await service.change(ADMINISTRATOR, arguments.username, status="disabled")
    say(f"disabled {arguments.username}")
    keys = await service.open_keys(arguments.username)
    if keys:
        say(f"keys that {arguments.username} has made open what they did until they are revoked:")
        rows = [(k["public_id"], k["slug"], k["environment"], str(k["id"]), k["name"] or "") for k in keys]
        say(table(("public id", "tenant", "environment", "id", "name"), rows))


async def _set_roles(factory: Factory, arguments: argparse.Namespace) -> None:
    await factory.create_user_service().change(ADMINISTRATOR, arguments.username, roles=arguments.roles)
    say(f"{arguments.username} is {', '.join(arguments.roles)}")


async def _set_environments(factory: Factory, arguments: argparse.Namespace) -> None:
    await factory.create_user_service().change(ADMINISTRATOR, arguments.username, environments=arguments.environments)
    say(f"{arguments.username} may enter {', '.join(arguments.environments)}")


def _read_password() -> str:
    """Return the first line of standard input; never an argument, which every user of the machine can see."""
    line = sys.stdin.readline(PASSWORD_LENGTH_MAX + 2)
    return line.rstrip("\r\n")
