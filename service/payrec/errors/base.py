"""The root of the tree, and the one error that no request ever sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One field that is wrong, by JSON pointer (RFC 6901) into the body, or the name of a parameter."""

    pointer: str
    code: str
    detail: str


class PayrecError(Exception):
    """Something failed that nobody has foreseen. It is the root of all that is raised on purpose, too."""

    status: ClassVar[int] = 500
    code: str = "internal_error"
    title: str = "Internal error"
    remedy: ClassVar[str] = "Report it with its ``requestId``: the log has the cause under it."
    """What whoever gets the problem can do. A class without one of its own has that of its parent."""

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.members = members


class ConfigurationError(PayrecError):
    """A setting is missing or contradicts another; ends the start with one readable line."""

    code = "configuration"
    title = "Configuration error"
