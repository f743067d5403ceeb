"""Where erasures look: in every text of every table, and for no less than the rule finds."""

from __future__ import annotations

import pytest

from payrec.domain.erasures import Wanted
from payrec.storage.erasure_places import KEPT_COLUMNS, find, place_of, places
from payrec.tables.base import TENANT_METADATA
from support.service import Service, Tenant
from support.tenant_data import scope_of_tenant

pytestmark = pytest.mark.anyio

NAME = "Anna Müller"
IBAN = "DE02120300000000202051"
EMIRATES = "AE070331234567890123456"
"""An E behind a vowel, which a name may have or not."""
LATVIA = "LV80BANK0000435195001"


async def test_every_text_of_every_table_is_looked_through_or_named(service: Service, acme: Tenant) -> None:
    """Whoever adds a column that holds texts need not think of erasures: it is looked through unless it is named."""
    looked = {(place.table, name) for place in places() for name in place.columns}
    assert {("allocation", "reason"), ("job", "result"), ("webhook", "description"), ("event", "data")} <= looked
    names = {column.name for table in TENANT_METADATA.tables.values() for column in table.columns}
    assert names >= KEPT_COLUMNS
    # What a database finds is never less than the rule: names and accounts as banks write them.
    texts = [
        "MÜLLER,ANNA",
        "Anna Mu\u0308ller",
        "x anna-mueller x",
        "ANNA MULLER",
        "Жанна",
        "GROSS, Yıldız",
        "Yildiz Groß",
        "iban de02-1203 0000 0000202051",
        "DE02\u00a01203\u00a00000 0000\u202f2020 51 für Anna",
        "DE02120300\r\n000000202051",
        "\uff24\uff25\uff10\uff12 1203 0000 0000 2020 51",
        EMIRATES,
        "ae07 0331 2345 6789 0123 456",
        "LV80 BANK\x0b0000 4351 9500 1",
        "Uau",
    ]
    scope = await scope_of_tenant(service.factory, acme)
    async with service.factory.context.database.tenant(scope) as connection:
        await connection.execute("DELETE FROM counterparty_name")
        for number, text in enumerate([*texts, "Hannah", "Bolt"]):
            await connection.execute("INSERT INTO counterparty_name VALUES (%s, %s, '')", (number, text))
        called = (Wanted(NAME), Wanted("жанна"), Wanted("Yıldız Groß"), Wanted("Uau"))
        numbers = [Wanted(number, is_account=True) for number in (IBAN, EMIRATES, LATVIA)]
        for what in (*called, *numbers):
            found = [
                row["text"] async for many in find(connection, place_of("counterparty_name"), what) for row in many
            ]
            assert {text for text in texts if what.is_in(text)} <= set(found)
            assert any(map(what.is_in, found))
