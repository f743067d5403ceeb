"""Accounts: made by whoever first names one, or by hand, and what the books say of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic.alias_generators import to_camel

from payrec.domain.caller import Caller, IdSource
from payrec.domain.changes import Record
from payrec.domain.money import format_minor
from payrec.domain.scope import today
from payrec.errors import FieldError, NotFoundError, ValidationFailedError
from payrec.models.accounts import (
    AccountCreate,
    AccountPublic,
    AccountQuery,
    AccountUpdate,
    BookBalancePublic,
    BookBalancePut,
)
from payrec.models.common import Page
from payrec.services.paging import Pager
from payrec.services.validation import check_version, identifier
from payrec.services.work import Unit, Work
from payrec.storage.accounts import AccountStore
from payrec.storage.listing import BY_CREATION
from payrec.storage.period_locks import PeriodLockStore, hold_periods

COLLECTION: Final = "/accounts"

Named = Mapping[tuple[str, str], str]
"""The kind of each account, by identifier and currency."""

_CHANGEABLE: Final = (
    "name",
    "kind",
    "opening_minor",
    "opening_on",
    "opening_given",
    "statement_every",
    "statement_due_after_hours",
)
"""What people may change, and what the audit keeps of it."""


class AccountService:
    """Creates, lists and changes the accounts of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def create(self, caller: Caller, given: AccountCreate) -> AccountPublic:
        """Store an account; without an opening balance it gets that of its earliest statement.

        Raises
        ------
        AccountTakenError
        ValidationFailedError
            Half of an opening balance is given, or the lines of the identifier are in another currency.
        """
        account_id = self._work.ids.new()
        name = given.identifier
        values = {
            "name": given.name,
            "kind": given.kind,
            "opening_minor": given.opening_balance_minor,
            "opening_on": given.opening_on,
            "opening_given": given.opening_on is not None,
            "statement_every": given.statement_every,
            "statement_due_after_hours": given.statement_due_after_hours,
        }
        _check_opening(values)
        async with self._work.tenant(caller) as unit:
            store = AccountStore(unit.connection)
            row = {"id": account_id, "identifier": name, "currency": given.currency, **values}
            if given.statement_every is not None:
                row["statements_from"] = today(caller.tenant, unit.now)
            if not values["opening_given"]:
                row |= await store.earliest(name, given.currency) or {}
            await store.add(
                {**row, "change_id": unit.change_id, "created_at": unit.now, "updated_at": unit.now, "version": 1}
            )
            others = await store.currency_of_lines(name)
            if others not in {None, given.currency}:
                detail = "the lines of this identifier are in another currency"
                raise ValidationFailedError.of(FieldError(pointer="/currency", code="currency_mismatch", detail=detail))
            public = public_of(await store.get(account_id) or {})
            unit.record(_creation(row))
            unit.answer(201, public, public.headers)
        return public

    async def get(self, caller: Caller, account_id: str) -> AccountPublic:
        """Return one.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await AccountStore(connection).get(identifier(account_id))
        if row is None:
            raise NotFoundError
        return public_of(row)

    async def page(self, caller: Caller, query: AccountQuery) -> Page[AccountPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await AccountStore(connection).page(listing.request, query)
        return listing.page(AccountPublic, rows, data=[public_of(row) for row in rows], more=more)

    async def update(
        self, caller: Caller, account_id: str, given: AccountUpdate, if_match: str | None
    ) -> AccountPublic:
        """Change what is given; an opening balance that is removed is the earliest statement's again.

        Raises
        ------
        NotFoundError, VersionMismatchError
        ValidationFailedError
            Half of an opening balance would be left, or no kind.
        """
        wanted = identifier(account_id)
        if "kind" in given.model_fields_set and given.kind is None:
            raise ValidationFailedError.of(FieldError(pointer="/kind", code="required", detail="cannot be removed"))
        async with self._work.tenant(caller) as unit:
            if given.model_fields_set & _COLUMN.keys():
                # Whoever locks a period adds up what it begins with.
                await hold_periods(unit.connection)
            store = AccountStore(unit.connection)
            before = await store.get(wanted, lock=True)
            if before is None:
                raise NotFoundError
            check_version(if_match, before["version"])
            values = {name: before[name] for name in _CHANGEABLE}
            values |= {_COLUMN.get(name, name): getattr(given, name) for name in given.model_fields_set}
            if given.model_fields_set & _COLUMN.keys():
                _check_opening(values)
                values["opening_given"] = values["opening_on"] is not None
                if not values["opening_given"]:
                    values |= await store.earliest(before["identifier"], before["currency"]) or {}
            changed = [name for name in _CHANGEABLE if values[name] != before[name]]
            values["statements_from"] = before["statements_from"]
            if "statement_every" in changed:
                # What is missing of the time before was not waited for.
                is_watched = values["statement_every"] is not None
                values["statements_from"] = today(caller.tenant, unit.now) if is_watched else None
            if changed:
                await store.update(wanted, values, change_id=unit.change_id, at=unit.now)
                unit.record(
                    Record(
                        action="account.updated",
                        resource_id=wanted,
                        before=_told({name: before[name] for name in changed}),
                        after=_told({name: values[name] for name in changed}),
                    )
                )
            public = public_of(await store.get(wanted) or {})
            unit.answer(200, public, {"ETag": public.headers["ETag"]})
        return public

    async def put_book_balance(self, caller: Caller, account_id: str, given: BookBalancePut) -> BookBalancePublic:
        """Store what the books say of a day, in the place of what they said before; the same again changes nothing.

        Raises
        ------
        NotFoundError
        PeriodLockedError
            The day is locked.
        """
        wanted = identifier(account_id)
        async with self._work.tenant(caller) as unit:
            await hold_periods(unit.connection)
            store = AccountStore(unit.connection)
            account = await store.get(wanted, lock=True)
            if account is None:
                raise NotFoundError
            open_days = await PeriodLockStore(unit.connection).open_days([account["identifier"]])
            open_days.check(given.on, account["identifier"])
            put = await store.put_balance(wanted, given.on, given.balance_minor, change_id=unit.change_id, at=unit.now)
            if put["stored"] is not None:
                about = {"on": given.on.isoformat()}
                before = None if put["version"] is None else {**about, "balanceMinor": put["balance_minor"]}
                after = {**about, "balanceMinor": given.balance_minor}
                unit.record(Record(action="account.book_balance_set", resource_id=wanted, before=before, after=after))
        return BookBalancePublic(
            account_id=wanted,
            on=given.on,
            currency=account["currency"],
            balance_minor=given.balance_minor,
            balance=format_minor(given.balance_minor, account["currency"]),
            version=put["stored"] or put["version"],
        )


_COLUMN: Final = {"opening_balance_minor": "opening_minor", "opening_on": "opening_on"}
"""What a patch and the table call differently, and what goes with it."""


async def name_accounts(unit: Unit, ids: IdSource, named: Named) -> None:
    """Make the accounts that lines or statements name, unless they are there.

    Their rows are held from here to the end of the transaction. So this comes after what is stored of lines and
    statements, and before anything that everybody waits for, as a run that is asked for.
    """
    store = AccountStore(unit.connection)
    known = await store.known(named) if named else set()
    wanted = [(ids.new(), *key, kind) for key, kind in sorted(named.items()) if key not in known]
    if not wanted:
        return
    for row in await store.make(wanted, change_id=unit.change_id, at=unit.now):
        unit.record(_creation(row))


async def move_openings(unit: Unit, named: Collection[tuple[str, str]]) -> None:
    """Let accounts begin with their earliest statement, unless somebody has set with what; as ``name_accounts``."""
    if not named:
        return
    store = AccountStore(unit.connection)
    for row in await store.move_openings(named, change_id=unit.change_id, at=unit.now):
        before = {"opening_minor": row["minor_before"], "opening_on": row["on_before"]}
        after = {"opening_minor": row["opening_minor"], "opening_on": row["opening_on"]}
        unit.record(Record(action="account.updated", resource_id=row["id"], before=_told(before), after=_told(after)))


def public_of(row: Mapping[str, Any]) -> AccountPublic:
    """Return the resource of a stored row."""
    minor = row["opening_minor"]
    opening = None if minor is None else format_minor(minor, row["currency"])
    return AccountPublic.model_validate({**row, "opening_balance_minor": minor, "opening_balance": opening})


def _check_opening(values: Mapping[str, Any]) -> None:
    """Refuse a balance without its day, and a day without its balance."""
    for name, pointer, other in (
        ("opening_minor", "/openingBalanceMinor", "opening_on"),
        ("opening_on", "/openingOn", "opening_minor"),
    ):
        if values[name] is None and values[other] is not None:
            detail = "an opening balance is an amount and the day that begins with it"
            raise ValidationFailedError.of(FieldError(pointer=pointer, code="required", detail=detail))


def _creation(row: Mapping[str, Any]) -> Record:
    after = {name: row[name] for name in ("identifier", "currency", "kind", "opening_minor", "opening_on")}
    return Record(action="account.created", resource_id=row["id"], after=_told(after))


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as the audit keeps them, by the names of the interface."""
    names = {name: "openingBalanceMinor" if name == "opening_minor" else to_camel(name) for name in values}
    return {
        names[name]: value.isoformat() if name == "opening_on" and value is not None else value
        for name, value in values.items()
    }
