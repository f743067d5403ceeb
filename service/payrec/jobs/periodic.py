"""What the clock starts, also when it is set: procrastinate's own worker, which would wait until it has caught up.

A machine that starts with its clock ahead, by years where its battery is empty, is put right a moment later. A worker
that has looked at the clock in between would start nothing any more: no sync, no seal, no notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from procrastinate import App
from procrastinate.periodic import PeriodicDeferrer, PeriodicTask
from procrastinate.worker import Worker


class _Deferrer(PeriodicDeferrer):
    def get_timestamps(
        self, periodic_task: PeriodicTask[Any, Any, Any], since: int | None, until: float
    ) -> Iterable[int]:
        """Return when a task was due after ``since``, the last time that it was, until now.

        Where that is still to come, the clock was set back: it begins anew, as that of a worker that begins.
        """
        is_set_back = since is not None and since > until
        return super().get_timestamps(periodic_task, None if is_set_back else since, until)


class _Worker(Worker):
    async def _periodic_deferrer(self) -> None:
        await _Deferrer(registry=self.app.periodic_registry).worker()


class ClockedApp(App):
    """An app whose workers go by the clock, whatever it is set to."""

    def _worker(self, **options: Any) -> Worker:
        return _Worker(app=self, **options)
