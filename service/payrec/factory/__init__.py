"""The composition root: what a process has, and how services are made of it. Explicit and keyword-only.

``Factory`` is loaded when it is first asked for: it brings all services with it, and the operator, whose memory is
mostly modules, uses a few (``BaseFactory``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from payrec.factory.base import BaseFactory
from payrec.factory.context import ProcessContext, SystemClock, TimeOrderedIds, create_context

if TYPE_CHECKING:
    from payrec.factory.services import Factory
else:

    def __getattr__(name: str) -> Any:
        if name != "Factory":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from payrec.factory import services  # noqa: PLC0415 - see above

        return services.Factory


__all__ = ["BaseFactory", "Factory", "ProcessContext", "SystemClock", "TimeOrderedIds", "create_context"]
