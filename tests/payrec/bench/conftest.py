"""Commands that run in this process leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.commands import own_process


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_process(monkeypatch):
        yield
