"""Accounts that files of earlier releases have made keep the names that they had.

Tables and JSON, and the option ``account`` of an upload, had own accounts without blanks and in upper case whether they
were an IBAN or not: ``Main till`` was ``MAINTILL``. What is stored under that name would come once more under the other
one: the identity of a line has its account's name, and so have balances, periods that are locked, and posting codes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from payrec.domain.statements import Entry, Parsed, Statement, StatementEnd
from payrec.formats.text import account


def kept_names(items: Iterator[Parsed], known: Collection[str]) -> Iterator[Parsed]:
    """Yield the items of a file, their own accounts called what they are called among the ``known``.

    ``known`` are those of which a file was loaded, so that what somebody makes by hand changes no file's account. A
    name that is known, or of which no other form is, stays as it is.
    """
    names: dict[str, str] = {}
    for item in items:
        named = item.statement if isinstance(item, StatementEnd) else item
        if isinstance(named, Entry | Statement) and (name := named.account) is not None:
            if name not in names:
                names[name] = _kept(name, known)
            named.account = names[name]
        yield item


def _kept(name: str, known: Collection[str]) -> str:
    before = account(name)
    return before if name not in known and before is not None and before in known else name
