"""The guide to a month-end: its commands are run as they stand there, and answer what stands below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import FOLDER, check_page, needs_jq
from support.service import Service, Tenant
from support.shop_files import shop

pytestmark = pytest.mark.anyio


def test_the_files_are_those_that_are_generated() -> None:
    found = {path.name: path.read_bytes() for path in (FOLDER / "examples" / "september").iterdir()}
    assert found == shop(invoices=24, debits=8).files


@needs_jq
async def test_the_commands_answer_what_the_page_says(service: Service, acme: Tenant, tmp_path: Path) -> None:
    await check_page("month-end.md", service, tmp_path)
    assert (await acme.get("/postings")).json()["data"] == []
