"""Runs the programs that measure, one after the other, each in a process of its own.

They stay beside the tests, since they need what tests need and an installation does not have: throw-away servers,
receivers, an identity provider, a Kubernetes control plane. So speed is measured from a checkout; `payrec bench
matching` with rows of one's own needs none.
"""

from __future__ import annotations

import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from payrec.bench.figures import Program, Result, read_taken
from payrec.errors import PayrecError

FOLDER: Final = Path(__file__).parents[3] / "tests" / "benchmarks"
"""Where the registry and the scripts are, in a checkout."""

REGISTRY: Final = FOLDER / "figures.toml"

LOG_LINES_MAX: Final = 60
"""Last lines of the log of a program that has failed."""

END_SECONDS: Final = 30.0
"""How long a program that is interrupted may take to end its servers."""


def chosen(programs: Sequence[Program], action: str, *, quick: bool) -> list[Program]:
    """Return the programs of an action or of ``all``; of a quick run those that can be short."""
    return [p for p in programs if action in {"all", p.action} and (p.quick is not None or not quick)]


def measure(
    programs: Sequence[Program],
    *,
    quick: bool,
    tell: Callable[[str], None],
    show: Callable[[str], None],
    now: Callable[[], datetime],
) -> Iterator[Result]:
    """Run programs and give each one's figures when it has ended; what those print that write none is shown.

    Not of a quick run, which tells of them no more than that they still work.
    What lacks the variable that it needs is told and left out; in CI that is an error. Of a quick run, a program with a
    figure that is refused runs once more, and that counts: a short measurement may have met a bad moment. One that
    fails keeps no other from running, since all of them take hours.

    Raises
    ------
    PayrecError
        When all have run: programs failed, or have not measured what the registry names.
    """
    failed = []
    with tempfile.TemporaryDirectory(prefix="payrec-bench-") as folder:
        for number, program in enumerate(programs):
            if program.needs is not None and not os.environ.get(program.needs):
                if os.environ.get("CI") == "true":
                    raise PayrecError(f"{program.run[0]} needs {program.needs}, which is not set")
                tell(f"{program.run[0]} is left out: it needs {program.needs}, which is not set")
                continue
            arguments = (program.run[:1] + program.quick) if quick and program.quick is not None else program.run
            path = Path(folder) / f"{number}.json"
            try:
                if program.prints:
                    printed = _printed(arguments, path, tell=tell)
                    if not quick:
                        show(printed)
                    continue
                found = _taken(program, arguments, path, tell=tell, now=now)
                if quick and any(result.is_refused for result in found):
                    found = _taken(program, arguments, path, tell=tell, now=now)
            except PayrecError as error:
                failed.append(str(error))
            else:
                yield from found
    if failed:
        raise PayrecError("; ".join(failed))


def machine() -> str:
    """Return what a figure depends on: cores, versions, and how busy the machine was when the run began."""
    parts: list[Any] = [f"{os.cpu_count()} cores", platform.machine(), f"Python {platform.python_version()}"]
    return ", ".join([*parts, f"load {os.getloadavg()[0]:.1f} before"])


def _command(arguments: Sequence[str]) -> list[str]:
    first, *others = arguments
    if first.endswith(".py"):
        return [sys.executable, str(FOLDER / first), *others]
    return [sys.executable, "-m", "payrec.cli", *shlex.split(first), *others]


def _printed(arguments: Sequence[str], path: Path, *, tell: Callable[[str], None]) -> str:
    before = machine()
    return f"{shlex.join(arguments)} ({before})\n\n{_run(arguments, log=path.with_suffix('.log'), tell=tell)}"


def _taken(
    program: Program, arguments: Sequence[str], path: Path, *, tell: Callable[[str], None], now: Callable[[], datetime]
) -> list[Result]:
    told = {"at": now().date().isoformat(), "command": shlex.join(arguments), "machine": machine()}
    _run(arguments, "--json", str(path), log=path.with_suffix(".log"), tell=tell)
    return read_taken(path, program, told)


def _run(arguments: Sequence[str], *others: str, log: Path, tell: Callable[[str], None]) -> str:
    """Tell of a program, run it and return what it prints; that and what its servers log is told if it fails."""
    tell(f"measuring: {shlex.join(arguments)}")
    command = [*_command(arguments), *others]
    printed = log.with_suffix(".out")
    with log.open("wb") as logged, printed.open("wb") as written:
        process = subprocess.Popen(  # noqa: S603 - our own programs
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=logged
        )
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
    said = printed.read_text(encoding="utf-8", errors="replace")
    if code:
        for line in (said + log.read_text(encoding="utf-8", errors="replace")).splitlines()[-LOG_LINES_MAX:]:
            tell(line)
        raise PayrecError(f"{Path(command[1]).name} ended with {code}")
    return said
