"""Fuzzing guided by coverage: what reaches new code is kept and changed further (atheris, on libFuzzer).

    python tests/fuzz/run.py --seconds 5                  # every target, for 5 s each
    python tests/fuzz/run.py --seconds 3600 --target file-camt --target token
    python tests/fuzz/run.py --seconds 600 --keep         # and take what reached new code into the corpus, minimised

What breaks a property is printed in base64 and written to ``--findings`` as a file, which ``--replay FILE --target X``
runs again; a finding that is mended goes into the corpus of its target. Ends with 1 where there was one. Without
atheris nothing is fuzzed, and that is said; in CI it is an error.
"""

from __future__ import annotations

import argparse
import base64
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from fuzz.targets import TARGETS, Target  # noqa: E402 - found by the line above

SECONDS_FOR_ONE = 30
"""How long one case may take; any of them takes milliseconds."""
MEMORY_MIB_MAX = 2_048
"""Memory of a target's process."""


def main() -> int:
    """Run the targets, each in a process of its own, as many at once as there are cores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", help="one of them, and may be given again; all without it")
    parser.add_argument("--seconds", type=int, default=5, help="for each target (default: 5)")
    parser.add_argument("--runs", type=int, default=-1, help="at most so many cases of each; with a seed the same ones")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers; 0 is another one every time")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="where findings are written")
    parser.add_argument("--keep", action="store_true", help="take what reached new code into the corpus")
    parser.add_argument("--replay", type=Path, help="check the target by this one file")
    given = parser.parse_args()
    names = given.target or list(TARGETS)
    unknown = set(names) - TARGETS.keys()
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if given.replay is not None:
        for name in names:
            TARGETS[name].check(given.replay.read_bytes())
        return 0
    if find_spec("atheris") is None:
        sys.stdout.write("nothing is fuzzed: pip install -c constraints.txt -e '.[fuzz]', on Linux with x86-64\n")
        return 1 if os.environ.get("CI") == "true" else 0
    given.findings.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as at_once:
        clean = list(at_once.map(lambda name: _fuzzed(TARGETS[name], given), names))
    failed = [name for name, is_clean in zip(names, clean, strict=True) if not is_clean]
    sys.stdout.write(f"{len(names)} targets; findings: {', '.join(failed) or 'none'}\n")
    return 1 if failed else 0


def _fuzzed(target: Target, given: argparse.Namespace) -> bool:
    """Fuzz one target; tell whether nothing was found."""
    name = target.name
    with tempfile.TemporaryDirectory(prefix="payrec-fuzz-") as made:
        new, merged = Path(made, "new"), Path(made, "merged")
        new.mkdir()
        before = set(given.findings.glob(f"{name}-*"))
        ran = _child(
            target,
            f"-max_total_time={given.seconds}",
            f"-runs={given.runs}",
            f"-seed={given.seed}",
            f"-max_len={target.length_max}",
            f"-timeout={SECONDS_FOR_ONE}",
            f"-rss_limit_mb={MEMORY_MIB_MAX}",
            f"-artifact_prefix={given.findings}/{name}-",
            str(new),
            str(target.corpus),
        )
        told = ran.stderr.decode(errors="replace").splitlines()
        summary = next((line for line in reversed(told) if line.startswith("Done ")), "")
        found = "" if ran.returncode == 0 else " FINDING"
        lines = [f"{name}: {summary} {len(list(new.iterdir()))} new cases{found}"]
        if ran.returncode:
            lines += [*ran.stdout.decode(errors="replace").splitlines(), *told][-60:]
            for path in set(given.findings.glob(f"{name}-*")) - before:
                lines.append(f"{path}: {base64.b64encode(path.read_bytes()).decode()}")
        elif given.keep:
            merged.mkdir()
            _child(target, "-merge=1", str(merged), str(target.corpus), str(new))
            _replace(target.corpus, merged)
        # At once, because others write meanwhile.
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    return ran.returncode == 0


def _replace(corpus: Path, merged: Path) -> None:
    """Leave in the corpus the cases that together reach what all of them did."""
    kept = {path.name: path.read_bytes() for path in merged.iterdir()}
    for path in corpus.iterdir():
        path.unlink()
    for name, content in kept.items():
        (corpus / name).write_bytes(content)


def _child(target: Target, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, str(HERE / "guided.py"), target.place, target.code, *arguments]
    return subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL)  # noqa: S603 - our own


if __name__ == "__main__":
    sys.exit(main())
