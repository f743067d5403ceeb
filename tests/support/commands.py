"""The command ``payrec`` in tests: called in this process, or as a process of its own whose lines are read."""

from __future__ import annotations

import logging
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil
import pytest
import structlog

from payrec.config import Config
from payrec.embedded.postgres import EmbeddedDatabase
from support.service import ENCRYPTION_KEY, PEPPER

DEADLINE_SECONDS = 180.0
"""How long a test waits for what must come; a loaded machine takes a while to start Python."""


def environment(database: EmbeddedDatabase, **settings: str) -> dict[str, str]:
    """Return the settings of a development service as environment variables."""
    return {
        "DEPLOYMENT_ENVIRONMENT": "development",
        "DATABASE_URL": database.url,
        "ADMIN_DATABASE_URL": database.admin_url,
        "API_KEY_PEPPER": PEPPER,
        "ENCRYPTION_KEY": ENCRYPTION_KEY,
        "LOG_FORMAT": "json",
        **settings,
    }


@contextmanager
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let commands run in this process: without its settings, and with its logging and signals as they were after."""
    for variable in [v for v in os.environ if v.lower() in Config.model_fields]:
        monkeypatch.delenv(variable)
    root = logging.getLogger()
    handlers, level, handler = list(root.handlers), root.level, signal.getsignal(signal.SIGTERM)
    yield
    structlog.reset_defaults()
    root.handlers = handlers
    root.setLevel(level)
    signal.signal(signal.SIGTERM, handler)


@dataclass(slots=True)
class Running:
    """A command that runs; its standard output and error come as one stream of lines."""

    process: subprocess.Popen[str]
    lines: queue.Queue[str]
    seen: list[str]

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read on until a line matches, and return the match."""
        until = time.monotonic() + DEADLINE_SECONDS
        while (left := until - time.monotonic()) > 0:
            try:
                line = self.lines.get(timeout=left)
            except queue.Empty:
                break
            self.seen.append(line)
            if (found := re.search(pattern, line)) is not None:
                return found
        raise AssertionError(f"no line matches {pattern!r}:\n" + "".join(self.seen[-40:]))

    def rest(self) -> str:
        """Return what it wrote after the lines that were waited for."""
        rest = []
        while not self.lines.empty():
            rest.append(self.lines.get())
        return "".join(rest)

    def ended(self) -> int:
        """Wait for its end and return its exit code."""
        return self.process.wait(DEADLINE_SECONDS)


@contextmanager
def started(
    *arguments: str, cwd: Path, environ: dict[str, str] | None = None, module: str = "payrec.cli"
) -> Iterator[Running]:
    """Run a command until the context ends; then it is killed, if it still runs."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONUNBUFFERED": "1", **(environ or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield Running(process, lines, [])
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(5)
        if process.stdout is not None and not reader.is_alive():
            process.stdout.close()


def is_healthy(url: str) -> bool:
    """Tell whether an API answers, and reaches its database."""
    try:
        return httpx2.get(f"{url}/api/health").status_code == 200
    except httpx2.HTTPError:
        return False


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits for its parent to look at it does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that is not ours."""
    until = time.monotonic() + DEADLINE_SECONDS
    while is_alive(pid):
        assert time.monotonic() < until, f"process {pid} still runs"
        time.sleep(0.05)
