"""Pages that are run: their commands as they stand there, in one shell, and what each block of them answers."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from support.service import Service

FOLDER = Path(__file__).parents[2] / "service"
END = "-- end of a block --"

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq (apt-get install jq)")


async def check_page(name: str, service: Service, folder: Path, **variables: str) -> None:
    """Run a page's commands in a folder that has ``service`` in it, and compare what they answer with the page."""
    page = (FOLDER / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", page, re.MULTILINE | re.DOTALL)
    (folder / "service").symlink_to(FOLDER)
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", f"\necho '{END}'\n".join(command for command, _ in blocks)),
        cwd=folder,
        env={"BASE": service.base_url, "PATH": "/usr/local/bin:/usr/bin:/bin", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), timeout=60)
    assert process.returncode == 0, errors.decode() + output.decode()
    answers = output.decode().split(f"{END}\n")
    for (command, wanted), answer in zip(blocks, answers, strict=True):
        assert answer == wanted, command
