"""A clean environment for commands that run in this process, and the logging as it was before."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
import structlog

from payrec.config import Config


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in [v for v in os.environ if v.lower() in Config.model_fields]:
        monkeypatch.delenv(variable)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers = handlers
    root.setLevel(level)
