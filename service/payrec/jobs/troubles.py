"""What keeps a worker from a part of its work for a while: told once, and when it is over, however often it is met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from payrec.constants.jobs import DATABASE_AWAY_SECONDS_MAX

OVER_SECONDS: Final = 2 * DATABASE_AWAY_SECONDS_MAX
"""After which what nobody has met again is over: everything is tried again sooner."""


class Troubles:
    """Why the database could not be used. The log has ``<name>.database_unavailable``, and then ``…_regained``."""

    def __init__(self, name: str, *, monotonic: Callable[[], float], logger: Any) -> None:
        self._name = name
        self._monotonic = monotonic
        self._logger = logger
        self._met: dict[str, float] = {}
        """When each reason was met last."""

    def meet(self, reason: str) -> None:
        """Note that something could not be done for this reason."""
        if reason not in self._met:
            self._logger.warning(f"{self._name}.database_unavailable", reason=reason)
        self._met[reason] = self._monotonic()

    def pass_by(self) -> None:
        """Note that the database is there, and tell of each reason that has not been met for a while."""
        now = self._monotonic()
        for reason in [reason for reason, at in self._met.items() if now - at > OVER_SECONDS]:
            del self._met[reason]
            self._logger.info(f"{self._name}.database_regained", reason=reason)
