"""The guides speak of what there is: files, commands, metrics, values of the chart; and their shell is shell."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from payrec.cli import _parser
from payrec.metrics import Metrics
from payrec_operator.metrics import OperatorMetrics
from support.charts import ROOT

DEPLOY = ROOT / "deploy"
PAGES = [DEPLOY / "README.md", *sorted((DEPLOY / "guides").glob("*.md")), DEPLOY / "examples" / "argocd" / "README.md"]
SCRIPTS = sorted((DEPLOY / "backup").glob("*.sh"))
OF_OTHERS = {"payrec_control", "payrec_service", "payrec_admin", "payrec_service_b", "payrec_operator"}
"""Roles, and the package."""
SWITCHED = {"crds", "database", "operator", "api", "worker", "crypto", "networkPolicy", "blob", "identityProvider"}


@pytest.fixture(params=PAGES, ids=lambda page: page.stem)
def page(request: pytest.FixtureRequest) -> Path:
    return Path(str(request.param))


def _shell(text: str) -> list[str]:
    return [re.sub(r"^ +", "", block, flags=re.MULTILINE) for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]


def test_the_map_leads_to_every_guide_and_example() -> None:
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    for path in [*(DEPLOY / "guides").iterdir(), *(p for p in (DEPLOY / "examples").iterdir() if p.is_dir())]:
        assert f"({path.relative_to(DEPLOY)}" in text, path


def test_every_link_leads_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-") for h in headings}, heading


def test_every_command_of_ours_is_one(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page.read_text(encoding="utf-8")
    for command in re.findall(r"^ *payrec ([a-z-]+.*)$", "\n".join(_shell(text)), re.MULTILINE):
        _parser().parse_args(shlex.split(command))
    for command in re.findall(r"`payrec ([a-z-]+ [^`\n]*)`", text):
        # In a sentence a command stands without what it is about.
        words, options = command.partition(" --")[0], re.findall(r"--[a-z-]+", command)
        with pytest.raises(SystemExit) as ended:
            _parser().parse_args([*words.split(), "--help"])
        assert ended.value.code == 0, command
        told = capsys.readouterr().out
        assert all(option in told for option in options), command


def test_the_shell_is_shell(page: Path) -> None:
    for script in [*_shell(page.read_text(encoding="utf-8")), *(path.read_text(encoding="utf-8") for path in SCRIPTS)]:
        done = subprocess.run(["/bin/bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{script}\n{done.stderr}"


def test_every_metric_is_shown(page: Path) -> None:
    registries = [Metrics().registry, CollectorRegistry()]
    OperatorMetrics(registries[1], resync_seconds=300.0)
    known = {family.name for registry in registries for family in registry.collect()}
    named = set(re.findall(r"\bpayrec_[a-z0-9_]+\b", page.read_text(encoding="utf-8"))) - OF_OTHERS
    assert named <= known, named - known


def test_every_value_is_one_of_the_chart(page: Path) -> None:
    values = yaml.safe_load((ROOT / "charts" / "payrec" / "values.yaml").read_text(encoding="utf-8"))
    for name in re.findall(r"`([a-zA-Z]+(?:\.[a-zA-Z]+)+)(?::[^`]*)?`", page.read_text(encoding="utf-8")):
        if name.partition(".")[0] not in SWITCHED:
            continue
        found = values
        for part in name.split("."):
            assert part in found, name
            found = found[part]
