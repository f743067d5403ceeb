"""Runbooks speak of what there is: metrics and labels of the code, commands, routes, log lines, and SQL that runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from payrec.cli import _parser
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.gate.routes import ROUTES
from payrec.storage import migrations
from payrec.storage.ddl import statements_of, tenant_script
from support.monitoring import ALERTS, PLACED, exposed
from support.postgres import cloned

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "deploy" / "runbooks"
HEADINGS = ["What it means", "How to look", "What to do", "When it is over"]
OF_OTHERS = {"request_id", "wait_event_type", "max_connections", "runbook_url", "acme_production", "exported_namespace"}
"""Names in the pages that are PostgreSQL's, Prometheus', or stand for others."""
PAGES = sorted(RUNBOOKS.glob("*.md"))


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(params=PAGES, ids=lambda page: page.stem)
def page(request: pytest.FixtureRequest) -> Path:
    return Path(str(request.param))


def test_each_alert_has_a_page_in_the_same_four_parts() -> None:
    assert {page.stem for page in PAGES} == ALERTS.keys() | {"README"}
    index = (RUNBOOKS / "README.md").read_text()
    for name in ALERTS:
        text = (RUNBOOKS / f"{name}.md").read_text()
        assert text.startswith(f"# {name}\n")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
        assert fenced(text, "promql"), name
        assert f"[{name}]({name}.md)" in index


def test_every_metric_and_label_is_in_the_code(page: Path) -> None:
    known, text = exposed(), page.read_text()
    assert {"payrec_http_requests_total", "payrec_operator_finalizing", "payrec_queue_age_seconds"} <= set(known)
    named = set(re.findall(r"\bpayrec_[a-z0-9_]+\b", text))
    roles = {"payrec_control", "payrec_jobs", "payrec_operator"}
    assert named - roles <= set(known), sorted(named - roles - set(known))
    for name, selector in re.findall(r"\b(payrec_[a-z0-9_]+)\{([^}]*)\}", text):
        assert set(re.findall(r"(\w+)\s*[!=~]+", selector)) <= known[name] | PLACED, (name, selector)
    for block in fenced(text, "promql"):
        labels = {label for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", block) for label in group.split(", ")}
        used = set().union(*(known[name] for name in re.findall(r"\b(payrec_[a-z0-9_]+)\b", block)))
        assert labels <= used | PLACED, block
        assert block.count("(") == block.count(")"), block


def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).resolve().exists(), target


def test_every_command_of_ours_is_one(page: Path) -> None:
    text = page.read_text()
    for command in re.findall(r"(?:^|`)payrec ((?:[a-z-]+)[^`\n]*)", text, re.MULTILINE):
        _parser().parse_args(shlex.split(command))
    for method, path in re.findall(r"`(GET|POST|PATCH|PUT|DELETE) (/[^`? ]*)", text):
        assert any(is_same(route.path, path) and route.method == method for route in ROUTES), (method, path)


def is_same(template: str, path: str) -> bool:
    return re.sub(r"\{[^}]*\}", "{}", template) == re.sub(r"\{[^}]*\}", "{}", path)


def test_every_log_line_and_setting_is_in_the_code(page: Path) -> None:
    sources = "".join(path.read_text() for part in ("service", "operator") for path in (ROOT / part).rglob("*.py"))
    for name in re.findall(r"`([a-z_]+\.[a-z_]+|[a-z]+_[a-z_]+)`", page.read_text()):
        is_of_others = name.startswith("payrec_") or name in OF_OTHERS
        assert is_of_others or f'"{name}"' in sources, name


@pytest.fixture(scope="module")
def database(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """Return a database with the schema that the runbooks speak of."""
    with cloned(postgres) as made:
        engine = migrations.admin_engine(made.superuser_url)
        with psycopg.connect(made.superuser_url) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA acme_production"))
        with migrations.migrating(engine, schema="acme_production") as opened:
            migrations.run_script(opened, tenant_script())
        yield made


def test_the_sql_runs(page: Path, database: EmbeddedDatabase) -> None:
    for block in fenced(page.read_text(), "sql"):
        with psycopg.connect(database.superuser_url) as connection:
            for statement in statements_of(block):
                connection.execute(statement.encode())
            connection.rollback()


def test_what_is_not_there_is_noticed() -> None:
    known: dict[str, Any] = exposed()
    assert "payrec_jobs_total" in known
    assert known["payrec_jobs_total"] == {"kind", "status"}
    assert known["payrec_operator_tenant_condition"] == {"namespace", "name", "condition"}
    assert known["payrec_queue_age_seconds"] == {"kind"}
    assert "payrec_jobs" not in known
