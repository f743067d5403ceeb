"""``payrec demo``: the main job on a real statement, on this machine alone, in a directory removed at the end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Final, TextIO

import httpx2

from payrec.commands.demo_story import Story
from payrec.commands.dev import Running, developing, interruptible, listening
from payrec.commands.serving import port_of, run_async
from payrec.commands.terminal import say
from payrec.config import Config
from payrec.embedded.dev import DevelopmentHome
from payrec.logs import configure_logging

REQUEST_SECONDS_MAX: Final = 60.0
"""How long the demo waits for any answer."""


class Steps:
    """Progress: one line a step, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        """Say what was reached."""
        say(f"{time.monotonic() - self._began:6.1f} s  {text}")


def run(arguments: argparse.Namespace) -> int:
    """Show everything; then go on serving until Ctrl-C, unless ``--exit``."""
    interruptible()
    _forget_settings()
    step = Steps()
    api_socket, internal_socket = listening(arguments.port, 0)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: step("everything is stopped and removed"))
        stack.callback(api_socket.close)
        stack.callback(internal_socket.close)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="payrec-demo-", ignore_cleanup_errors=True))
        log = stack.enter_context((Path(folder) / "payrec.log").open("a"))
        configure_logging(level="info", form="json", stream=log)
        say(f"Everything runs on this machine, in {folder}; it is removed at the end. Log: {log.name}")
        home = DevelopmentHome(Path(folder), throwaway=True)
        stack.callback(home.stop)
        config = home.start(port=port_of(api_socket), internal_port=port_of(internal_socket))
        step("PostgreSQL has started")
        return run_async(_show(config, api_socket, internal_socket, log=log, step=step, ends=arguments.exit))


def _forget_settings() -> None:
    """Take the service's settings out of this process: what the shell has set for another database is not meant."""
    for variable in [name for name in os.environ if name.lower() in Config.model_fields]:
        del os.environ[variable]


async def _show(
    config: Config, api_socket: socket.socket, internal_socket: socket.socket, *, log: TextIO, step: Steps, ends: bool
) -> int:
    stop = asyncio.Event()
    async with developing(config, api_socket, internal_socket, stop=stop, log=log, reached=step) as running:
        showing = asyncio.create_task(_tell(running, step))
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait({showing, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not showing.done():
            showing.cancel()
            return 130
        story = showing.result()
        if ends:
            asked.cancel()
            return 0
        say()
        say(story.how_to_go_on())
        say("\nCtrl-C stops everything and removes it.")
        await asked
    return 0


async def _tell(running: Running, step: Steps) -> Story:
    async with httpx2.AsyncClient(base_url=running.config.base_url, timeout=REQUEST_SECONDS_MAX) as http:
        story = Story(http, base_url=running.config.base_url, step=step)
        await story.tell()
    return story
