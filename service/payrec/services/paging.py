"""Cursors: opaque, signed, and good only for the very list that they came from."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any
from urllib.parse import urlencode

from payrec.domain.scope import TenantScope
from payrec.errors import InvalidCursorError
from payrec.models.common import ListQuery, Page, Public
from payrec.storage.listing import PageRequest, SortKey

_SIGNATURE_BYTES = 16


class Pager:
    """Makes and reads cursors, each of one list."""

    def __init__(self, *, key: bytes) -> None:
        self._key = key

    def listing(
        self, collection: str, query: ListQuery, sorts: Mapping[str, SortKey], scope: TenantScope | None
    ) -> Listing:
        """Begin an answer: which rows to read, and then the page of them.

        Raises
        ------
        InvalidCursorError
            The cursor is not ours, or belongs to another list, tenant, environment, filter or order.
        """
        context = self._context(collection, query, scope)
        after = self._read(query.cursor, context) if query.cursor is not None else None
        request = PageRequest(limit=query.limit, sort=sorts[query.sort or "-createdAt"], after=after)
        return Listing(request=request, sign=partial(self._sign, context=context))

    def check(self, collection: str, query: ListQuery, scope: TenantScope | None) -> None:
        """Look whether the query's cursor is this list's.

        Raises
        ------
        InvalidCursorError
        """
        if query.cursor is not None:
            self._read(query.cursor, self._context(collection, query, scope))

    def _context(self, collection: str, query: ListQuery, scope: TenantScope | None) -> bytes:
        place = f"{scope.tenant_id}/{scope.environment}" if scope is not None else "control"
        return json.dumps([collection, place, query.filters()], sort_keys=True).encode()

    def _sign(self, payload: bytes, context: bytes) -> bytes:
        return hmac.new(self._key, context + b"\x00" + payload, hashlib.sha256).digest()[:_SIGNATURE_BYTES]

    def _read(self, cursor: str, context: bytes) -> dict[str, Any]:
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except ValueError:
            raise InvalidCursorError from None
        signature, payload = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(payload, context)):
            raise InvalidCursorError
        identifier, value = json.loads(payload)
        return {"id": identifier, "value": value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One list as one request asks for it."""

    request: PageRequest
    """Which rows to read."""
    sign: Callable[[bytes], bytes]

    def page(
        self,
        kind: type[Public],
        rows: Sequence[Mapping[str, Any]],
        *,
        more: bool,
        data: Sequence[Public] | None = None,
    ) -> Page[Any]:
        """Return the page with its cursor; ``data`` are the resources where a row alone does not make one."""
        cursor = self._cursor(rows[-1]) if more else None
        found = [kind.model_validate(row) for row in rows] if data is None else list(data)
        return Page[kind].model_construct(data=found, has_more=more, next_cursor=cursor)  # type: ignore[valid-type]

    def _cursor(self, last: Mapping[str, Any]) -> str:
        """Return the cursor of the page after the one that ends with ``last``."""
        name = self.request.sort.name
        value = last[name] if name is not None else None
        text = value.isoformat() if isinstance(value, date) else value
        # Letters as they are: written as escapes, a long name in most alphabets would make more than a cursor may be.
        payload = json.dumps([str(last["id"]), text], ensure_ascii=False, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self.sign(payload) + payload).rstrip(b"=").decode()


def link_header(path: str, query: ListQuery, cursor: str) -> str:
    """Return the ``Link`` header (RFC 8288) to the next page."""
    given = query.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    parameters = {**given, "cursor": cursor}
    return f'<{path}?{urlencode(parameters)}>; rel="next"'
