"""``skaffold dev``: its file is what Skaffold reads, what it names is there, and the chart takes its values."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from payrec_operator.resources import TenantSpec
from support.charts import CRD, ROOT, documents, one, rendered, tenant_schema
from support.images import DOCKERFILE, stages

DEVELOPMENT = ROOT / "deploy" / "dev"
SCHEMA = ROOT.parent / "shared" / "cluster" / "schemas" / "skaffold-v4beta13.json"
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "skaffold.yaml").read_text())
PROFILES = {profile["name"]: profile["patches"] for profile in CONFIG["profiles"]}

[ARTIFACT] = CONFIG["build"]["artifacts"]
[RELEASE] = CONFIG["deploy"]["helm"]["releases"]


def objects(*profiles: str) -> list[dict[str, Any]]:
    """Return what is installed with the values of the profiles."""
    added = [patch["value"] for name in profiles for patch in PROFILES[name]]
    files = [f"--values={ROOT / name}" for name in (*RELEASE["valuesFiles"], *added)]
    return rendered(*files, "--set=image.repository=payrec,image.tag=built", values=None)


def test_it_is_what_skaffold_reads() -> None:
    if not SCHEMA.exists():
        pytest.skip("the schema of skaffold.yaml is not beside the checkout: skaffold schema get skaffold/v4beta13")
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(CONFIG)


def test_what_it_names_is_there() -> None:
    names = [RELEASE["chartPath"], *RELEASE["valuesFiles"], ARTIFACT["docker"]["dockerfile"]]
    names += [patch["value"] for patches in PROFILES.values() for patch in patches]
    assert [name for name in names if not (ROOT / name).exists()] == []
    assert set(PROFILES) == {"debug", "external-database"}
    for patches in PROFILES.values():
        assert {(p["op"], p["path"]) for p in patches} == {("add", "/deploy/helm/releases/0/valuesFiles/-")}


def test_a_changed_file_goes_where_the_processes_read_it() -> None:
    script = (DEVELOPMENT / "run").read_text()
    for rule in ARTIFACT["sync"]["manual"]:
        assert rule["src"].startswith(rule["strip"])
        assert list(ROOT.glob(rule["src"]))
        assert f"sources={rule['dest']}\n" in script
        assert rule["dest"].startswith("/tmp/")  # noqa: S108 - the one volume that every pod may write to
    for pod in (o["spec"]["template"]["spec"] for o in objects() if o["kind"] == "Deployment"):
        assert all("/tmp" in {m["mountPath"] for m in c["volumeMounts"]} for c in pod["containers"])  # noqa: S108


def test_the_image_has_a_stage_for_it_that_is_not_the_last() -> None:
    names = {stage[0].words[-1]: stage for stage in stages(DOCKERFILE.read_text())[1:]}
    development = names[ARTIFACT["docker"]["target"]]
    assert development is not stages(DOCKERFILE.read_text())[-1]
    placed = {Path(i.words[-1]).name for i in development if i.name == "COPY"}
    commands = {c["command"][0] for o in objects() for c in containers(o) if c["image"].startswith("payrec:")}
    assert {"payrec", "kopf"} <= commands
    assert placed == {"payrec", "kopf"}
    assert (DEVELOPMENT / "run").stat().st_mode & stat.S_IXOTH
    assert os.access(DEVELOPMENT / "run", os.X_OK)


def containers(wanted: dict[str, Any]) -> list[dict[str, Any]]:
    if wanted["kind"] not in {"Deployment", "StatefulSet", "Job"}:
        return []
    found: list[dict[str, Any]] = wanted["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("profiles", [(), ("debug",), ("external-database",), ("debug", "external-database")])
def test_the_chart_takes_its_values(profiles: tuple[str, ...]) -> None:
    found = objects(*profiles)
    images = {c["image"] for o in found for c in containers(o)}
    assert "payrec:built" in images
    assert any(o["kind"] == "StatefulSet" for o in found) is ("external-database" not in profiles)
    [forwarded] = CONFIG["portForward"]
    service = one(found, "Service", forwarded["resourceName"])
    assert forwarded["port"] in {port["port"] for port in service["spec"]["ports"]}


def test_its_tenant_is_one() -> None:
    [tenant] = documents((DEVELOPMENT / "tenant.yaml").read_text())
    jsonschema.Draft7Validator(tenant_schema()).validate(tenant)
    assert TenantSpec.model_validate(tenant["spec"]).slug == "demo"
    assert one(rendered("--show-only", CRD), "CustomResourceDefinition")["spec"]["names"]["kind"] == tenant["kind"]
    [hook] = CONFIG["deploy"]["helm"]["hooks"]["after"]
    assert "deploy/dev/tenant.yaml" in hook["host"]["command"][-1]
