"""How far a job is: set by whoever works, read by whoever keeps the job's row."""

from __future__ import annotations

from dataclasses import dataclass


class StoppedError(Exception):
    """Nobody wants the rest of the work any more; what was begun is given up."""


@dataclass(slots=True)
class Progress:
    """Steps done of steps in all; ``total`` is None while nobody knows. Any thread may set them."""

    done: int = 0
    total: int | None = None
    stopped: bool = False
    """Set by the keeper of the row when the job is cancelled, or somebody else's."""

    def reach(self, done: int) -> None:
        """Show that so many steps are done.

        Raises
        ------
        StoppedError
            There is no use in going on.
        """
        self.done = done
        if self.stopped:
            raise StoppedError
