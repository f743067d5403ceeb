"""Take guards away, one by one, each in a copy of the service, and see a test fail: ``python tests/guards/remove.py``.

Words among the arguments choose the guards whose text has one of them. Ends with 1 if a guard is missed by nobody.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SERVICE = TESTS.parent / "service" / "payrec"
TESTS_FAILED = 1
"""The exit status of pytest when a test has failed; another one says that the tests could not be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A piece of code without which a promise is not kept."""

    keeps: str
    file: str
    code: str
    without: str
    tests: tuple[str, ...]

    def removed(self) -> str:
        """Return the file without the guard.

        Raises
        ------
        ValueError
            The file does not have it exactly once.
        """
        text = (SERVICE / self.file).read_text(encoding="utf-8")
        if text.count(self.code) != 1:
            raise ValueError(f"{self.file} has {text.count(self.code)} of: {self.code}")
        return text.replace(self.code, self.without)


def guards() -> list[Guard]:
    """Return all guards of the list."""
    listed = tomllib.loads(Path(__file__).with_name("guards.toml").read_text(encoding="utf-8"))["guard"]
    return [Guard(**{**each, "tests": tuple(each["tests"])}) for each in listed]


def failing_test(guard: Guard) -> str | None:
    """Return the first test that fails without the guard, None where all pass.

    Raises
    ------
    RuntimeError
        The tests could not be run.
    """
    tests = [f"tests/{name}" for name in guard.tests]
    with tempfile.TemporaryDirectory(prefix="payrec-guards-") as folder:
        copy = Path(folder) / "payrec"
        shutil.copytree(SERVICE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / guard.file).write_text(guard.removed(), encoding="utf-8")
        # What is found by PYTHONPATH comes before what is installed, in processes that tests start too.
        done = subprocess.run(  # noqa: S603 - our own tests
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            cwd=TESTS.parent,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if done.returncode != TESTS_FAILED or not lines:
        raise RuntimeError(f"{guard.keeps}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return lines[0].removeprefix("FAILED ").partition(" - ")[0]


def main(words: list[str]) -> int:
    """Remove the guards that the words choose, and print who missed each."""
    missed = 0
    for guard in guards():
        if words and not any(word in f"{guard.keeps} {guard.file}" for word in words):
            continue
        began = time.monotonic()
        found = failing_test(guard)
        missed += found is None
        told = found.removeprefix("tests/") if found else "NO TEST FAILS"
        print(f"{guard.keeps}\n    {guard.file}: {told} ({time.monotonic() - began:.0f} s)", flush=True)  # noqa: T201
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
