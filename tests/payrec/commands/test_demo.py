"""The demo: from nothing to an accepted match on a real statement, and nothing of it stays behind."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from support.commands import started


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short path: the path of a Unix socket below it has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="pr-") as made:
        yield Path(made)


def test_the_demo_shows_matches_their_reasons_and_what_stayed_open_and_leaves_nothing(folder: Path) -> None:
    # Settings of another database in the shell are not the demo's business.
    environ = {"DATABASE_URL": "postgresql://nowhere/at-all", "TMPDIR": str(folder), "INTERNAL_PORT": "x"}
    with started("demo", "--exit", "--port", "0", cwd=folder, environ=environ) as demo:
        demo.wait_for("everything is stopped and removed")
        assert demo.ended() == 0, demo.rest()
    text = "".join(demo.seen)

    assert "97 of 97 entries, 26 statements; balances add up on 26" in text
    assert len(re.findall(r"^[SP]-\d{4} .* exact ", text, re.MULTILINE)) == 13
    assert len(re.findall(r"^[SP]-\d{4} .* high ", text, re.MULTILINE)) == 2
    assert len(re.findall(r"^S-1015 +66,499\.96 EUR ", text, re.MULTILINE)) == 1
    assert "is quoted in the remittance text" in text
    assert re.search(r"is accepted by ada@acme\.example: now matched, EUR 0\.00 open", text)
    assert "Traceback" not in text
    assert list(folder.glob("payrec-demo-*")) == []


def test_every_expected_item_of_the_demo_is_told_in_its_readme() -> None:
    folder = resources.files("payrec") / "demo_data"
    items = [item["externalId"] for item in json.loads((folder / "expected.json").read_text("utf-8"))]
    told: list[str] = []
    for first, last in re.findall(r"\b([SP]-\d{4})(?: to ([SP]-\d{4}))?", (folder / "README.md").read_text("utf-8")):
        numbers = range(int(first[2:]), int((last or first)[2:]) + 1)
        told.extend(f"{first[0]}-{number}" for number in numbers)

    assert sorted(told) == sorted(items)
