"""The rules of a run, the weights of the evidence, and every number that is stored with a match.

A feature of a pair (its reference, its amount, ...) takes one of a few *levels*; each level has a weight in
thousandths of log-odds, and a pair's score is ``PRIOR_WEIGHT`` plus the weights of its levels. The levels are what is
stored, so the explanation of a match is read from them, not reconstructed. So no number of theirs changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from payrec.domain.matching.line_rules import BASIS_POINTS, RULES_MAX, Bounds, LineRule, Said
from payrec.domain.matching.weights import Calibration

ENGINE_VERSION: Final = "21"
"""Changes whenever the same data could give another result."""

PARTS_PER_MILLION: Final = 1_000_000
"""Millionths of a whole."""

KEY_ITEMS_MAX: Final = 12
"""Open items that may share a key; a key on more of them finds nobody and is dropped before joining."""

KEY_LINES_MAX: Final = 64
"""Lines that may share a counterparty-and-amount key; beyond it, it could only tell that they are alike."""

LINE_CANDIDATES_MAX: Final = 64
"""Open items that the references of a line may bring, as many as it has keys; of more, those of the rarest are kept."""

PAIRS_MIN: Final = 200_000
"""Pairs that one join may bring in every run; in a large one as many as it has rows, some three times what ordinary
data bring. Beyond it the keys that bring most are dropped: data made to match everything cost no more than others."""

BLIND_SETS_MIN: Final = 1_000_000
"""Sums of a counterparty's items in a run, about; in a large one four for each row. Those with most are left out."""
BLIND_SETS_PER_ROW_MAX: Final = 4

RESIDUAL_CANDIDATES_MAX: Final = 3
"""Candidates on either side of a pair that rests on amount and date alone."""

DUPLICATE_DAYS_MAX: Final = 6
"""Days between equal payments of which the later one repeats the earlier; less than the week of a weekly payment."""

TRANSFER_DAYS_MAX: Final = 7
"""Days between the two ends of a transfer: what banks take over holidays, and a payment service until it pays out."""

REFUND_DAYS_MAX: Final = 180
"""Days after a payment in which it may be given back: about what card schemes allow."""

FEE_SHARE_MAX: Final = 5
"""What a tenant tolerates as a fee is at most the amount divided by this: beyond, a payment is a part."""

ALTERNATIVES_MAX: Final = 5
"""Rivals that are kept for each side of a proposal."""

GROUP_SIZE_MAX: Final = 50
"""Transactions on the larger side of a group of quoted references, unless a tenant sets another number."""

GROUP_LEGS_MAX: Final = 10_000
"""Items that one line may settle by their group id, whatever the tenant's bound: one transaction decides of it."""

SUBSET_MEMBERS_MAX: Final = 12
"""Transactions among which all subsets are tried; at most 4,096, so that uniqueness is known and not estimated."""

BLIND_ITEMS_MAX: Final = 200
"""Open items of a counterparty among which runs are looked for that have a line's amount."""
BLIND_LINES_MAX: Final = 32
"""Unexplained lines of a counterparty for which they are looked for."""

BLIND_SEARCH_ITEMS_MAX: Final = 30
"""Open items of a counterparty among which runs without one or two, pairs and triples are tried: 36,395 sets."""

BLIND_PARTIES_MAX: Final = 4
"""Counterparties that may have the name of a line without a known account."""

BLIND_PARTS_MAX: Final = 12
"""Equal instalments of an item that do not quote it: a year of months."""

BLIND_HITS_MAX: Final = 8
"""Sets of a line's amount that are looked at more closely; the simplest come first."""

BLIND_CLAIMS_MAX: Final = 12
"""Sets that one row may be part of; with more of them, all are alike and none is proposed."""

BLIND_COINCIDENCES_PPM_MAX: Final = 50_000
"""Sets as simple as the found one, in millionths, that would sum up by chance; beyond it, a sum says too little."""


class Level(IntEnum):
    """The root of all levels; 0 is always "one of the two sides does not say"."""


class ReferenceLevel(Level):
    """How the item's reference shows up in what the line quotes."""

    UNKNOWN = 0
    ABSENT = 1
    COMMON = 2
    """Quoted, but on so many open items that it tells none of them apart."""
    PARTIAL = 3
    """Quoted by what proves nothing: too short, without a digit, or the digits alone, in a list of its counterparty."""
    FULL = 4
    """Quoted in full: at least 5 characters with a digit."""
    NEAR = 5
    """Not quoted, but a part of it is, or it but for a digit, and the amount is equal."""

    @property
    def quoted(self) -> bool:
        """Whether the reference itself is quoted."""
        return ReferenceLevel.COMMON <= self <= ReferenceLevel.FULL


class EndToEndLevel(Level):
    """The end-to-end ids of both sides."""

    UNKNOWN = 0
    DIFFERENT = 1
    EQUAL = 2
    PARTIAL = 3
    """Equal, but too short, or without a digit, to prove anything."""


