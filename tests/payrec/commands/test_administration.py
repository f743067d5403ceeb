"""tenants, users and keys: each action on a real database, seen from the API that runs beside it."""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime

import httpx2
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from payrec.cli import _parser, main
from payrec.embedded.passwords import PasswordHasher
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.storage.provisioning import login_of
from support.commands import environment
from support.postgres import cloned
from support.service import Service, make_config, running

pytestmark = pytest.mark.anyio

Command = Callable[..., Awaitable[str]]


@pytest.fixture(scope="module")
def shared(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    with cloned(postgres) as made:
        yield made


@pytest.fixture(scope="module")
async def api(shared: EmbeddedDatabase) -> AsyncIterator[Service]:
    # It checks passwords that the command has hashed.
    async with running(make_config(shared), worker=False, passwords=PasswordHasher()) as started:
        yield started


@pytest.fixture
def payrec(shared: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return the command in a thread of its own: its output, or AssertionError with what it complained of."""
    for name, value in environment(shared).items():
        monkeypatch.setenv(name, value)

    async def call(*arguments: str, fails: int = 0) -> str:
        capsys.readouterr()
        code = await asyncio.to_thread(main, list(arguments))
        captured = capsys.readouterr()
        assert code == fails, captured.err
        return captured.err.strip() if fails else captured.out.strip()

    return call


async def _token(api: Service, username: str, password: str) -> httpx2.Response:
    return await api.http.post(f"{api.base_url}/auth/token", json={"username": username, "password": password})


async def _get(api: Service, tenant_id: str, *, environment_name: str = "test", **headers: str) -> httpx2.Response:
    return await api.http.get(
        f"{api.base_url}/matches",
        headers={"X-Tenant-Id": tenant_id, "X-Environment": environment_name, **headers},
    )


def _row(output: str, first: str) -> list[str]:
    """Return the columns of the row that begins with a word."""
    [line] = [line for line in output.splitlines() if line.split()[:1] == [first]]
    return [part.strip() for part in line.split("  ") if part.strip()]


async def test_a_tenant_is_created_listed_suspended_resumed_and_deleted(api: Service, payrec: Command) -> None:
    created = _row(await payrec("tenants", "create", "--name", "Round Trip", "--environments", "test"), "round-trip")
    slug, status, tenant_id, environments, name = created
    assert (slug, status, environments, name) == ("round-trip", "active", "test", "Round Trip")
    key = await payrec("keys", "create", "--tenant", slug, "--environment", "test", "--read")
    headers = {"X-Api-Key": key}
    assert (await _get(api, tenant_id, **headers)).status_code == 200

    assert _row(await payrec("tenants", "suspend", slug), slug)[1] == "suspended"
    assert (await _get(api, tenant_id, **headers)).json()["code"] == "tenant_suspended"
    assert slug in await payrec("tenants", "list", "--status", "suspended")
    assert _row(await payrec("tenants", "resume", slug), slug)[1] == "active"
    assert (await _get(api, tenant_id, **headers)).status_code == 200

    assert await payrec("tenants", "delete", slug, "--yes") == f"deleted {slug}"
    assert (await _get(api, tenant_id, **headers)).status_code == 401
    assert slug not in await payrec("tenants", "list")
    assert f"there is no tenant {slug}" in await payrec("tenants", "suspend", slug, fails=1)


async def test_a_deletion_that_nobody_confirms_does_not_happen(
    payrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    await payrec("tenants", "create", "--name", "Kept", "--environments", "test")
    monkeypatch.setattr(sys, "stdin", io.StringIO("kept\n"))

    assert "--yes" in await payrec("tenants", "delete", "kept", fails=2)
    assert "kept" in await payrec("tenants", "list")


async def test_a_slug_that_is_taken_or_cannot_be_one_is_said(payrec: Command) -> None:
    await payrec("tenants", "create", "--name", "Taken", "--environments", "test")

    assert "slug is taken" in await payrec("tenants", "create", "--name", "Taken", "--environments", "test", fails=1)
    assert "slug" in await payrec("tenants", "create", "--name", "X", "--slug", "Not A Slug", fails=1)


async def test_a_user_logs_in_is_disabled_enabled_and_restricted(
    api: Service, payrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await payrec("tenants", "create", "--name", "People", "--environments", "test,staging")
    tenant_id = _row(created, "people")[2]
    monkeypatch.setattr(sys, "stdin", io.StringIO("pässwörd of eve\n"))
    user_id = await payrec(
        "users", "add", "--tenant", "people", "--username", "eve", "--roles", "viewer,operator",
        "--email", "eve@people.example", "--password-stdin",
    )  # fmt: skip
    listed = _row(await payrec("users", "list", "--tenant", "people"), "eve")
    assert listed == ["eve", "active", "viewer, operator", "staging, test", "yes", user_id, "eve@people.example"]
    token = await _token(api, "eve", "pässwörd of eve")
    headers = {"Authorization": f"Bearer {token.json()['accessToken']}"}
    assert (await _get(api, tenant_id, **headers)).status_code == 200
    assert (await _token(api, "eve", "another")).status_code == 401

    assert await payrec("users", "disable", "--username", "eve") == "disabled eve"
    assert (await _get(api, tenant_id, **headers)).json()["code"] == "user_disabled"
    assert await payrec("users", "enable", "--username", "eve") == "enabled eve"
    assert (await _get(api, tenant_id, **headers)).status_code == 200
    said = await payrec("users", "set-environments", "--username", "eve", "--environments", "staging")
    assert said == "eve may enter staging"
    assert (await _get(api, tenant_id, **headers)).json()["code"] == "environment_mismatch"
    said = await payrec("users", "set-roles", "--username", "eve", "--roles", "platform-admin")
    assert said == "eve is platform-admin"
    answer = await _get(api, tenant_id, environment_name="staging", **headers)
    assert answer.json()["code"] == "insufficient_permission"


async def test_a_user_of_an_external_provider_is_added_with_id_and_subject(payrec: Command) -> None:
    await payrec("tenants", "create", "--name", "External", "--environments", "test")
    wanted = "0192f0c1-2d3e-7a4b-8c5d-6e7f8091a2b3"

    made = await payrec(
        "users", "add", "--tenant", "external", "--username", "kim", "--roles", "approver", "--id", wanted,
        "--subject", "kc-7",
    )  # fmt: skip
    assert made == wanted
    taken = await payrec("users", "add", "--tenant", "external", "--username", "kim", "--roles", "viewer", fails=1)
    assert "username" in taken
    added = await payrec("users", "add", "--tenant", "external", "--username", "lea", "--roles", "viewer")
    taken = await payrec(
        "users", "add", "--tenant", "external", "--username", "max", "--roles", "viewer", "--subject", "kc-7", fails=1
    )
    assert taken == "payrec: another user has this subject"
    listed = await payrec("users", "list", "--tenant", "external")
    assert "max" not in listed
    assert (_row(listed, "kim")[4:], _row(listed, "lea")[4:]) == (["yes", made], ["no", added])


async def test_a_password_is_refused_where_the_provider_keeps_them(
    payrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDP_ISSUER_URL", "https://idp.example")
    monkeypatch.setenv("IDP_CLIENT_SECRET", "s")

    complaint = await payrec(
        "users", "add", "--tenant", "t", "--username", "u", "--roles", "viewer", "--password-stdin", fails=2
    )
    assert "IDP_ISSUER_URL" in complaint


async def test_a_password_that_is_too_short_is_refused_without_an_echo(
    payrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("tiny\n"))

    complaint = await payrec(
        "users", "add", "--tenant", "t", "--username", "u", "--roles", "viewer", "--password-stdin", fails=1
    )
    assert "password" in complaint
    assert "tiny" not in complaint


@pytest.mark.parametrize("action", [["disable"], ["enable"], ["set-roles", "--roles", "viewer"]])
async def test_a_user_who_is_not_there_is_said(payrec: Command, action: list[str]) -> None:
    assert "no such user" in await payrec("users", action[0], "--username", "nobody", *action[1:], fails=1)


async def test_a_key_is_created_listed_used_and_revoked(api: Service, payrec: Command) -> None:
    tenant_id = _row(await payrec("tenants", "create", "--name", "Keys", "--environments", "test"), "keys")[2]
    where = ("--tenant", "keys", "--environment", "test")
    key = await payrec("keys", "create", *where, "--read", "--name", "ledger", "--expires-at", "2999-01-01T00:00:00Z")
    public_id = key.removeprefix("pr_").partition(".")[0]

    listed = await payrec("keys", "list", *where)
    _, status, flags, key_id, used, expires, name = _row(listed, public_id)
    assert (status, flags, used, expires, name) == ("active", "read", "never", "2999-01-01T00:00:00Z", "ledger")
    assert key not in listed
    before = datetime.now(UTC).replace(microsecond=0)
    assert (await _get(api, tenant_id, **{"X-Api-Key": key})).status_code == 200
    await api.factory.key_usage.flush()
    used = _row(await payrec("keys", "list", *where), public_id)[4]
    assert before <= datetime.fromisoformat(used) <= datetime.now(UTC)

    await payrec("keys", "revoke", *where, "--id", key_id)
    assert (await _get(api, tenant_id, **{"X-Api-Key": key})).json()["code"] == "revoked_credentials"
    assert _row(await payrec("keys", "list", *where), public_id)[1] == "revoked"


async def test_who_disables_a_user_is_told_which_keys_of_theirs_go_on(
    api: Service, payrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant_id = _row(await payrec("tenants", "create", "--name", "Makers", "--environments", "test"), "makers")[2]
    tokens = {}
    for name in ("ada", "bob"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"pässwörd of {name}\n"))
        who = ("--tenant", "makers", "--username", name)
        await payrec("users", "add", *who, "--roles", "admin", "--password-stdin")
        tokens[name] = (await _token(api, name, f"pässwörd of {name}")).json()["accessToken"]
    made = {}
    for name, maker in (("ledger", "ada"), ("old", "ada"), ("other", "bob")):
        headers = {"Authorization": f"Bearer {tokens[maker]}", "X-Tenant-Id": tenant_id, "X-Environment": "test"}
        body = {"name": name, "read": True}
        made[name] = (await api.http.post(f"{api.base_url}/auth/api-keys", headers=headers, json=body)).json()
    where = ("--tenant", "makers", "--environment", "test")
    await payrec("keys", "revoke", *where, "--id", made["old"]["id"])

    said = await payrec("users", "disable", "--username", "ada")
    assert said.splitlines()[:2] == [
        "disabled ada",
        "keys that ada has made open what they did until they are revoked:",
    ]
    ledger = made["ledger"]
    row = _row(said, ledger["publicId"])
    assert row == [ledger["publicId"], "makers", "test", ledger["id"], "ledger"]
    assert made["old"]["publicId"] not in said
    assert made["other"]["publicId"] not in said
    assert (await _get(api, tenant_id, **{"X-Api-Key": ledger["apiKey"]})).status_code == 200

    await payrec("keys", "revoke", *where, "--id", ledger["id"])
    assert await payrec("users", "disable", "--username", "ada") == "disabled ada"


async def test_a_key_needs_a_flag_an_environment_and_a_future(payrec: Command) -> None:
    await payrec("tenants", "create", "--name", "Flags", "--environments", "test")
    where = ("--tenant", "flags", "--environment", "test")

    assert "read or write" in await payrec("keys", "create", *where, fails=1)
    past = await payrec("keys", "create", *where, "--read", "--expires-at", "2001-01-01T00:00:00Z", fails=1)
    assert "future" in past
    assert "expiresAt" in await payrec("keys", "create", *where, "--read", "--expires-at", "tomorrow", fails=1)
    other = await payrec("keys", "create", "--tenant", "flags", "--environment", "staging", "--read", fails=1)
    assert "no environment staging" in other
    assert "no tenant moon" in await payrec("keys", "list", "--tenant", "moon", "--environment", "test", fails=1)


async def test_keys_of_one_tenant_are_not_listed_for_another(payrec: Command) -> None:
    for name in ("Left", "Right"):
        await payrec("tenants", "create", "--name", name, "--environments", "test")
    key = await payrec("keys", "create", "--tenant", "left", "--environment", "test", "--read")
    public_id = key.removeprefix("pr_").partition(".")[0]
    left = await payrec("keys", "list", "--tenant", "left", "--environment", "test")
    right = await payrec("keys", "list", "--tenant", "right", "--environment", "test")

    assert public_id in left
    assert public_id not in right
    key_id = _row(left, public_id)[3]
    await payrec("keys", "revoke", "--tenant", "right", "--environment", "test", "--id", key_id, fails=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["users", "set-roles", "--username", "eve", "--roles", "king"], "must be among viewer, operator"),
        (["users", "add", "--tenant", "t", "--username", "u"], "--roles"),
        (["users", "set-environments", "--username", "eve", "--environments", "mars"], "must be among development"),
        (["keys", "revoke", "--tenant", "t", "--environment", "test", "--id", "7"], "must be a UUID"),
        (["keys", "list", "--tenant", "t"], "--environment"),
        (["keys", "list", "--tenant", "t", "--environment", "mars"], "invalid choice"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_what_is_wrong(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _options(sub)
        elif action.option_strings:
            yield action


def test_every_option_is_explained() -> None:
    options = list(_options(_parser()))

    assert len(options) > 40
    assert [option.option_strings for option in options if not option.help] == []


async def test_a_migration_as_another_role_than_before_says_what_lets_it_in(
    shared: EmbeddedDatabase, payrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("Stays", "Stays Too"):
        await payrec("tenants", "create", "--name", name, "--environments", "test")
    url = shared.url.replace(f"//{login_of(shared.url)}", "//second_login")
    database = sql.Identifier(str(conninfo_to_dict(url)["dbname"]))
    with psycopg.connect(shared.superuser_url, autocommit=True) as superuser:
        superuser.execute("CREATE ROLE second_login LOGIN NOINHERIT")
        try:
            superuser.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO second_login").format(database))
            monkeypatch.setenv("DATABASE_URL", url)
            refusal = await payrec("migrate", fails=1)
            assert "/test (InsufficientPrivilege)" in refusal
            assert "payrec tenants mend lets it in, and then payrec migrate tries again" in refusal
            await payrec("tenants", "mend")
            assert "failed" not in await payrec("migrate")
        finally:
            superuser.execute("DROP OWNED BY second_login")
            superuser.execute("DROP ROLE second_login")
