"""The cookbook: its commands are run as they stand there, and answer what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pages import FOLDER, check_page, needs_jq
from support.ports import free_port
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio


def test_it_has_ten_tasks() -> None:
    text = (FOLDER / "cookbook.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d+)\. ", text, re.MULTILINE) == [str(number) for number in range(1, 11)]


@needs_jq
async def test_the_commands_answer_what_the_page_says(service: Service, acme: Tenant, tmp_path: Path) -> None:
    await check_page("cookbook.md", service, tmp_path, PORT=str(free_port()))
    for path in ("/expected-transactions", "/matches"):
        assert (await acme.get(path)).json()["data"] == []