class AmountLevel(Level):
    """What is open on the line against what is open on the item."""

    UNKNOWN = 0
    EQUAL = 1
    TOLERANCE = 2
    BAND = 3
    """Within the item's own minimum and maximum."""
    SMALLER = 4
    LARGER = 5
    CONVERTED = 6
    """In another currency, and near at the rate of about the day."""
    TERM = 7
    """What one of the item's terms asks for, in time."""


class DateLevel(Level):
    """The booking day against the item's due day or span."""

    UNKNOWN = 0
    NEAR = 1
    CLOSE = 2
    WITHIN = 3
    OUTSIDE = 4


class PartyLevel(Level):
    """The counterparty's account on both sides, or the own account."""

    UNKNOWN = 0
    DIFFERENT = 1
    EQUAL = 2


class NameLevel(Level):
    """The counterparty's name on both sides, whatever the order of its words and its legal form."""

    UNKNOWN = 0
    DIFFERENT = 1
    EQUAL = 2
    SIMILAR = 3
    """Abbreviated, cut or mistyped, and no other open item's name is as near."""
    ULTIMATE = 4
    """The payer's is another one, and says on whose behalf it pays: the item's."""
    TEXT = 5
    """The line has none, and its text names the item's counterparty and nobody else of whom an item is open."""
    ALIAS = 6
    """Decisions have taught that the line's name means the item's."""


class LineLevel(Level):
    """What the line is."""

    UNKNOWN = 0
    BOOKED = 1
    PENDING = 2
    DUPLICATE = 3
    QUOTES_OTHER = 4
    """Booked, and it quotes in full not the item, but something of its counterparty that it cannot pay."""
    OF_ANOTHER = 5
    """Booked, and it says that it is somebody else's: by its account, or by on whose behalf it is paid."""
    DIFFERS_BY_OTHER = 6
    """Booked, and what it differs by is tolerated, and something else of the counterparty is just that, or just it."""
    OF_OTHER_PERIOD = 7
    """Booked, and it names another period than the item does."""
    OF_ANYBODY = 8
    """Booked, and nothing but a reference that says a period speaks for the item: neither says who pays."""
    RIVAL_SETTLED = 9
    """Booked, and a run that has seen it and the item has settled another one of its counterparty and amount."""
    OTHER_NUMBER = 10
    """Booked, and it quotes not the item's number, but one that is built like it."""


class GroupLevel(Level):
    """What holds a match of several legs together. With its adjustments it sums to the minor unit, or it were none."""

    UNKNOWN = 0
    """A pair."""
    BY_KEY = 1
    """All open items of the group id that the line has or quotes."""
    BY_REFERENCES = 2
    """All open items that the line quotes in full."""
    BY_INSTALMENTS = 3
    """All lines that quote the item in full."""
    BY_SOME_REFERENCES = 4
    """The only set among the items that the line quotes in full which has its amount."""
    BY_SOME_INSTALMENTS = 5
    """The only set among the lines that quote the item in full which has its amount."""
    BY_RUN = 6
    """A run of the counterparty's open items in due order; nobody named them, here and below."""
    BY_RUN_MINUS = 7
    """Such a run without one or two of it."""
    BY_FEW = 8
    """Two or three of the counterparty's few open items."""
    BY_EQUAL_PARTS = 9
    """Equal lines of the item's counterparty."""
    BY_QUOTES = 10
    """All open items of its counterparty that the line quotes, some of them by what proves nothing by itself."""
    BY_ADVICE = 11
    """The items that a remittance advice of the line lists, each with the amount that it lists."""
    BY_REFERENCES_LESS = 12
    """All open items that the line quotes in full, less the credit notes that it quotes."""
    BY_KEY_LESS = 13
    """All open items of the group id that the line has or quotes, less the credit notes of that id."""
    BY_CREDIT_NOTES = 14
    """All open items that the line quotes in full, less the only credit notes of their counterparty that fit."""
    BY_UNNAMED_PARTS = 15
    """Equal lines of which at least half are of the item's counterparty; the others do not say who pays."""
    BY_KEY_NET = 16
    """All open items of the group id that the line has or quotes, less its credit notes, and less what was kept."""
    BY_REFERENCES_AND_ONE = 17
    """All items that the line quotes in full, and the only other one of their counterparty that is the rest."""
    BY_REFERENCES_AND_MORE = 18
    """All items that the line quotes in full, in a run of their counterparty's or among few that have the sum."""

    @property
    def proves(self) -> bool:
        """Whether everything that is claimed is explained, so that nothing was left to choose."""
        others = {GroupLevel.BY_ADVICE, GroupLevel.BY_REFERENCES_LESS, GroupLevel.BY_KEY_LESS}
        return GroupLevel.BY_KEY <= self <= GroupLevel.BY_INSTALMENTS or self in others

    @property
    def less_credits(self) -> bool:
        """Whether credit notes may settle a part of the items, and the line the rest."""
        return GroupLevel.BY_REFERENCES_LESS <= self <= GroupLevel.BY_CREDIT_NOTES or self is GroupLevel.BY_KEY_NET

    @property
    def blind(self) -> bool:
        """Whether nobody named all of the members: they were found by counterparty and sum."""
        others = {GroupLevel.BY_UNNAMED_PARTS, GroupLevel.BY_REFERENCES_AND_MORE}
        return GroupLevel.BY_RUN <= self <= GroupLevel.BY_EQUAL_PARTS or self in others


