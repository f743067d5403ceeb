"""What a process says that cannot start: one line with the reason, and nothing half done. And who waits for it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest
from psycopg import sql

from payrec.cli import main
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.storage import database as storage
from support.commands import DEADLINE_SECONDS, environment, started
from support.ports import free_port

NAME = "payrec_starting"


@pytest.fixture
def empty(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """A database in which nothing has been made."""
    made = postgres.database(NAME)
    try:
        yield made
    finally:
        postgres.drop(NAME)


def _set(monkeypatch: pytest.MonkeyPatch, database: EmbeddedDatabase, **settings: str) -> None:
    for name, value in environment(database, **settings).items():
        monkeypatch.setenv(name, value)


def _schemas(database: EmbeddedDatabase) -> set[str]:
    with psycopg.connect(database.superuser_url) as connection:
        rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname IN ('control', 'jobs')").fetchall()
    return {str(name) for (name,) in rows}


def test_who_waits_goes_on_when_somebody_else_has_migrated(empty: EmbeddedDatabase, tmp_path: Path) -> None:
    settings = environment(empty)
    with started("wait-for-migration", cwd=tmp_path, environ=settings) as waiting:
        waiting.wait_for("migration.waiting")
        assert not _schemas(empty), "who waits has migrated"
        with started("migrate", cwd=tmp_path, environ=settings) as migrating:
            assert migrating.ended() == 0
        assert waiting.ended() == 0
        rest = waiting.rest()
    assert [line for line in [*waiting.seen, *rest.splitlines()] if "payrec:" in line] == []


def test_who_waits_says_once_what_for_and_gives_up_in_the_end(
    empty: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _set(monkeypatch, empty)
    assert main(["wait-for-migration", "--seconds", "2"]) == 1
    told, refusal = capsys.readouterr().err.splitlines()
    missing = "the database has not been migrated to this version yet"
    assert json.loads(told)["reason"] == missing
    assert refusal == f"payrec: waited 2 s for the migration: {missing}"
    assert not _schemas(empty)


def test_who_waits_needs_no_administrator_and_is_done_at_once_where_nothing_is_missing(
    database: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _set(monkeypatch, database, ADMIN_DATABASE_URL="")
    assert main(["wait-for-migration", "--seconds", "0"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("seconds", ["-1", "3601", "long"])
def test_nobody_waits_for_ever(seconds: str) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["wait-for-migration", "--seconds", seconds])
    assert refused.value.code == 2


@pytest.mark.parametrize("command", [["serve"], ["worker"], ["migrate"], ["wait-for-migration", "--seconds", "0"]])
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://ada:open-sesame@127.0.0.1:1/payrec", "Connection refused"),
        ("postgresql://ada:open-sesame@nowhere.invalid/payrec", "failed to resolve host 'nowhere.invalid'"),
    ],
)
def test_a_database_that_cannot_be_reached_is_one_line_with_the_reason_and_no_password(
    command: list[str],
    url: str,
    reason: str,
    database: EmbeddedDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(storage, "POOL_TIMEOUT_SECONDS", 0.3)
    _set(monkeypatch, database, PORT="0", INTERNAL_PORT="0", DATABASE_URL=url)
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "sesame" not in said
    refusals = [line for line in said.splitlines() if line.startswith("payrec: ")]
    assert len(refusals) == 1
    assert refusals[0].count("the database cannot be reached") == 1
    assert reason in refusals[0]
    assert len(said.splitlines()) <= 2, "the pool has told of its attempts"


@pytest.mark.parametrize(
    ("admin", "reason"),
    [
        ("postgresql://ada:open-sesame@127.0.0.1:1/payrec", "ADMIN_DATABASE_URL cannot be used: connection failed"),
        ("open sesame", "ADMIN_DATABASE_URL must be a connection URL"),
    ],
)
def test_a_migration_without_its_administrator_says_so_and_makes_nothing(
    admin: str,
    reason: str,
    empty: EmbeddedDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _set(monkeypatch, empty, ADMIN_DATABASE_URL=admin)
    assert main(["migrate"]) == (2 if "must be" in reason else 1)
    [line] = capsys.readouterr().err.splitlines()
    assert reason in line
    assert "sesame" not in line
    assert not _schemas(empty)


@pytest.mark.parametrize("command", [["migrate"], ["serve"], ["worker"], ["tenants", "mend"]])
def test_an_administrator_of_another_database_is_named_and_nothing_is_made_there(
    command: list[str],
    database: EmbeddedDatabase,
    empty: EmbeddedDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _set(monkeypatch, database, PORT="0", INTERNAL_PORT="0", ADMIN_DATABASE_URL=empty.admin_url)
    assert main(command) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == "payrec: ADMIN_DATABASE_URL leads to another database than DATABASE_URL"
    assert not _schemas(empty)


def test_an_administrator_who_lacks_a_right_is_told_which(
    empty: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The service's own role may neither make roles nor schemas.
    _set(monkeypatch, empty, ADMIN_DATABASE_URL=empty.url)
    assert main(["migrate"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("payrec: the role of ADMIN_DATABASE_URL lacks a right (permission denied")
    assert "CREATEROLE" in line
    assert not _schemas(empty)


def test_two_migrations_at_once_both_succeed_and_one_of_them_does_it(empty: EmbeddedDatabase, tmp_path: Path) -> None:
    settings = environment(empty)
    with (
        started("migrate", cwd=tmp_path, environ=settings) as first,
        started("migrate", cwd=tmp_path, environ=settings) as second,
    ):
        assert [first.ended(), second.ended()] == [0, 0]
    with psycopg.connect(empty.superuser_url) as connection:
        assert connection.execute("SELECT count(*) FROM control.alembic_version").fetchone() == (1,)


def test_a_migration_of_an_older_image_finds_the_schema_ahead_and_is_done(
    empty: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _set(monkeypatch, empty)
    assert main(["migrate"]) == 0
    capsys.readouterr()
    with psycopg.connect(empty.superuser_url) as connection:
        connection.execute("UPDATE control.alembic_version SET version_num = '9999'")
    assert main(["migrate"]) == 0
    [control] = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("control")]
    assert control == ["control", "9999", "9999", "ahead"]
    assert main(["wait-for-migration", "--seconds", "0"]) == 0


def test_an_environment_that_cannot_be_migrated_is_named_in_one_line(
    empty: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _set(monkeypatch, empty)
    assert main(["migrate"]) == 0
    for slug in ("acme", "globex"):
        assert main(["tenants", "create", "--name", slug, "--slug", slug]) == 0
    capsys.readouterr()
    with psycopg.connect(empty.superuser_url) as connection:
        rows = connection.execute(
            "SELECT e.schema_name FROM control.tenant_environment e JOIN control.tenant t ON t.id = e.tenant_id"
            " WHERE t.slug = 'acme' AND e.environment = 'test'"
        ).fetchall()
        [(schema,)] = rows
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    assert main(["migrate"]) == 1
    captured = capsys.readouterr()
    [line] = [line for line in captured.err.splitlines() if line.startswith("payrec: ")]
    assert line.startswith("payrec: 1 of 8 tenant environments are as they were: acme/test (SchemaMissingError);")
    # The control schema and the seven others.
    assert [row.split()[3] for row in captured.out.splitlines() if " current" in row].count("current") == 8


@pytest.mark.parametrize("command", [["serve"], ["worker"], ["tenants", "list"]])
def test_a_process_with_another_pepper_says_so_and_does_not_start(
    command: list[str],
    empty: EmbeddedDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _set(monkeypatch, empty, PORT="0", INTERNAL_PORT="0")
    assert main(["migrate"]) == 0
    assert main(["tenants", "create", "--name", "Acme", "--slug", "acme"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("API_KEY_PEPPER", "quite another pepper, of 32 bytes")
    assert main(command) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("payrec: API_KEY_PEPPER is not the one that this installation's API keys were made with")
    assert "another pepper" not in line


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        ("postgresql://ada:open-sesame@127.0.0.1:1/payrec", "Connection refused"),
        ("another database", 'relation "procrastinate_jobs" does not exist'),
        ("another role", 'permission denied to set role "payrec_jobs"'),
    ],
)
def test_a_worker_that_does_not_reach_its_queue_is_one_line_with_the_reason(
    jobs: str,
    reason: str,
    database: EmbeddedDatabase,
    empty: EmbeddedDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    login = "payrec_starting_login"
    urls = {"another database": empty.url, "another role": database.url.replace("payrec_service@", f"{login}@")}
    _set(monkeypatch, database, INTERNAL_PORT="0", JOBS_DATABASE_URL=urls.get(jobs, jobs))
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN NOINHERIT").format(sql.Identifier(login)))
        try:
            assert main(["worker"]) == 1
        finally:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(login)))
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("payrec: the job queue cannot be reached (JOBS_DATABASE_URL, or DATABASE_URL")
    assert reason in line
    assert "sesame" not in line


def test_a_worker_is_not_ready_before_it_has_reached_its_queue(
    database: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    told: list[tuple[int, str]] = []

    async def work(_factory: object, *, ready: asyncio.Event, **_more: object) -> None:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            for _ in range(2):
                answer = await http.get("/readyz")
                told.append((answer.status_code, answer.text))
                ready.set()

    monkeypatch.setattr("payrec.commands.worker.run_worker", work)
    _set(monkeypatch, database, INTERNAL_PORT=str(port))
    assert main(["worker"]) == 0
    assert told == [(503, "the job queue has not been reached yet\n"), (200, "ok\n")]


def test_the_time_that_jobs_have_when_a_worker_is_told_to_end_is_a_setting(
    database: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    async def work(_factory: object, *, ready: object, grace_seconds: float) -> None:  # noqa: ARG001 - the worker's own
        given.append(grace_seconds)

    monkeypatch.setattr("payrec.commands.worker.run_worker", work)
    _set(monkeypatch, database, INTERNAL_PORT="0")
    assert main(["worker"]) == 0
    monkeypatch.setenv("WORKER_GRACE_SECONDS", "305")
    assert main(["worker"]) == 0
    assert given == [20, 305]


def test_an_identity_provider_that_is_away_is_told_once_and_keeps_no_process_from_serving(
    empty: EmbeddedDatabase, tmp_path: Path
) -> None:
    port, internal_port, nobody = free_port(), free_port(), free_port()
    settings = environment(
        empty,
        DEPLOYMENT_ENVIRONMENT="production",
        IDP_ISSUER_URL=f"https://127.0.0.1:{nobody}/realms/payrec",
        IDP_CLIENT_SECRET="a secret of the client",
        PORT=str(port),
        INTERNAL_PORT=str(internal_port),
    )
    with started("migrate", cwd=tmp_path, environ=settings) as migrating:
        assert migrating.ended() == 0
    with started("serve", cwd=tmp_path, environ=settings) as serving, httpx2.Client() as http:
        until = time.monotonic() + DEADLINE_SECONDS
        while not _is_ready(http, internal_port):
            assert time.monotonic() < until, serving.rest()
            assert serving.process.poll() is None, serving.rest()
            time.sleep(0.05)
        for _ in range(3):
            body = {"username": "ada", "password": "sesame"}
            answer = http.post(f"http://127.0.0.1:{port}/auth/token", json=body, timeout=DEADLINE_SECONDS)
            assert (answer.status_code, answer.json()["code"]) == (503, "identity_provider_unavailable")
        assert _is_ready(http, internal_port), "API keys work without the provider"
        told = '"event": "identity_provider_unavailable"'
        serving.wait_for(told)
        assert told not in serving.rest()


def _is_ready(http: httpx2.Client, port: int) -> bool:
    try:
        return http.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx2.TransportError:
        return False
