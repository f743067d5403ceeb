"""Whatever is pinned may be used and given away with payrec: its own metadata says under which licence it is."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

PINS = (Path(__file__).parents[2] / "constraints.txt").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"^([a-z0-9._-]+)==", PINS, re.MULTILINE)))
NOT_EVERYWHERE = {"atheris", "colorama", "duckdb", "httpx2-jsfetch", "igraph", "pyarrow", "splink", "sqlglot"}
"""Of the extras for benchmarks and fuzzing, or of other systems: looked at where it is installed."""

ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "PSF-2.0", "Zlib"),
    *("EPL-2.0", "LGPL-3.0-only", "MPL-2.0"),
}
"""The second line asks that changes of the library itself are given away; payrec changes none and links none in."""

SAID = {
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT style": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What metadata of older kinds says, as an SPDX identifier."""


def is_allowed(expression: str) -> bool:
    """Say whether an SPDX expression without parentheses lets us: AND binds less than what is chosen among."""
    assert "(" not in expression, expression
    parts = (part.split(" OR ") for part in expression.split(" AND "))
    return all(any(choice.strip() in ALLOWED for choice in part) for part in parts)


def licence_of(name: str) -> str:
    """Return the SPDX expression of a distribution: what it declares, else its classifiers, its free text, its file."""
    told = importlib.metadata.metadata(name)
    if expression := told.get("License-Expression"):
        return str(expression)
    classifiers = [text.rpartition(" :: ")[2] for text in told.get_all("Classifier") or [] if "OSI Approved ::" in text]
    texts = classifiers or (told.get("License") or "").splitlines()[:1] or _first_line(name)
    return " OR ".join(SAID.get(text, text) for text in texts)


def _first_line(name: str) -> list[str]:
    """Return how the licence begins that a distribution comes with."""
    files = [path for path in importlib.metadata.files(name) or [] if path.name == "LICENSE"]
    return files[0].read_text(encoding="utf-8").strip().splitlines()[:1] if files else []


@pytest.mark.parametrize("name", NAMES)
def test_a_dependency_has_a_licence_that_lets_us(name: str) -> None:
    try:
        licence = licence_of(name)
    except importlib.metadata.PackageNotFoundError:
        assert name in NOT_EVERYWHERE
        return
    assert is_allowed(licence), f"{name}: {licence}"


@pytest.mark.parametrize(
    "expression", ["", "GPL-3.0-only", "AGPL-3.0-or-later", "MIT AND GPL-2.0-only", "Copyright somebody", "SSPL-1.0"]
)
def test_what_does_not_let_us_is_noticed(expression: str) -> None:
    assert not is_allowed(expression)


def test_of_a_choice_one_is_enough() -> None:
    assert is_allowed("EPL-2.0 OR GPL-2.0-or-later")
    assert is_allowed("BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0")
