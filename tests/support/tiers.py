"""``--require-tiers``: a machine that must be able to run every test says so, and a skipped test fails there.

Without it a skip is a convenience; in CI it would be a part of the suite that silently stopped running.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import pytest

NOT_ON_CITUS = "not_on_citus"
EXEMPT = "PAYREC_TEST_CITUS_URL"
"""Named by the reason of a skip that is allowed: no machine has a Citus cluster unless somebody builds one."""

R = TypeVar("R", pytest.TestReport, pytest.CollectReport)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-tiers", action="store_true", help="fail what would be skipped")
    parser.addoption("--pooled", action="store_true", help="reach PostgreSQL through PgBouncer in transaction mode")
    parser.addoption("--citus", action="store_true", help="take the cluster of PAYREC_TEST_CITUS_URL for PostgreSQL")


class RequireTiers:
    """Turns skips into failures, of single tests and of whole modules."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        return _failed((yield))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        return _failed((yield))


def register(config: pytest.Config) -> None:
    """Fail what is skipped, where the option asks for it."""
    if config.getoption("--require-tiers"):
        config.pluginmanager.register(RequireTiers(), "require-tiers")
    config.addinivalue_line("markers", f"{NOT_ON_CITUS}(why): what is otherwise on Citus (--citus)")


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is not so on Citus, where the tests run there."""
    if config.getoption("--citus"):
        for item in items:
            for marker in item.iter_markers(NOT_ON_CITUS):
                item.add_marker(pytest.mark.skip(reason=f"on Citus: {marker.args[0]}"))


def _failed(report: R) -> R:
    # An expected failure is reported as skipped as well; it did run.
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if EXEMPT in reason:
            return report
        report.outcome = "failed"
        report.longrepr = f"skipped, and --require-tiers allows no skip: {reason}"
    return report
