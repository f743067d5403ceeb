"""What holds for a line: the bounds of the settings, or those of the first rule whose scope it is in.

A scope names what a line says of itself, by keys, so that a line is in it or not whatever else is open. The API reads
these as well, so nothing heavy is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final, Protocol

RULES_MAX: Final = 100
"""Rules of a tenant; their numbers, from 1 on, are kept in 8 bits."""

ROUNDING_MINOR_MAX: Final = 5
"""Minor units by which an amount that was rounded may be off."""

FLAT_SHARE_MAX: Final = 3
"""What a tenant tolerates in minor units is at most the amount divided by this: beyond, a payment is a part."""

BASIS_POINTS: Final = 10_000
"""Basis points of a whole."""


class Required(IntFlag):
    """What has to agree before a line is proposed with anything."""

    NOTHING = 0
    REFERENCE = 1
    """A reference that is quoted, or an equal end-to-end id; a group id that the line names is as good."""
    END_TO_END_ID = 2
    COUNTERPARTY_NAME = 4
    """The same name, or one that resembles it."""
    COUNTERPARTY_ACCOUNT = 8
    GROUP_KEY = 16


class Said(Protocol):
    """What a line says of itself, as ``payrec.domain.matching.pair.Line`` does."""

    @property
    def currency(self) -> str: ...  # noqa: D102 - a column of ``INCOMING_SCHEMA``, and so are the others

    @property
    def direction(self) -> int: ...  # noqa: D102

    @property
    def total_minor(self) -> int: ...  # noqa: D102

    @property
    def own_account_key(self) -> int | None: ...  # noqa: D102

    @property
    def account_key(self) -> int | None: ...  # noqa: D102

    @property
    def name_key(self) -> int | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What bounds the proposals of a line, and which of them need no person.

    Raises
    ------
    ValueError
        A window or tolerance is negative, or the least confidence is neither ``exact`` nor ``high``.

    """

    date_window_days_before: int = 30
    """Days before the item's first day on which a line may still be booked."""
    date_window_days_after: int = 60
    """Days after the item's last day."""
    amount_tolerance_minor: int = 0
    """Difference in minor units that still counts as equal."""
    amount_tolerance_basis_points: int = 0
    """The same in hundredths of a percent of what is open on the item; the larger of both holds."""
    fee_tolerance_minor: int = 0
    """What a payment that quotes the item in full may be short of it, to be taken as a fee without a person."""
    required: Required = Required.NOTHING
    auto_accept: bool = False
    """Whether any proposal may be accepted without a person."""
    auto_accept_min_confidence: str = "exact"
    """``exact`` or ``high``."""

    def __post_init__(self) -> None:
        if self.date_window_days_before < 0 or self.date_window_days_after < 0:
            raise ValueError("a date window cannot be negative")
        if self.amount_tolerance_minor < 0 or self.fee_tolerance_minor < 0:
            raise ValueError("a tolerance cannot be negative")
        if not 0 <= self.amount_tolerance_basis_points <= BASIS_POINTS:
            raise ValueError("a relative tolerance lies between nothing and the whole")
        if self.auto_accept_min_confidence not in {"exact", "high"}:
            raise ValueError("the least confidence is exact or high")

    @property
    def tolerates(self) -> bool:
        """Whether any difference of amounts counts as equal."""
        return self.amount_tolerance_minor > 0 or self.amount_tolerance_basis_points > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Lines that say all of this; None says nothing."""

    own_account_key: int | None = None
    direction: int | None = None
    currency: str | None = None
    account_key: int | None = None
    """The counterparty's account."""
    name_key: int | None = None
    """The counterparty's name."""
    minor_min: int | None = None
    """Minor units that the line has in all, whatever is still open of it."""
    minor_max: int | None = None

    def covers(self, line: Said) -> bool:
        """Tell whether a line is in the scope."""
        return (
            self.own_account_key in {None, line.own_account_key}
            and self.direction in {None, line.direction}
            and self.currency in {None, line.currency}
            and self.account_key in {None, line.account_key}
            and self.name_key in {None, line.name_key}
            and (self.minor_min is None or line.total_minor >= self.minor_min)
            and (self.minor_max is None or line.total_minor <= self.minor_max)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRule:
    """A rule: its bounds are whole, with those of the settings where it says nothing."""

    name: str
    scope: Scope = field(default_factory=Scope)
    bounds: Bounds
