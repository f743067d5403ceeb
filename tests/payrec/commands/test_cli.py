"""The command line: one readable line for every expected error, and the exit code that says whose it is."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from payrec.cli import main
from payrec.commands import worker
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.storage import database as storage
from support.commands import environment


@pytest.mark.parametrize("command", ["serve", "worker", "migrate"])
def test_a_command_without_settings_names_the_first_one_that_is_missing(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command]) == 2
    assert capsys.readouterr().err == "payrec: DATABASE_URL is not set\n"


def test_garbage_is_collected_while_a_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = []
    monkeypatch.setattr(worker, "run", lambda _: collected.append(gc.isenabled()) or 0)
    assert main(["worker"]) == 0
    assert collected == [True]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["unknown"],
        ["serve", "--port", "http"],
        ["serve", "--port", "65536"],
        ["dev", "--internal-port", "-1"],
        ["users", "add", "--tenant", "acme", "--username", "ada", "--roles", "king"],
        ["users", "add", "--tenant", "acme", "--username", "ada", "--roles", "admin", "--environments", "moon"],
        ["users", "add", "--tenant", "acme", "--username", "ada", "--roles", "admin", "--id", "7"],
        ["keys", "create", "--tenant", "acme", "--environment", "moon"],
        ["tenants"],
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert "payrec" in capsys.readouterr().err


def test_a_taken_port_is_named_with_the_option_that_changes_it(
    database: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment(database, INTERNAL_PORT="0").items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
        assert main(["worker", "--internal-port", str(port)]) == 2
        assert main(["dev", "--port", str(port)]) == 2

    lines = capsys.readouterr().err.splitlines()
    assert [f"PORT {port} is taken" in line for line in lines] == [True, True, True]
    assert [line.split()[-1] for line in lines] == ["--port", "--internal-port", "--port"]


def test_an_address_of_another_machine_is_refused(
    database: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment(database, HOST="192.0.2.1").items():
        monkeypatch.setenv(name, value)

    assert main(["serve", "--port", "0"]) == 2
    assert capsys.readouterr().err.startswith("payrec: HOST 192.0.2.1 ")


@pytest.mark.parametrize("there", [None, [], ["token", "ca.crt"], ["token", "ca.crt", "namespace"]])
def test_who_makes_resources_has_to_be_in_a_pod(
    there: list[str] | None,
    database: EmbeddedDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = environment(database, TENANT_PROVISIONER="kubernetes", SERVICE_ACCOUNT_DIR=str(tmp_path))
    if there is not None:
        settings["KUBERNETES_SERVICE_HOST"] = "127.0.0.1"
        for name in there:
            (tmp_path / name).write_text("x")
        (tmp_path / "namespace").write_text("")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    assert main(["serve", "--port", "0", "--internal-port", "0"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    missing = "KUBERNETES_SERVICE_HOST" if there is None else "token" if not there else "namespace"
    assert line.startswith("payrec: TENANT_PROVISIONER kubernetes")
    assert missing in line


@pytest.mark.parametrize("command", [["serve", "--port", "0", "--internal-port", "0"], ["tenants", "list"]])
def test_a_database_that_cannot_be_reached_is_one_line(
    command: list[str],
    database: EmbeddedDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(storage, "POOL_TIMEOUT_SECONDS", 0.3)
    for name, value in environment(database, LOG_LEVEL="error").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATABASE_URL", database.url.replace("payrec_service@", "nobody_of_this_name@"))

    assert main(command) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("payrec: the database cannot be reached: ")
    assert last.endswith('role "nobody_of_this_name" does not exist')


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_process_refuses_a_database_that_was_not_migrated(
    command: str,
    postgres: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    empty = postgres.database("payrec_cli_unmigrated")
    try:
        for name, value in environment(empty, PORT="0", INTERNAL_PORT="0").items():
            monkeypatch.setenv(name, value)

        assert main([command]) == 1
        assert "migrated" in capsys.readouterr().err
    finally:
        postgres.drop("payrec_cli_unmigrated")


def test_migrate_says_what_is_where_and_again_that_nothing_was_to_do(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = postgres.database("payrec_cli_migrate")
    try:
        for name, value in environment(empty).items():
            monkeypatch.setenv(name, value)

        assert main(["migrate"]) == 0
        first = capsys.readouterr().out
        assert main(["migrate"]) == 0
        again = capsys.readouterr().out
    finally:
        postgres.drop("payrec_cli_migrate")

    for report, outcome in ((first, "migrated"), (again, "current")):
        [control] = [line.split() for line in report.splitlines() if line.startswith("control")]
        assert control[3] == outcome


def test_migrate_needs_the_administrator(
    database: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment(database, ADMIN_DATABASE_URL="").items():
        monkeypatch.setenv(name, value)

    assert main(["migrate"]) == 2
    assert capsys.readouterr().err == "payrec: ADMIN_DATABASE_URL is not set\n"


def test_openapi_needs_no_setting_and_ignores_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PORT", "nonsense")

    assert main(["openapi"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["openapi"].startswith("3.1")
    assert "/matches/{match_id}/accept" in document["paths"]
    assert not any(path.startswith("/idp") for path in document["paths"])


def test_a_reader_who_goes_away_gets_no_traceback() -> None:
    command = f"{sys.executable} -m payrec.cli openapi | head -c 1"
    shell = ["/bin/sh", "-c", command]
    done = subprocess.run(shell, capture_output=True, check=False, timeout=60)  # noqa: S603 - our own text

    assert done.stdout == b"{"
    assert b"Traceback" not in done.stderr
