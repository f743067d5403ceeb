"""Every error that payrec raises on purpose, as one tree.

::

    PayrecError
     +-- BadRequestError              400 malformed_body
     |    +-- MissingHeaderError      400 missing_tenant_header, missing_environment_header
     |    +-- InvalidHeaderError      400 invalid_tenant_header, invalid_environment_header
     |    +-- InvalidCursorError      400 invalid_cursor
     |    +-- InvalidIdempotencyKeyError 400 invalid_idempotency_key
     +-- UnauthenticatedError         401 (WWW-Authenticate)
     |    +-- MissingCredentialsError, InvalidCredentialsError, ExpiredCredentialsError,
     |        RevokedCredentialsError, UnknownUserError
     +-- ForbiddenError               403 insufficient_permission
     |    +-- UserDisabledError, TenantSuspendedError, TenantMismatchError,
     |        EnvironmentMismatchError, EnvironmentSuspendedError, JwtRequiredError,
     |        SecondApproverRequiredError, CrossSiteRequestError, AnotherUserError
     +-- NotFoundError                404 not_found
     +-- MethodNotAllowedError        405 method_not_allowed (Allow)
     +-- ConflictError                409 invalid_state
     |    +-- IdempotencyInProgressError, AlreadyMatchedError, StaleProposalError,
     |        DuplicateExternalIdError, SlugTakenError, UsernameTakenError, MatchRunInProgressError,
     |        JobCancelledError, DataSourceNameTakenError, ReferenceTakenError, DuplicateContentError,
     |        SchemaNotOwnedError, SchemaConflictError, RevisionAheadError, AccountTakenError,
     |        PeriodLockedError, PeriodIncompleteError
     +-- RequestTimeoutError          408 request_timeout
     +-- VersionMismatchError         412 version_mismatch
     +-- PayloadTooLargeError         413 payload_too_large
     +-- UnsupportedMediaTypeError    415 unsupported_media_type
     +-- UnprocessableError           422 validation_failed
     |    +-- ValidationFailedError, AmountOutOfRangeError, AmountExceedsOpenError, AsOfOutOfRangeError,
     |        ControlTotalsMismatchError, IdempotencyKeyReusedError, UnreadableFileError, UrlNotAllowedError,
     |        DataSourceFailedError
     +-- RateLimitedError             429 rate_limited (Retry-After)
     +-- HeaderTooLargeError          431 header_too_large
     +-- UnavailableError             503 service_unavailable (Retry-After)
     |    +-- IdentityProviderUnavailableError, TenantProvisioningError
     |    +-- StorageFullError        507 insufficient_storage (Retry-After)
     +-- ProvisioningDeniedError      503 service_unavailable
     +-- MigrationFailedError         503 service_unavailable

The codes and the statuses are the interface's: nothing here may be renamed. An error is rendered in one place,
``payrec.problems`` (RFC 9457). No message may contain the offending input or a credential.
"""

from __future__ import annotations

from payrec.errors.access import (
    AnotherUserError,
    CrossSiteRequestError,
    EnvironmentMismatchError,
    EnvironmentSuspendedError,
    ExpiredCredentialsError,
    ForbiddenError,
    InvalidCredentialsError,
    JwtRequiredError,
    MissingCredentialsError,
    RateLimitedError,
    RevokedCredentialsError,
    SecondApproverRequiredError,
    TenantMismatchError,
    TenantSuspendedError,
    UnauthenticatedError,
    UnknownUserError,
    UserDisabledError,
)
from payrec.errors.base import (
    ConfigurationError,
    FieldError,
    PayrecError,
)
from payrec.errors.content import (
    Alternative,
    AmountExceedsOpenError,
    AmountOutOfRangeError,
    AsOfOutOfRangeError,
    BadRequestError,
    ControlTotalsMismatchError,
    DataSourceFailedError,
    HeaderTooLargeError,
    IdempotencyKeyReusedError,
    InvalidCursorError,
    InvalidHeaderError,
    InvalidIdempotencyKeyError,
    MissingHeaderError,
    PayloadTooLargeError,
    Question,
    RequestTimeoutError,
    UnprocessableError,
    UnreadableFileError,
    UnsupportedMediaTypeError,
    UrlNotAllowedError,
    ValidationFailedError,
)
from payrec.errors.dependencies import (
    IdentityProviderUnavailableError,
    MigrationFailedError,
    ProvisioningDeniedError,
    StorageFullError,
    TenantProvisioningError,
    UnavailableError,
)
from payrec.errors.state import (
    AccountTakenError,
    AlreadyMatchedError,
    ConflictError,
    DataSourceNameTakenError,
    DuplicateContentError,
    DuplicateExternalIdError,
    IdempotencyInProgressError,
    JobCancelledError,
    MatchRunInProgressError,
    MethodNotAllowedError,
    NotFoundError,
    PeriodIncompleteError,
    PeriodLockedError,
    ReferenceTakenError,
    RevisionAheadError,
    SchemaConflictError,
    SchemaNotOwnedError,
    SlugTakenError,
    StaleProposalError,
    UsernameTakenError,
    VersionMismatchError,
)

__all__ = [
    "AccountTakenError",
    "AlreadyMatchedError",
    "Alternative",
    "AmountExceedsOpenError",
    "AmountOutOfRangeError",
    "AnotherUserError",
    "AsOfOutOfRangeError",
    "BadRequestError",
    "ConfigurationError",
    "ConflictError",
    "ControlTotalsMismatchError",
    "CrossSiteRequestError",
    "DataSourceFailedError",
    "DataSourceNameTakenError",
    "DuplicateContentError",
    "DuplicateExternalIdError",
    "EnvironmentMismatchError",
    "EnvironmentSuspendedError",
    "ExpiredCredentialsError",
    "FieldError",
    "ForbiddenError",
    "HeaderTooLargeError",
    "IdempotencyInProgressError",
    "IdempotencyKeyReusedError",
    "IdentityProviderUnavailableError",
    "InvalidCredentialsError",
    "InvalidCursorError",
    "InvalidHeaderError",
    "InvalidIdempotencyKeyError",
    "JobCancelledError",
    "JwtRequiredError",
    "MatchRunInProgressError",
    "MethodNotAllowedError",
    "MigrationFailedError",
    "MissingCredentialsError",
    "MissingHeaderError",
    "NotFoundError",
    "PayloadTooLargeError",
    "PayrecError",
    "PeriodIncompleteError",
    "PeriodLockedError",
    "ProvisioningDeniedError",
    "Question",
    "RateLimitedError",
    "ReferenceTakenError",
    "RequestTimeoutError",
    "RevisionAheadError",
    "RevokedCredentialsError",
    "SchemaConflictError",
    "SchemaNotOwnedError",
    "SecondApproverRequiredError",
    "SlugTakenError",
    "StaleProposalError",
    "StorageFullError",
    "TenantMismatchError",
    "TenantProvisioningError",
    "TenantSuspendedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnknownUserError",
    "UnprocessableError",
    "UnreadableFileError",
    "UnsupportedMediaTypeError",
    "UrlNotAllowedError",
    "UserDisabledError",
    "UsernameTakenError",
    "ValidationFailedError",
    "VersionMismatchError",
]
