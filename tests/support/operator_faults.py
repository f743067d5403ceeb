"""Faults of a world in memory: a crash or an error at any step of any call, and a look at every step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

T = TypeVar("T")

Fault = Literal["crash", "error"]


class Crash(BaseException):
    """The operator ends here; nothing may catch it."""


class Faults:
    """Counts the steps of a pass, and lets some of them fail. A call has one before and one after each commit."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.plan: dict[int, Fault] = {}
        self.down: set[str] = set()
        self.steps = 0
        self.calls: list[str] = []
        self._check = check

    def begin(self, plan: dict[int, Fault]) -> None:
        self.plan, self.steps, self.calls = plan, 0, []

    def enter(self, call: str, error: Callable[[], Exception]) -> None:
        self.calls.append(call)
        if call in self.down:
            raise error()
        self.step(error)

    def step(self, error: Callable[[], Exception]) -> None:
        self._check()
        self.steps += 1
        fault = self.plan.get(self.steps)
        if fault == "crash":
            raise Crash
        if fault == "error":
            raise error()


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise AssertionError("it waits for something")
