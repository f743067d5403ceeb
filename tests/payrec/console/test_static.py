"""Styles and scripts: kept for ever under an address that tells their content, and nothing else of the package."""

from __future__ import annotations

import gzip
import re
from importlib import resources

import httpx2
import pytest

from payrec.console.rendering import StaticFiles
from support.browser import ConsoleWorld

pytestmark = pytest.mark.anyio


async def test_a_file_is_kept_and_compressed(console_world: ConsoleWorld) -> None:
    files = StaticFiles()
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        answer = await client.get(files.url("console.css"))
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-type"] == "text/css; charset=utf-8"
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["vary"] == "Accept-Encoding"
        plain = await client.get(files.url("console.css"), headers={"Accept-Encoding": "gzip;q=0"})
        assert "content-encoding" not in plain.headers
        assert plain.content == answer.content
        script = await client.get(files.url("rest.js"))
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert script.headers["x-content-type-options"] == "nosniff"


async def test_a_file_of_another_release_is_asked_for_again(console_world: ConsoleWorld) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        answer = await client.get("/console/static/0123456789abcdef/console.css")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")


@pytest.mark.parametrize(
    "path",
    [
        "x/nothing.css",
        "x/../templates/layout.html",
        "x/..%2ftemplates%2flayout.html",
        "x/%2e%2e/__init__.py",
        "x/..%5crendering.py",
        "..%2f..%2fconfig.py/x",
        "x/",
        "x/console.css%00",
        "x/.gitignore",
    ],
)
async def test_nothing_else_is_served(console_world: ConsoleWorld, path: str) -> None:
    async with httpx2.AsyncClient(base_url=console_world.base_url) as client:
        answer = await client.get(f"/console/static/{path}", follow_redirects=True)
        assert answer.status_code == 404


def test_the_address_changes_with_any_file() -> None:
    files = StaticFiles()
    assert files.url("console.css") == f"/console/static/{files.version}/console.css"
    with pytest.raises(KeyError):
        files.url("nothing.css")
    for name in files._files:
        packed, content = files._files[name].packed, files._files[name].content
        assert packed is None or (gzip.decompress(packed) == content and len(packed) < len(content))


def test_scripts_and_styles_ask_nobody_else_for_anything() -> None:
    folder = resources.files("payrec.console") / "static"
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), file.name
        assert "@import" not in text
        for asked in re.findall(r'(?:from|import)\s+"([^"]+)"', text):
            assert asked.startswith("./"), file.name
            assert (folder / asked.removeprefix("./")).is_file(), f"{file.name}: {asked}"


def test_what_is_installed_has_the_pages_with_everything_they_need() -> None:
    folder = resources.files("payrec.console")
    for name in ("templates/layout.html", "static/console.css", "texts/en/layout.toml"):
        assert (folder / name).is_file()
