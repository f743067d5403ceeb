"""Changes modules one small change at a time and runs the tests that reach it: what no test notices is told.

    python tests/mutation/run.py --work /tmp/mutation domain/money domain/pages
    python tests/mutation/run.py --work /tmp/mutation gate/gate gate/streams --tests tests/payrec/gate

Needs mutmut (``pip install mutmut==3.8.1``), which makes the changes, and makes the folder that it works in from this
checkout. All mutants are run in one process, by ``warm.py``; one that takes it along is counted, and another process
goes on behind it. What is already in ``results.jsonl`` of the folder is not run again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mutmut.configuration import config
from mutmut.mutation.file_mutation import mutate_file_contents
from results import mutants, outcomes, write_mutants

ROOT = Path(__file__).parents[2]
TESTS = "tests/payrec/domain"
"""Unless others are named: those without a database; those of matching, in a folder below, are left out."""


def main() -> int:
    """Make the folder, run the mutants of the modules in it, and tell who survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder to work in; one that is there is gone on with")
    parser.add_argument("--tests", nargs="+", help=f"files or folders of tests; the files in {TESTS}")
    parser.add_argument("modules", nargs="+", help="modules of payrec, such as domain/money")
    given = parser.parse_args()
    missing = [module for module in given.modules if not (ROOT / "service" / "payrec" / f"{module}.py").is_file()]
    if missing:
        parser.error(f"no such module: {', '.join(missing)}")
    tests = given.tests or sorted(str(path.relative_to(ROOT)) for path in (ROOT / TESTS).glob("test_*.py"))
    work: Path = given.work.resolve()
    if not work.exists():
        _make(work, given.modules)
    before = outcomes(work)
    while (code := _run(work, tests)) != 0:
        if outcomes(work) == before:
            # It has not come to any mutant: what pytest has told is about the tests.
            return code
        before = outcomes(work)
    _tell(work)
    return 0


def _make(work: Path, modules: list[str]) -> None:
    """Copy the checkout, and put the mutants of the modules into the copy."""
    left_out = shutil.ignore_patterns("__pycache__", ".*", "build", "*.egg-info")
    shutil.copytree(ROOT, work, ignore=left_out)
    os.chdir(work)
    (work / "setup.cfg").write_text("[mutmut]\nsource_paths = service\n", encoding="utf-8")
    config()
    names = []
    for module in modules:
        path = work / "service" / "payrec" / f"{module}.py"
        mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"), None, None)
        path.write_text(mutated.code, encoding="utf-8")
        names += [f"payrec.{module.replace('/', '.')}.{name}" for name in mutated.mutant_names]
    write_mutants(work, names)
    os.chdir(ROOT)


def _run(work: Path, tests: list[str]) -> int:
    """Run what is left in a process of its own."""
    folders = os.pathsep.join(str(work / name) for name in ("tests/mutation", "service", "operator"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "warm", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["--tb=no", "-o", "timeout=60", "-o", "timeout_method=signal", *tests]
    return subprocess.run(command, cwd=work, check=False, env={**os.environ, "PYTHONPATH": folders}).returncode  # noqa: S603 - our own


def _tell(work: Path) -> None:
    """Print how many ended how, and who was noticed by no test."""
    results = outcomes(work).values()
    counts = Counter(line["outcome"] for line in results)
    counts["not reached"] = len(mutants(work)) - len(results)
    sys.stdout.write("".join(f"{outcome}: {count}\n" for outcome, count in sorted(counts.items())))
    sys.stdout.write("".join(f"{line['mutant']}\n" for line in results if line["outcome"] == "survived"))


if __name__ == "__main__":
    sys.exit(main())
