"""How far a job is: set by whoever works, read by whoever keeps the job's row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """Steps done of steps in all; ``total`` is None while nobody knows. Any thread may set them."""

    done: int = 0
    total: int | None = None
