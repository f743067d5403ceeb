"""What was sent: 400, 413, 415, 422 and 431."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from payrec.errors.base import FieldError, PayrecError

FIELD_ERRORS_TOLD_MAX: Final = 20
"""Fields of one problem that are named; all are counted. A bulk request has a problem for each of its items, and what
is wrong with a field takes ten times as many bytes as the field."""


class BadRequestError(PayrecError):
    """The request cannot be read at all."""

    status = 400
    code = "malformed_body"
    title = "The body is not valid"
    remedy = "Send one JSON document (RFC 8259, UTF-8, no member twice), or the form that the operation describes."


class MissingHeaderError(BadRequestError):
    """A tenant header that every endpoint of a tenant needs is absent."""

    title = "A required header is missing"
    remedy = "Send ``X-Tenant-Id`` with the tenant's id, and ``X-Environment`` with one of its environments, each once."

    def __init__(self, header: str, code: str) -> None:
        super().__init__(f"the header {header} is required")
        self.code = code


class InvalidHeaderError(BadRequestError):
    """A tenant header is there but cannot be what it must be."""

    title = "A header is malformed"
    remedy = "``X-Tenant-Id`` is a UUID, ``X-Environment`` development, staging, production or test; each comes once."

    def __init__(self, header: str, code: str, detail: str) -> None:
        super().__init__(f"the header {header} {detail}")
        self.code = code


class InvalidCursorError(BadRequestError):
    """A cursor that this service did not issue for this very list."""

    code = "invalid_cursor"
    title = "The cursor is not valid for this list"
    remedy = "Begin the list anew, without ``cursor``. Keep filters, order and environment as they are while paging."


class InvalidIdempotencyKeyError(BadRequestError):
    """An Idempotency-Key outside 1..255 visible ASCII characters."""

    code = "invalid_idempotency_key"
    title = "The Idempotency-Key is malformed"
    remedy = "Send one key of 1 to 255 visible ASCII characters; a UUID will do."


class RequestTimeoutError(PayrecError):
    """A head or a body comes in too slowly, or not at all any more."""

    status = 408
    code = "request_timeout"
    title = "The request did not come in time"
    remedy = "Send it again, over a connection that is faster than a kilobyte a second."


class PayloadTooLargeError(PayrecError):
    """The body, declared or streamed, is beyond its limit."""

    status = 413
    code = "payload_too_large"
    title = "The body is too large"
    remedy = "Send less at once: split the list or the file."


class UnsupportedMediaTypeError(PayrecError):
    """The Content-Type is not one that the endpoint declares."""

    status = 415
    code = "unsupported_media_type"
    title = "The media type is not supported"
    remedy = "Send the ``Content-Type`` that the operation describes; a JSON body is ``application/json``."


class UnprocessableError(PayrecError):
    """Readable, but not right."""

    status = 422
    code = "validation_failed"
    title = "Request validation failed"
    remedy = "Mend what ``errors`` names; ``pointer`` leads to each field. The same request will not pass later either."


class ValidationFailedError(UnprocessableError):
    """Fields or parameters are wrong; ``errors`` says which and why, of 20 at most, and ``detail`` counts them."""

    @classmethod
    def of(cls, *errors: FieldError) -> ValidationFailedError:
        """Make the error whose detail counts its fields, and which names FIELD_ERRORS_TOLD_MAX of them at most."""
        count = len(errors)
        return cls(f"{count} field{'s are' if count != 1 else ' is'} invalid", errors=errors[:FIELD_ERRORS_TOLD_MAX])


class AmountOutOfRangeError(UnprocessableError):
    """An amount outside what payrec stores."""

    code = "amount_out_of_range"
    title = "The amount is out of range"
    remedy = "Send an amount of the range that ``detail`` tells, in minor units or as a decimal string."


class AmountExceedsOpenError(UnprocessableError):
    """More would be allocated than is open."""

    code = "amount_exceeds_open"
    title = "The amount exceeds what is open"
    remedy = "Read what is open of both transactions (``openAmountMinor``), and allocate no more than that."


class AsOfOutOfRangeError(UnprocessableError):
    """An instant of which the state cannot be told: in the future, or from before history is kept."""

    code = "as_of_out_of_range"
    title = "The state at this instant cannot be told"
    remedy = "Ask for an instant that is past, and not older than history is kept."


class ControlTotalsMismatchError(UnprocessableError):
    """What came is not what the sender counted and added up; ``errors`` says which total is another one."""

    code = "control_totals_mismatch"
    title = "The control totals do not add up"
    remedy = "Compare the file with its sender's count and sums; nothing of it was stored. Send it whole."


class UrlNotAllowedError(UnprocessableError):
    """The address is one that nothing is sent to."""

    code = "url_not_allowed"
    title = "The address is not allowed"
    remedy = "Use an https address with a public name, or have its network allowed by whoever runs the installation."


class DataSourceFailedError(UnprocessableError):
    """A data source cannot be pulled; ``reason`` says why. The error of a job, never of a request."""

    code = "data_source_failed"
    title = "The data source cannot be read"
    remedy = "Mend what ``reason`` names at the data source, or at its server, and synchronise again."


class IdempotencyKeyReusedError(UnprocessableError):
    """The Idempotency-Key came before with another body."""

    code = "idempotency_key_reused"
    title = "The Idempotency-Key was used with another body"
    remedy = "Use a new key for a new request; the key belongs to the first body for a day."


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One answer to a question about a file."""

    value: Any
    """What the option is set to. Of ``profile`` it is an object, merged into the profile that there is (RFC 7396)."""
    example: str
    """What that means, for a person: about a value of ours, never about one of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the file alone does not tell, and which option of the upload tells it."""

    option: str
    """``currency``, ``dateOrder`` or ``profile``."""
    text: str
    alternatives: tuple[Alternative, ...]
    others: str | None = None
    """What else the option may be; None: nothing."""

    def member(self) -> dict[str, Any]:
        """Return the problem's member ``question``."""
        member: dict[str, Any] = {
            "option": self.option,
            "text": self.text,
            "alternatives": [{"value": a.value, "example": a.example} for a in self.alternatives],
        }
        return member if self.others is None else {**member, "others": self.others}


class UnreadableFileError(UnprocessableError):
    """No reader knows the file, or the one that does refuses it: ``reason`` is its code (``unknown_format``, …).

    ``tried`` lists ``{"format", "reason"}`` of the readers that looked at it. ``question`` is there where one option
    more is all that is missing: with one of its alternatives the file is read, or the next question asked.
    """

    code = "unreadable_file"
    title = "The file cannot be read"
    remedy = "Answer ``question`` with one of its alternatives, if it is there; otherwise export another format."

    def __init__(
        self,
        reason: str,
        detail: str | None = None,
        *,
        tried: Sequence[Mapping[str, str]] = (),
        question: Question | None = None,
    ) -> None:
        super().__init__(
            detail or f"the file cannot be read: {reason}",
            reason=reason,
            tried=[dict(t) for t in tried],
            question=None if question is None else question.member(),
        )
        self.reason = reason
        self.tried = tuple(tried)
        self.question = question


class HeaderTooLargeError(PayrecError):
    """The header block is beyond its limit."""

    status = 431
    code = "header_too_large"
    title = "The header block is too large"
    remedy = "Send fewer or shorter headers; cookies are not needed."
