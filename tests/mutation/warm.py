"""A plugin of pytest that runs the tests once for each mutant, all in one process, with what they share kept alive.

So a mutant costs the tests that reach it, and not a start of the service. Each test is run twice as the code is: the
second time tells which ones cannot be repeated beside what they have left behind, and these notice no mutant.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import signal
import time
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest
import uvicorn
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings
from mutmut.mutation import trampoline
from results import add, mutants, outcomes
from starlette.types import ASGIApp, Receive, Scope, Send

FOLDER: Final = Path()
ACTIVE: Final = "MUTANT_UNDER_TEST"
REACH: Final = Path("reach.json")
"""What each test reaches and takes, so that a process that goes on need not ask again."""

LOST: Final = 3
"""Exit code of a process that a mutant has broken: another one goes on."""

SECONDS_FREE: Final = 10.0
TIMES_MAX: Final = 3
"""Processor time of a mutant: this much, and so many times what its tests take, before it is taken not to end."""

_reached: set[str] = set()


def pytest_configure() -> None:
    """Have properties tried, and not made small what was found."""
    settings.register_profile(
        "mutation",
        phases=[Phase.explicit, Phase.generate],
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutation")
    trampoline.record_trampoline_hit = lambda name, **_: _reached.add(name)
    signal.signal(signal.SIGPROF, lambda *_: os._exit(LOST))
    load_app = uvicorn.Config.load_app
    uvicorn.Config.load_app = lambda config: _Application(load_app(config))  # type: ignore[method-assign]


class _Application:
    """An application as it is: the server calls one without arguments, to see whether it makes one, and mutmut's do."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the tests file by file, and in each the mutants that it reaches and that nobody has noticed yet."""
    by_function: dict[str, list[str]] = defaultdict(list)
    for name in mutants(FOLDER):
        by_function[name.rpartition("__mutmut_")[0]].append(name)
    for _, items in groupby(session.items, key=lambda item: item.path):
        _File(list(items)).run(by_function)
    return True


class _File:
    """The tests of one file, between which what they share stays alive."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self._items = items
        self._reaches: dict[pytest.Item, set[str]] = {}
        self._seconds: dict[pytest.Item, float] = {}

    def run(self, by_function: dict[str, list[str]]) -> None:
        """Run the mutants that the tests reach."""
        name = self._items[0].nodeid.partition("::")[0]
        before = outcomes(FOLDER)
        self._look(name)
        usable = sorted((item for item in self._items if self._reaches[item]), key=lambda item: self._seconds[item])
        for function in sorted({function for item in usable for function in self._reaches[item]}):
            tests = [item for item in usable if function in self._reaches[item]]
            for mutant in by_function.get(function, ()):
                known = before.get(mutant, {})
                if known.get("outcome") == "began":
                    # The process before this one ended with it.
                    add(FOLDER, mutant, "lost")
                elif known.get("outcome") not in {"killed", "lost"} and name not in known.get("seen", ()):
                    self._try(mutant, tests, usable, [*known.get("seen", ()), name])
        runtestprotocol(usable[0] if usable else self._items[0], log=False, nextitem=None)

    def _look(self, name: str) -> None:
        """Learn what the tests reach, as somebody has learned before or by running them."""
        every = json.loads(REACH.read_text(encoding="utf-8")) if REACH.exists() else {}
        if name not in every:
            reaches = {}
            for item in self._items:
                _reached.clear()
                passed = self._passes(item, "stats")
                reaches[item] = sorted(_reached) if passed else []
            for item in self._items:
                began = time.process_time()
                if reaches[item] and not self._passes(item, ""):
                    reaches[item] = []
                self._seconds[item] = time.process_time() - began
            every[name] = {item.nodeid: [self._seconds[item], reaches[item]] for item in self._items}
            REACH.write_text(json.dumps(every), encoding="utf-8")
        for item in self._items:
            self._seconds[item], found = every[name][item.nodeid]
            self._reaches[item] = set(found)

    def _try(self, mutant: str, tests: list[pytest.Item], usable: list[pytest.Item], seen: list[str]) -> None:
        add(FOLDER, mutant, "began", seen=seen)
        # What was right for the one before, and would hide this one.
        _forget()
        signal.setitimer(signal.ITIMER_PROF, SECONDS_FREE + TIMES_MAX * sum(self._seconds[item] for item in tests))
        killer = next((item for item in tests if not self._passes(item, mutant)), None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _forget()
        if killer is None:
            add(FOLDER, mutant, "survived", seen=seen)
            return
        add(FOLDER, mutant, "killed", by=killer.nodeid)
        # What it has left behind may fail all that follow.
        if not self._passes(usable[0], "") or not self._passes(killer, ""):
            os._exit(LOST)

    def _passes(self, item: pytest.Item, active: str) -> bool:
        os.environ[ACTIVE] = active
        item._initrequest()  # type: ignore[attr-defined] - as plugins do that run tests again
        try:
            reports = runtestprotocol(item, log=False, nextitem=self._beside(item))
        finally:
            os.environ[ACTIVE] = ""
        return not any(report.failed for report in reports)

    def _beside(self, item: pytest.Item) -> pytest.Item | None:
        """Return another test of the file: what a test has for itself ends with it, what it shares does not."""
        others = (other for other in self._items if other is not item and other.parent is item.parent)
        return next(others, None)


def _forget() -> None:
    """Empty what functions remember: it may be a mutant's."""
    for found in gc.get_objects():
        if isinstance(found, functools._lru_cache_wrapper) and found.__module__.startswith("payrec"):
            found.cache_clear()
