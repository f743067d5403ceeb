"""Write the table of values in charts/payrec/README.md from the comments in charts/payrec/values.yaml.

Run ``python charts/values_table.py`` after a change of either; a test compares. A value's description is the comment
above it that begins with ``# --``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).resolve().parent / "payrec"

BEGIN: Final = "<!-- values: begin -->"
END: Final = "<!-- values: end -->"
"""What the table stands between."""

_KEY: Final = re.compile(r"^(?P<indent> *)(?P<name>[A-Za-z]\w*):")
_BEGINS: Final = re.compile(r"^ *# -- (?P<text>.*)$")
_GOES_ON: Final = re.compile(r"^ *# (?P<text>.*)$")


def descriptions(text: str) -> dict[str, str]:
    """Return the description of each value that has one, by its path."""
    found: dict[str, str] = {}
    path: list[str] = []
    said: list[str] = []
    for line in text.splitlines():
        if (begins := _BEGINS.match(line)) is not None:
            said = [begins["text"]]
        elif said and (goes_on := _GOES_ON.match(line)) is not None:
            said.append(goes_on["text"])
        elif (key := _KEY.match(line)) is not None:
            path = [*path[: len(key["indent"]) // 2], key["name"]]
            if said:
                found[".".join(path)] = " ".join(said)
            said = []
        else:
            said = []
    return found


def leaves(values: dict[str, Any], described: dict[str, str], at: str = "") -> Iterator[tuple[str, Any]]:
    """Return path and default of what can be set: whatever is described, and whatever has nothing below it."""
    for name, value in values.items():
        path = f"{at}{name}"
        if isinstance(value, dict) and value and path not in described:
            yield from leaves(value, described, f"{path}.")
        else:
            yield path, value


def table(text: str) -> str:
    """Return the table of the values in ``text``."""
    described = descriptions(text)
    rows = ["| Value | Default | |", "|---|---|---|"]
    for path, value in leaves(yaml.safe_load(text), described):
        default = "" if value in ("", None) else f"`{json.dumps(value) if not isinstance(value, str) else value}`"
        rows.append(f"| `{path}` | {default} | {described.get(path, '').replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def written(readme: str, values: str) -> str:
    """Return the README with the table of these values."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(values)}\n\n{END}{after}"


def main() -> int:
    """Write the table."""
    readme = CHART / "README.md"
    values = (CHART / "values.yaml").read_text(encoding="utf-8")
    readme.write_text(written(readme.read_text(encoding="utf-8"), values), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
