"""A real PgBouncer in transaction mode, with the configuration that the examples have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from support.charts import ROOT
from support.ports import free_port

CONFIGURATION: Final = ROOT / "deploy" / "examples" / "pgbouncer" / "pgbouncer.ini"
DEADLINE_SECONDS: Final = 60.0

OF_THE_MACHINE: Final = {
    "listen_addr": "127.0.0.1",
    "auth_type": "trust",
    "unix_socket_dir": "",
    "server_tls_sslmode": "disable",
    "client_tls_sslmode": "disable",
}
"""What tests set otherwise than the example: no certificates, no passwords, nothing beyond this machine."""


def program() -> str | None:
    """Return PgBouncer's program; Debian keeps it where only administrators look."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


def configuration(*, socket: Path, port: int, users: Path, address: str = "127.0.0.1") -> str:
    """Return the example's configuration for a server on a socket, and for all databases of it."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    text = re.sub(r"host=\S+", f"host={socket}", text)
    text = re.sub(r"^payrec = (.*) dbname=payrec$", r"* = \1", text, flags=re.MULTILINE)
    settings = {**OF_THE_MACHINE, "listen_addr": address, "listen_port": str(port), "auth_file": str(users)}
    for name in re.findall(r"^(\w+_tls_(?:ca|key|cert)_file) =.*$", text, re.MULTILINE):
        text = re.sub(rf"^{name} =.*\n", "", text, flags=re.MULTILINE)
    for name, value in settings.items():
        line = f"{name} = {value}"
        text, found = re.subn(rf"^{name} =.*$", line, text, flags=re.MULTILINE)
        text = text if found else f"{text}{line}\n"
    return text


class Bouncer:
    """PgBouncer in front of a server, with its files in a folder; it may be killed and started again."""

    def __init__(
        self,
        socket: Path,
        folder: Path,
        *,
        role: str,
        database: str,
        address: str = "127.0.0.1",
    ) -> None:
        executable = program()
        assert executable is not None, "the caller has looked"
        port = free_port()
        folder.chmod(0o755)
        users, ini = folder / "userlist.txt", folder / "pgbouncer.ini"
        users.write_text(f'"{role}" ""\n', encoding="utf-8")
        text = configuration(socket=socket, port=port, users=users, address=address)
        ini.write_text(text, encoding="utf-8")
        # Never root, which it refuses to be: then as whom the server runs, whose socket it has to reach.
        as_user = ["-u", (socket / ".s.PGSQL.5432").owner()] if os.geteuid() == 0 else []
        self._command = [executable, *as_user, str(ini)]
        self._log = folder / "log"
        self.port = port
        self.url = f"postgresql://{role}@{address}:{port}/{database}"

    def start(self) -> subprocess.Popen[bytes]:
        """Start it; nobody waits until it listens."""
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=log)  # noqa: S603 - the program that was found

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it passes on to the server."""
        until = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                assert process.poll() is None, self._log.read_text(encoding="utf-8")
                assert time.monotonic() < until, self._log.read_text(encoding="utf-8")
                time.sleep(0.05)
            else:
                return


@contextmanager
def pgbouncer(socket: Path, *, role: str, database: str) -> Iterator[str]:
    """Run PgBouncer in front of a server; return the address of one of its databases through it."""
    with tempfile.TemporaryDirectory(prefix="payrec-test-") as name:
        made = Bouncer(socket, Path(name), role=role, database=database)
        process = made.start()
        try:
            made.wait(process)
            yield made.url
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)
