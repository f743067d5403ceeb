"""Faults of a world in memory: a crash or an error at any step of any call, and a look at every step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal, TypeVar

T = TypeVar("T")

Fault = Literal["crash", "error"]
Plan = Mapping[int | str, Fault]
"""What fails: a step by its number, or by its name: a call, before it does anything, or ``behind`` it."""


class Crash(BaseException):
    """The operator ends here; nothing may catch it."""


class Faults:
    """Counts the steps of a pass, and lets some of them fail. A call has one before and one after each commit."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.plan: Plan = {}
        self.down: set[str] = set()
        self.steps = 0
        self.calls: list[str] = []
        self.met: list[str] = []
        """The calls in which there were faults."""
        self._check = check

    def begin(self, plan: Plan) -> None:
        self.plan, self.steps, self.calls, self.met = plan, 0, [], []

    def enter(self, call: str, error: Callable[[], Exception]) -> None:
        self.calls.append(call)
        if call in self.down:
            raise error()
        self._pass(call, error)

    def step(self, error: Callable[[], Exception]) -> None:
        self._pass(f"behind {self.calls[-1]}", error)

    def _pass(self, where: str, error: Callable[[], Exception]) -> None:
        self._check()
        self.steps += 1
        fault = self.plan.get(self.steps) or self.plan.get(where)
        if fault is not None:
            self.met.append(self.calls[-1])
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
