"""Health on the wire."""

from __future__ import annotations

from typing import Literal

from payrec.models.common import Public


class Health(Public):
    """The service answers."""

    status: Literal["ok"]
    version: str
