"""What an uploader says about a file, as the readers take it: one way for uploads, previews and the command line."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from payrec.errors import FieldError, ValidationFailedError
from payrec.formats.base import ReadOptions
from payrec.models.imports import UploadOptions


def read_options(options: UploadOptions, *, accounts: Collection[str] = ()) -> ReadOptions:
    """Return the options of a reading; ``accounts`` are the names of those of which a file was loaded.

    Raises
    ------
    ValidationFailedError
        As ``profile_of``.
    """
    return ReadOptions(
        format=options.format,
        currency=options.currency,
        account=options.account,
        date_order=options.date_order,
        profile=profile_of(options),
        accounts=accounts,
    )


def profile_of(options: UploadOptions) -> dict[str, Any]:
    """Return the profile that an upload names.

    Raises
    ------
    ValidationFailedError
    """
    if options.profile is None:
        return {}
    try:
        found = json.loads(options.profile)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValidationFailedError.of(
            FieldError(pointer="/profile", code="profile_malformed", detail="must be a JSON object")
        )
    return found
