"""The guide to a month-end: its commands are run as they stand there, and answer what stands below them."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from support.service import Service, Tenant
from support.shop_files import shop

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[2] / "service"
PAGE = (FOLDER / "month-end.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", PAGE, re.MULTILINE | re.DOTALL)
END = "-- end of a block --"


def test_the_files_are_those_that_are_generated() -> None:
    found = {path.name: path.read_bytes() for path in (FOLDER / "examples" / "september").iterdir()}
    assert found == shop(invoices=24, debits=8).files


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq (apt-get install jq)")
async def test_the_commands_answer_what_the_page_says(service: Service, acme: Tenant, tmp_path: Path) -> None:
    (tmp_path / "service").symlink_to(FOLDER)
    script = f"\necho '{END}'\n".join(command for command, _ in BLOCKS)
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", script),
        cwd=tmp_path,
        env={"BASE": service.base_url, "PATH": "/usr/local/bin:/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), timeout=60)
    assert process.returncode == 0, errors.decode() + output.decode()
    answers = output.decode().split(f"{END}\n")
    for (command, wanted), answer in zip(BLOCKS, answers, strict=True):
        assert answer == wanted, command
    assert (await acme.get("/postings")).json()["data"] == []
