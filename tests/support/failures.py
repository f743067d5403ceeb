"""What has failed is told at once, not only when everything else is done: a run that is cut off has said it, too."""

from __future__ import annotations

from typing import Final

import pytest

_LINES: Final = 40
"""Of a failure's text, from its end; the whole text comes with the summary."""


class FailuresAtOnce:
    """Writes a failure where it happens, between the dots."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if not report.failed or terminal is None:
            return
        terminal.ensure_newline()
        terminal.write_line(f"FAILED {report.nodeid} ({report.when}, {report.duration:.0f} s)", red=True)
        for line in report.longreprtext.splitlines()[-_LINES:]:
            terminal.write_line(line)


def register(config: pytest.Config) -> None:
    """Tell failures in the process that writes to the terminal; with several, the others report to it."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(config), "failures-at-once")
