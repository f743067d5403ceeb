"""One target under the fuzzer; ``run.py`` starts it: libFuzzer ends the process when it is done.

The code is instrumented while it is loaded, so nothing of it may be loaded before. Only what the target is about is:
the rest would make loading slow, and its coverage would be no guide.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import atheris

PACKAGE = "payrec"


def main() -> None:
    """Fuzz the check at the place of the first argument, guided by the packages of the second."""
    place, code, *arguments = sys.argv[1:]
    module, name, *family = place.split(":")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    about = tuple(code.split(","))
    others = [each for each in _modules() if not f"{each}.".startswith(tuple(f"{one}." for one in about))]
    with atheris.instrument_imports(include=[PACKAGE], exclude=others):
        check = getattr(import_module(module), name)
    atheris.Setup([sys.argv[0], *arguments], partial(check, *family))
    atheris.Fuzz()


def _modules() -> Iterator[str]:
    """Yield the names of all modules of the package, without loading any."""
    found = find_spec(PACKAGE)
    assert found is not None
    assert found.origin is not None
    root = Path(found.origin).parent
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    main()
