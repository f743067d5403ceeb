"""Tenants and their settings on the wire."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal
from uuid import UUID

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.constants.postings import POSTING_ACCOUNTS_MAX, POSTING_ADJUSTMENTS_MAX, POSTING_CATEGORIES_MAX
from payrec.domain.matching.line_rules import RULES_MAX
from payrec.models.common import Currency, Environment, ListQuery, Public, Request, Resource, Text
from payrec.models.incoming_transactions import Category, PostingCode
from payrec.models.matches import AdjustmentType
from payrec.models.matching_rules import MatchingRule, Percent, ToleranceMinor, WindowDays

APPROVAL_LIMITS_MAX: Final = 100
"""Limits of roles and types of adjustments that a tenant may have."""

LimitMinor = Annotated[int, Field(ge=0, le=AMOUNT_MINOR_MAX)]


class AdminCreate(Request):
    """The first user, for the embedded identity provider."""

    username: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f]+$")]
    password: Annotated[str, StringConstraints(min_length=8, max_length=1024)] | None = None
    email: Text | None = None
    subject: Text | None = None


class MatchingSettings(Request):
    """How matching decides."""

    auto_run: bool = False
    auto_accept: bool = False
    auto_accept_min_confidence: Literal["exact", "high"] = "exact"
    date_window_days_before: WindowDays = 30
    date_window_days_after: WindowDays = 60
    amount_tolerance_minor: ToleranceMinor = 0
    amount_tolerance_percent: Percent = 0
    fee_tolerance_minor: ToleranceMinor = 0
    fx_tolerance_percent: Percent = 1
    group_size_max: Annotated[int, Field(ge=1, le=1000)] = 50
    require_reference: bool = False
    rules: Annotated[list[MatchingRule], Field(max_length=RULES_MAX)] = Field(default_factory=list)
    """Bounds of some lines instead of those above, and classifications of what nobody expects."""


class IngestionSettings(Request):
    """What becomes of records that look like others."""

    duplicate_policy: Literal["flag", "reject"] = "flag"


class ApprovalLimit(Request):
    """How much of a type of adjustment a person of a role may decide alone."""

    role: Literal["viewer", "operator", "approver", "admin"]
    adjustment_type: AdjustmentType
    max_minor: LimitMinor
    currency: Currency
    """That of approvals; what is in others is converted to it."""


class ApprovalSettings(Request):
    """What needs a second person, and what API keys may not."""

    second_person_above_minor: LimitMinor | None = None
    """What is above it waits for another person; null: nothing does."""
    currency: Currency | None = None
    """Of that amount; null: ``baseCurrency``."""
    keys_may_accept: bool = True
    keys_may_change_rules: bool = True
    """Whether an API key may change these settings, ``matching.rules`` and ``matching.autoAccept*``."""
    limits: Annotated[list[ApprovalLimit], Field(max_length=APPROVAL_LIMITS_MAX)] = Field(default_factory=list)


class PostingAccount(Request):
    """The code of an account."""

    account: Text
    """Its identifier."""
    code: PostingCode


class PostingAdjustment(Request):
    """The code of a type of adjustment; that of ``fx`` stands between two currencies as well."""

    type: AdjustmentType
    code: PostingCode


class PostingCategory(Request):
    """The code of what lines are classified as."""

    category: Category
    code: PostingCode


class PostingSettings(Request):
    """Where the books have what. What has no code here is posted to ``suspenseCode``."""

    accounts: Annotated[list[PostingAccount], Field(max_length=POSTING_ACCOUNTS_MAX)] = Field(default_factory=list)
    receivable_code: PostingCode | None = None
    """Of what we expect to get."""
    payable_code: PostingCode | None = None
    """Of what we expect to pay."""
    suspense_code: PostingCode = "suspense"
    adjustments: Annotated[list[PostingAdjustment], Field(max_length=POSTING_ADJUSTMENTS_MAX)] = Field(
        default_factory=list
    )
    categories: Annotated[list[PostingCategory], Field(max_length=POSTING_CATEGORIES_MAX)] = Field(default_factory=list)


class RetentionSettings(Request):
    """How long things are kept, in days."""

    raw_lines_days: Annotated[int, Field(ge=1, le=36500)] = 400
    audit_days: Annotated[int, Field(ge=1, le=36500)] = 3650
    """The audit log and history; and transactions that were decided about or locked, from erasure."""


class Settings(Request):
    """All of a tenant's settings, with their defaults."""

    base_currency: Currency = "EUR"
    timezone: Annotated[str, StringConstraints(min_length=1, max_length=64)] = "UTC"
    locale: Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$", max_length=35)] = "en"
    business_calendar: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")] | None = None
    matching: MatchingSettings = Field(default_factory=MatchingSettings)
    ingestion: IngestionSettings = Field(default_factory=IngestionSettings)
    approval: ApprovalSettings = Field(default_factory=ApprovalSettings)
    posting: PostingSettings = Field(default_factory=PostingSettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)


class TenantCreate(Request):
    """A new tenant; all four environments unless named."""

    name: Text
    slug: Annotated[str, StringConstraints(max_length=200)] | None = None
    environments: Annotated[list[Environment], Field(min_length=1, max_length=4)] | None = None
    settings: dict[str, Any] | None = Field(default=None, description="Merged into the defaults, as PATCH does.")
    admin: AdminCreate | None = None


class TenantPatch(Request):
    """What can be changed of a tenant."""

    name: Text | None = None
    status: Literal["active", "suspended"] | None = None

    @field_validator("name", "status")
    @classmethod
    def _kept(cls, value: str | None) -> str | None:
        if value is None:
            raise PydanticCustomError("not_removable", "cannot be removed")
        return value


class EnvironmentPublic(Public):
    """One environment of a tenant."""

    environment: Environment
    status: Literal["provisioning", "active", "suspended"]


class AdminPublic(Public):
    """The first user."""

    id: UUID
    username: str


class TenantPublic(Resource):
    """A tenant."""

    collection: ClassVar[str] = "/tenants"

    slug: str
    name: str
    status: Literal["provisioning", "active", "suspended", "deleting"]
    environments: list[EnvironmentPublic]
    settings: Settings
    admin: AdminPublic | None = Field(default=None, exclude_if=lambda v: v is None)


class TenantQuery(ListQuery):
    """Filters of the tenants."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: Literal["provisioning", "active", "suspended", "deleting"] | None = None