class MatchKind(IntEnum):
    """How many transactions of either side a match joins."""

    ONE_TO_ONE = 1
    ONE_TO_MANY = 2
    """One line settles several items; the next is the reverse."""
    MANY_TO_ONE = 3
    MANY_TO_MANY = 4
    TRANSFER = 5
    """Money between two of the tenant's own accounts, or from a payment service to the bank: line and contra line."""
    REFUND = 6
    """A payment that was given back: line and contra line."""
    CREDIT_NOTE = 7
    """An item that another item of the opposite direction settles."""


class AdjustmentType(IntEnum):
    """What settles a part of an item or of a line without money."""

    FEE = 1
    FX = 2
    ROUNDING = 3
    WRITE_OFF = 4
    OVER_PAYMENT = 5
    DISCOUNT = 6
    WITHHOLDING_TAX = 7
    BANK_CHARGE = 8
    DEDUCTION = 9


class Confidence(IntEnum):
    """How much a proposal may be trusted."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3
    """The counterparty and the amount agree, and nothing else would fit on either side."""
    EXACT = 4
    """A proving reference, an equal amount, and no other claim on either side."""


class Uniqueness(IntEnum):
    """Whether the pair stands alone."""

    UNIQUE = 1
    CONTESTED = 2
    """Others would fit as well, but worse."""
    AMBIGUOUS = 3
    """Others would fit just as well; only an id could decide."""
    UNBOUNDED = 4
    """Not everything that might fit was looked at: a key was too common, or the budget ran out."""


class Reason(IntEnum):
    """Why a transaction stays open."""

    NO_CANDIDATE = 1
    AMBIGUOUS = 2
    AMOUNT_MISMATCH = 3
    DATE_OUT_OF_WINDOW = 4
    CURRENCY_MISMATCH = 5
    DUPLICATE = 6
    MISSING_REFERENCE = 7
    COUNTERPARTY_MISMATCH = 8
    PENDING_ONLY = 9
    BUDGET_EXHAUSTED = 10

    @property
    def code(self) -> str:
        """The code of the interface."""
        return self.name.lower()


class Side(IntEnum):
    """On which side of a proposal an alternative stands."""

    EXPECTED = 0
    """Another open item for the same line."""
    INCOMING = 1
    """Another line for the same open item."""


FEATURES: Final[Mapping[str, type[Level]]] = MappingProxyType(
    {
        "reference": ReferenceLevel,
        "end_to_end": EndToEndLevel,
        "amount": AmountLevel,
        "date": DateLevel,
        "account": PartyLevel,
        "name": NameLevel,
        "own_account": PartyLevel,
        "line": LineLevel,
        "group": GroupLevel,
    }
)
"""The features of a match, in the order in which they are stored and told."""

NEAR_DAYS: Final = 3
"""Days beside the due day that are as good as on it."""

CLOSE_DAYS: Final = 14
"""Days after the due day that still speak for the item."""
CLOSE_EARLY_DAYS: Final = 7
"""Days before it that do; people pay late rather than early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingRules(Bounds):
    """The settings of a tenant environment that bound a run; what is said of a line holds where no rule says else.

    Raises
    ------
    ValueError
        As ``Bounds``; a tolerance or the size of a group is none, or there are more than ``RULES_MAX`` rules.
    """

    line_rules: tuple[LineRule, ...] = ()
    """Rules of some lines, by priority: of each line the first one decides whose scope it is in."""
    fx_tolerance_basis_points: int = 100
    """Hundredths of a percent by which a converted amount may differ from what is open on the item."""
    base_currency: str = "EUR"
    """The currency through which the rate of two others is found, where it is not given."""
    group_size_max: int = GROUP_SIZE_MAX
    """Transactions on the larger side of a group that quoted references hold together."""
    calibration: Calibration | None = None
    """What the tenant environment's decisions have taught."""
    aliases: Mapping[int, int] = field(default_factory=dict)
    """Key of a name on statements -> key of the counterparty's name that it was found to mean."""

    def __post_init__(self) -> None:
        Bounds.__post_init__(self)
        if not 0 <= self.fx_tolerance_basis_points <= BASIS_POINTS:
            raise ValueError("a relative tolerance lies between nothing and the whole")
        if len(self.line_rules) > RULES_MAX:
            raise ValueError("so many rules have no number")
        if self.group_size_max < 1:
            raise ValueError("a group has at least one transaction")

    def rule_of(self, line: Said) -> LineRule | None:
        """Return the rule that decides for a line; None where the settings do."""
        return next((rule for rule in self.line_rules if rule.scope.covers(line)), None)
