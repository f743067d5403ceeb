"""What is printed after an installation: every command in it can be what it says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from payrec.cli import _parser
from payrec.gate.routes import ROUTES
from support.charts import CHART, MINIMAL, documents, rendered, run_helm, tenant_schema

TRIAL = ("--set", "trial.enabled=true")
_PAYREC = re.compile(r"(?:-- |-- \\\n\s+)(payrec [^\n)]+)")
_URL = re.compile(r"http://127\.0\.0\.1:8080(/[^\s:]*)")
_HEREDOC = re.compile(r"<<'EOF'\n(.*?)\nEOF\n", re.DOTALL)


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the chart with its notes as a template, which Helm renders without a cluster."""
    copy = tmp_path_factory.mktemp("chart") / "payrec"
    shutil.copytree(CHART, copy)
    notes = copy / "templates" / "NOTES.txt"
    text = f'{{{{- define "notes" }}}}{notes.read_text(encoding="utf-8")}{{{{ end }}}}'
    notes.unlink()
    (copy / "templates" / "notes.yaml").write_text(
        text + '\nnotes: {{ include "notes" . | toJson }}\n', encoding="utf-8"
    )
    return copy


def _notes(chart: Path, *arguments: str, values: Path | None = None) -> str:
    files = ("--values", str(values)) if values is not None else ()
    show = ("--show-only", "templates/notes.yaml")
    done = run_helm("template", "payrec", str(chart), "--namespace", "payrec-system", *show, *files, *arguments)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["notes"])


def _commands(notes: str) -> list[str]:
    """Return the lines that a shell would run, those that go on in one piece."""
    plain = _HEREDOC.sub("\n", notes).replace("\\\n", " ")
    return [line for line in plain.splitlines() if re.match(r"(kubectl|helm|curl|printf|demo\(\)) ", line)]


CASES = [
    pytest.param(TRIAL, None, id="trial"),
    pytest.param((*TRIAL, "--set", "operator.enabled=false,trial.postgres.storage=1Gi"), None, id="no operator"),
    pytest.param((*TRIAL, "--set", "operator.watchNamespaces={team-a}"), None, id="elsewhere"),
    pytest.param((), MINIMAL, id="minimal"),
    pytest.param((), CHART / "ci" / "namespaced-values.yaml", id="namespaced"),
    pytest.param(("--set", "operator.enabled=false"), MINIMAL, id="no operator outside a trial"),
]


@pytest.mark.parametrize(("arguments", "values"), CASES)
def test_what_is_named_in_commands_is_there(chart: Path, arguments: tuple[str, ...], values: Path | None) -> None:
    notes = _notes(chart, *arguments, values=values)
    names = {f"{o['kind'].lower()}/{o['metadata']['name']}" for o in rendered(*arguments, values=values)}
    named = set(re.findall(r"\b((?:deployment|service|statefulset)/[a-z0-9-]+)", notes))
    assert named
    assert named <= names
    for command in _commands(notes):
        if command.startswith("kubectl"):
            assert shlex.split(command)[1] == "--namespace"
    for found in _PAYREC.findall(notes.replace(" | awk", "\n")):
        _parser().parse_args(shlex.split(found)[1:])


@pytest.mark.parametrize(("arguments", "values"), CASES)
def test_the_script_is_one(chart: Path, arguments: tuple[str, ...], values: Path | None, tmp_path: Path) -> None:
    notes = _notes(chart, *arguments, values=values)
    start, end = ("# 1. ", "# 6. ") if "# 1. " in notes else ("# Wait", "\nTo see")
    script = tmp_path / "script"
    script.write_text(notes[notes.index(start) : notes.index(end)], encoding="utf-8")
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("arguments", "values"), CASES)
def test_the_tenant_is_one_that_the_definition_takes(
    chart: Path, arguments: tuple[str, ...], values: Path | None
) -> None:
    notes = _notes(chart, *arguments, values=values)
    found = [tenant for text in _HEREDOC.findall(notes) for tenant in documents(text)]
    for tenant in found:
        schema: dict[str, Any] = tenant_schema()["properties"]["spec"]
        jsonschema.validate(tenant["spec"], schema, cls=jsonschema.Draft202012Validator)
    by_hand = "payrec tenants create" in notes
    assert len(found) == (0 if by_hand else 1)


def test_the_api_has_what_is_asked_for(chart: Path) -> None:
    asked = set(_URL.findall(_notes(chart, *TRIAL)))
    known = {route.path for route in ROUTES}
    assert asked == {"/expected-transactions", "/auth/token", "/api/docs"}
    assert asked <= known


def test_the_login_is_the_one_that_was_made(chart: Path) -> None:
    notes = _notes(chart, *TRIAL)
    [made] = re.findall(r"printf '%s\\n' '([^']+)'", notes)
    [sent] = re.findall(r"--data '([^']+)'", notes)
    assert json.loads(sent) == {"username": "demo", "password": made}
    assert "payrec users add --tenant demo --username demo --roles admin --password-stdin" in notes


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("trial.enabled=true", "WARNING: The data are gone with the database's pod"),
        ("metrics.serviceMonitor.enabled=true", "WARNING: metrics.serviceMonitor.enabled is ignored"),
        ("metrics.podMonitor.enabled=true", "WARNING: metrics.podMonitor.enabled is ignored"),
        ("metrics.rules.enabled=true", "WARNING: metrics.rules.enabled is ignored"),
        ("deploymentEnvironment=development", "WARNING: deploymentEnvironment is development"),
        ("ingress.enabled=true,ingress.className=nginx", "proxy-body-size=256m"),
        ("networkPolicy.enabled=true", "WARNING: networkPolicy.database.to is empty"),
    ],
)
def test_what_may_surprise_is_told(chart: Path, settings: str, sentence: str) -> None:
    values = None if "trial" in settings else MINIMAL
    assert sentence in _notes(chart, "--set", settings, values=values)
    assert "WARNING" not in _notes(chart, values=MINIMAL)


def test_monitors_are_not_ignored_where_they_are_known(chart: Path) -> None:
    known = ("--api-versions", "monitoring.coreos.com/v1")
    assert "WARNING" not in _notes(chart, "--set", "metrics.rules.enabled=true", *known, values=MINIMAL)


def test_no_secret_is_printed(chart: Path) -> None:
    notes = _notes(chart, *TRIAL)
    assert not re.search(r"[A-Za-z0-9]{40,}", notes)
