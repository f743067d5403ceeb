"""Changes modules one small change at a time and runs the tests of the domain: what no test notices is told.

    python tests/mutation/run.py --work /tmp/mutation domain/money domain/keys

Needs mutmut (``pip install mutmut==3.8.1``), and makes the folder that it works in from this checkout.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = "tests/payrec/domain"
"""Tests without a database; those of matching, in a folder below, are left out."""


def main() -> int:
    """Make the folder, and run the mutants of the modules in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder to work in; must not exist")
    parser.add_argument("modules", nargs="+", help="modules of payrec, such as domain/money")
    given = parser.parse_args()
    missing = [module for module in given.modules if not (ROOT / "service" / "payrec" / f"{module}.py").is_file()]
    if missing:
        parser.error(f"no such module: {', '.join(missing)}")
    work: Path = given.work
    work.mkdir(parents=True)
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "service" / "payrec", work / "src" / "payrec", ignore=left_out)
    shutil.copytree(ROOT / "tests", work / "tests", ignore=left_out)
    (work / "service").mkdir()
    for page in (ROOT / "service").glob("*.md"):
        shutil.copy(page, work / "service")
    shutil.copy(ROOT / "pyproject.toml", work)
    tests = sorted(str(path.relative_to(ROOT)) for path in (ROOT / TESTS).glob("test_*.py"))
    (work / "setup.cfg").write_text(_settings(given.modules, tests), encoding="utf-8")
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "1"]
    return subprocess.run(command, cwd=work, check=False).returncode  # noqa: S603 - our own


def _settings(modules: list[str], tests: list[str]) -> str:
    """Return what mutmut reads."""
    lists = {
        "only_mutate": [f"src/payrec/{module}.py" for module in modules],
        "also_copy": ["service"],
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
    }
    lines = ["[mutmut]", "source_paths = src", "use_git_change_detection = false"]
    for name, values in lists.items():
        lines += [f"{name} =", *(f"    {value}" for value in values)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
