"""What the READMEs promise is what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from payrec.cli import main
from payrec.config import Config
from payrec.metrics import Metrics

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text("utf-8")
SERVICE = (ROOT / "service" / "README.md").read_text("utf-8")


def _command(ending: str) -> str:
    [line] = [line for line in README.splitlines() if line.startswith("python3 -m venv") and ending in line]
    return line


def test_both_commands_install_the_same_and_ci_runs_the_second() -> None:
    demo, tests = _command("payrec demo"), _command("pytest")

    assert demo.rpartition(" && ")[0] == tests.rpartition(" && ")[0]
    assert demo.endswith(" && .venv/bin/payrec demo")
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "README.md" in script
    assert "uv pip" not in script


def test_every_setting_is_in_the_table_and_nothing_else() -> None:
    table = SERVICE.partition("\n## Settings\n")[2].partition("\n## ")[0]
    named = {
        name for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }

    assert named == {name.upper() for name in Config.model_fields}


def test_every_metric_is_in_the_table_and_nothing_else() -> None:
    named = {name.removesuffix("_total") for name in re.findall(r"`(payrec_[a-z_]+)`", SERVICE)} - {"payrec_"}
    collected = {family.name for family in Metrics().registry.collect()}

    assert named == collected


def test_every_link_of_the_readmes_leads_somewhere() -> None:
    for path in [ROOT / "README.md", *(ROOT / "service").rglob("*.md"), *(ROOT / "operator").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_pins_have_hashes_and_name_no_index() -> None:
    pins = (ROOT / "constraints.txt").read_text("utf-8")

    assert "--index-url" not in pins
    assert len(re.findall(r"^[a-z0-9._-]+==", pins, re.MULTILINE | re.IGNORECASE)) > 50
    assert all("--hash=" in pin for pin in re.split(r"^(?=[a-z0-9])", pins, flags=re.MULTILINE)[1:])


@pytest.mark.parametrize(
    "name",
    [
        "demo",
        "dev",
        "serve",
        "worker",
        "migrate",
        "tenants",
        "users",
        "keys",
        "openapi",
        "problems",
        "parse",
        "verify-match",
    ],
)
def test_every_command_of_the_readme_exists(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"`{name}`" in README or f"`payrec {name}`" in README
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])

    assert ended.value.code == 0
    assert f"payrec {name}" in capsys.readouterr().out
