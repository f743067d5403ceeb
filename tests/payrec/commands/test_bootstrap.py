"""``payrec bootstrap``: what it makes is what an installation needs, nothing more, and by whoever may make it."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from payrec.cli import main
from payrec.commands import bootstrap as command
from payrec.config import Config
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import UnavailableError
from support.service import ENCRYPTION_KEY, PEPPER

PASSWORD = "p'ss%40 wörd\\"

_OPTIONS = """
    SELECT rolcanlogin, rolsuper, rolcreatedb, rolcreaterole, rolinherit, rolbypassrls, rolreplication
    FROM pg_roles WHERE rolname LIKE %s ORDER BY rolname
"""

Run = Callable[..., str]


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    """Return the socket of a server on which no payrec has ever been."""
    with tempfile.TemporaryDirectory(prefix="payrec-test-") as folder:
        server = EmbeddedPostgres(Path(folder) / "pg", throwaway=True)
        server.start()
        yield str(server._socket)
        server.stop()


def _url(socket: str, user: str, database: str, password: str = "") -> str:
    secret = f":{quote(password, safe='')}" if password else ""
    return f"postgresql://{quote(user, safe='')}{secret}@/{quote(database, safe='')}?host={quote(socket, safe='/')}"


def _environment(socket: str, name: str, *, by: str = "postgres", password: str = PASSWORD) -> dict[str, str]:
    """Return the settings of an installation whose roles and database begin with a name."""
    return {
        "BOOTSTRAP_DATABASE_URL": _url(socket, by, "postgres"),
        "ADMIN_DATABASE_URL": _url(socket, f"{name}_admin", name, password),
        "DATABASE_URL": _url(socket, f"{name}_service", name, password),
    }


@pytest.fixture
def payrec(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return the command with these settings: its output, or AssertionError with what it complained of."""

    def call(environment: dict[str, str], *arguments: str, fails: int = 0) -> str:
        for name in Config.model_fields:
            monkeypatch.delenv(name.upper(), raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = main(list(arguments))
        captured = capsys.readouterr()
        assert code == fails, captured.err
        return captured.err.strip() if fails else captured.out.strip()

    return call


def _rows(socket: str, query: str, *values: object, database: str = "postgres") -> list[tuple[object, ...]]:
    with psycopg.connect(_url(socket, "postgres", database), autocommit=True) as connection:
        return connection.execute(query.encode(), values).fetchall()


def _make_master(socket: str) -> None:
    """Make what a managed server comes with: no superuser, and no other right than these two."""
    with psycopg.connect(_url(socket, "postgres", "postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE master LOGIN NOSUPERUSER CREATEDB CREATEROLE")


def _verifier(socket: str, role: str) -> str:
    [(found,)] = _rows(socket, "SELECT rolpassword FROM pg_authid WHERE rolname = %s", role)
    return str(found)


@pytest.mark.parametrize("by", ["postgres", "master"])
def test_an_installation_works_with_what_it_makes(socket: str, payrec: Run, by: str) -> None:
    name = f"by_{by}"
    if by == "master":
        _make_master(socket)
    made = _environment(socket, name, by=by)
    assert payrec(made, "bootstrap") == f"made {name}_admin, {name}_service, {name}"
    assert _rows(socket, _OPTIONS, f"{name}\\_%") == [
        (True, False, False, True, True, False, False),
        (True, False, False, False, False, False, False),
    ]
    assert _rows(
        socket,
        "SELECT coalesce(r.rolname, 'PUBLIC'), string_agg(a.privilege_type, ',' ORDER BY a.privilege_type)"
        " FROM pg_database d, aclexplode(d.datacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee"
        " WHERE d.datname = %s AND a.grantee <> d.datdba GROUP BY 1 ORDER BY 1",
        name,
    ) == [("PUBLIC", "TEMPORARY"), (f"{name}_admin", "CONNECT,CREATE"), (f"{name}_service", "CONNECT")]
    assert payrec(made, "bootstrap") == "everything is there"


def test_migrations_and_tenants_work_on_it(payrec: Run) -> None:
    with tempfile.TemporaryDirectory(prefix="payrec-test-") as folder:
        server = EmbeddedPostgres(Path(folder) / "pg", throwaway=True)
        server.start()
        try:
            _make_master(str(server._socket))
            made = _environment(str(server._socket), "books", by="master")
            payrec(made, "bootstrap")
            whole = {
                **made,
                "DEPLOYMENT_ENVIRONMENT": "development",
                "API_KEY_PEPPER": PEPPER,
                "ENCRYPTION_KEY": ENCRYPTION_KEY,
            }
            assert "no tenant environments yet" in payrec(whole, "migrate")
            for slug in ("acme", "globex"):
                assert slug in payrec(whole, "tenants", "create", "--name", slug)
            assert payrec(made, "bootstrap") == "everything is there"
            assert "8 current" in payrec(whole, "migrate")
        finally:
            server.stop()


def test_again_it_sets_the_passwords_and_no_log_of_the_server_has_them(socket: str, payrec: Run) -> None:
    payrec(_environment(socket, "again"), "bootstrap")
    before = _verifier(socket, "again_service")
    assert before.startswith("SCRAM-SHA-256$")
    payrec(_environment(socket, "again", password="another"), "bootstrap")
    assert _verifier(socket, "again_service") != before
    log = (Path(socket) / "log") if (Path(socket) / "log").exists() else None
    assert log is None or PASSWORD not in log.read_text(errors="replace")


@pytest.mark.parametrize("name", ['odd"quotes', "spaces and -", "ünïcode", "per%cent"])
def test_names_are_taken_as_they_are(socket: str, payrec: Run, name: str) -> None:
    assert payrec(_environment(socket, name), "bootstrap") == f"made {name}_admin, {name}_service, {name}"
    assert _rows(socket, "SELECT count(*) FROM pg_roles WHERE rolname = ANY(%s)", [f"{name}_admin", f"{name}_service"])
    with psycopg.connect(_url(socket, f"{name}_service", name), autocommit=True) as connection:
        assert connection.execute("SHOW timezone").fetchone() == ("UTC",)


def test_two_at_once_make_it_once(socket: str) -> None:
    made = _environment(socket, "twice")
    config = Config(
        database_url=made["DATABASE_URL"],
        admin_database_url=made["ADMIN_DATABASE_URL"],
        bootstrap_database_url=made["BOOTSTRAP_DATABASE_URL"],
        api_key_pepper=PEPPER,  # type: ignore[arg-type]
        encryption_key=ENCRYPTION_KEY,  # type: ignore[arg-type]
        deployment_environment="development",
    )
    results: list[tuple[str, ...]] = []
    threads = [threading.Thread(target=lambda: results.append(command._bootstrapped(config, until=0))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(), ("twice_admin", "twice_service", "twice")]


@pytest.mark.parametrize(
    ("change", "sentence", "code"),
    [
        ({"BOOTSTRAP_DATABASE_URL": ""}, "BOOTSTRAP_DATABASE_URL and ADMIN_DATABASE_URL must be set", 2),
        ({"ADMIN_DATABASE_URL": ""}, "BOOTSTRAP_DATABASE_URL and ADMIN_DATABASE_URL must be set", 2),
        ({"DATABASE_URL": ""}, "DATABASE_URL is not set", 2),
        ({"DATABASE_URL": "nonsense"}, "DATABASE_URL must be a connection URL", 2),
        ({"DATABASE_URL": "postgresql://wrong_service@/other"}, "must name the same database", 2),
        ({"DATABASE_URL": "postgresql://wrong_admin@/wrong"}, "must name two roles", 2),
        ({"ADMIN_DATABASE_URL": "postgresql://postgres@/wrong"}, "must name another role than those that are made", 2),
        ({"BOOTSTRAP_DATABASE_URL": "postgresql://nobody:s3cret@127.0.0.1:1/postgres"}, "refused", 1),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_made(
    socket: str, payrec: Run, change: dict[str, str], sentence: str, code: int
) -> None:
    line = payrec({**_environment(socket, "wrong"), **change}, "bootstrap", fails=code)
    assert sentence in line
    assert "\n" not in line
    assert "s3cret" not in line
    assert PASSWORD not in line
    assert _rows(socket, "SELECT 1 FROM pg_roles WHERE rolname LIKE 'wrong%%'") == []


def test_a_role_without_the_right_is_told_so(socket: str, payrec: Run) -> None:
    with psycopg.connect(_url(socket, "postgres", "postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE weak LOGIN"))
    line = payrec(_environment(socket, "refused", by="weak"), "bootstrap", fails=2)
    assert line.startswith("payrec: the role of BOOTSTRAP_DATABASE_URL may not make roles and databases: permission ")


def test_it_waits_for_a_server_as_long_as_it_is_told(socket: str, payrec: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[dict[str, str]] = []

    def starting(**addresses: str) -> tuple[str, ...]:
        tries.append(addresses)
        if len(tries) < 4:
            raise UnavailableError("not yet")
        return ("payrec",)

    monkeypatch.setattr(command, "bootstrap", starting)
    monkeypatch.setattr(command, "PAUSE_SECONDS", 0.001)
    assert payrec(_environment(socket, "late"), "bootstrap", fails=1) == "payrec: not yet"
    assert len(tries) == 1, "by default it does not wait"
    assert payrec(_environment(socket, "late"), "bootstrap", "--wait", "60") == "made payrec"
    with pytest.raises(SystemExit):
        payrec(_environment(socket, "late"), "bootstrap", "--wait", "-1")
