"""Files are dropped, looked at, corrected and uploaded in a browser, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.browser import ConsoleWorld, held, previewed, sign_in
from support.statements import camt, message
from support.tenant_data import scope_of_tenant

if TYPE_CHECKING:
    from playwright.async_api import FilePayload, Page, Route

pytestmark = pytest.mark.anyio

DATA = Path(__file__).parents[2] / "data"
CAMT = DATA / "uploads" / "statement.camt053.xml"
MT940 = DATA / "uploads" / "statement.mt940"
PAGE = "/console/production/imports"
MESSY = (
    b"Export of an account\n\nBuchung;Valuta;Verwendungszweck;Empf\xe4nger;Betrag;W\xe4hrung\n"
    b"03.04.2026;03.04.2026;Rechnung 4711;M\xfcller GmbH;1.234,50;EUR\n"
    b"05.04.2026;06.04.2026;Miete;Haus & Hof;-800,00;EUR\n"
)
AMBIGUOUS = b"Date;Text;Amount;Currency\n03/04/2026;rent;-1.50;EUR\n05/06/2026;invoice;2.50;EUR\n"

Axe = Callable[[Any], Awaitable[None]]
Shot = Callable[..., Awaitable[None]]


def file(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


async def uploaded(page: Page) -> str:
    """Upload what was looked at and return the text of its page."""
    await page.get_by_role("button", name="Upload it").click()
    await page.wait_for_url(f"**{PAGE}/*-*")
    return await page.locator("main").inner_text()


@pytest.mark.parametrize(("path", "kind"), [(CAMT, "camt.053"), (MT940, "mt940")])
async def test_a_bank_s_file_is_looked_at_and_uploaded_by_mouse(
    page: Page, console_world: ConsoleWorld, axe: Axe, shot: Shot, path: Path, kind: str
) -> None:
    await page.goto(PAGE)
    await previewed(page, path)
    await page.get_by_role("heading", name="What is in the file").wait_for()
    assert kind in await page.locator("[data-fact=format]").inner_text()
    assert await page.locator("#preview-lines tbody tr").count() > 0
    # Of a file that is no table nothing can be corrected, and nothing is stored yet.
    assert await page.locator("#dialect").is_hidden()
    [before] = [len((await console_world.rest("GET", "/imports")).json()["data"])]
    await axe(page)
    text = await uploaded(page)
    assert "COMPLETED" in text.upper()
    assert path.name in text
    assert len((await console_world.rest("GET", "/imports")).json()["data"]) == before + 1
    await axe(page)
    await shot(page, "import")
    await page.goto(f"{page.url}/lines")
    assert await page.locator("tbody tr").count() > 0
    await axe(page)
    await shot(page, "import-lines")
    await page.goto(PAGE)
    await axe(page)
    await shot(page, "imports")


async def test_a_table_is_corrected_saved_as_a_profile_and_uploaded_by_keyboard_alone(
    page: Page, console_world: ConsoleWorld, axe: Axe, shot: Shot
) -> None:
    await page.goto(PAGE)
    await page.get_by_label("Choose a file").set_input_files(file("konto.csv", MESSY))
    await page.get_by_label("Choose a file").focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    await page.keyboard.type("KONTO")
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="How the table was read").wait_for()
    assert await page.locator("#d-decimal").input_value() == ","
    assert await page.locator("#d-delimiter").input_value() == ";"
    assert "Müller GmbH" in await page.locator("#preview-lines").inner_text()
    assert "1,234.50\u00a0EUR" in await page.locator("#preview-lines").inner_text()
    # Money in is what the bank calls positive; the owner of the account says that it is the other way round.
    await page.locator("#d-sign").focus()
    await page.keyboard.press("End")
    assert await page.locator("#d-sign").input_value() == "inverted"
    assert "was-changed" in str(await page.locator("#d-sign").get_attribute("class"))
    await page.get_by_role("button", name="Preview again").focus()
    await page.keyboard.press("Enter")
    await page.get_by_text("-1,234.50\u00a0EUR").wait_for()
    await axe(page)
    await page.locator("#dialect-title").scroll_into_view_if_needed()
    await shot(page, "imports-dialect")
    await page.get_by_label("Save as a profile called").focus()
    await page.keyboard.type("Konto, inverted")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.get_by_text("Saved. It can be chosen").wait_for()
    [source] = (await console_world.rest("GET", "/data-sources")).json()["data"]
    assert (source["name"], source["profile"]["sign"], source["format"]) == ("Konto, inverted", "inverted", "csv")
    await page.get_by_role("button", name="Upload it").focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**{PAGE}/*-*")
    found = (await console_world.rest("GET", "/incoming-transactions?account=KONTO")).json()["data"]
    assert sorted((line["direction"], line["amountMinor"]) for line in found) == [("credit", 80000), ("debit", 123450)]
    # The next file of the kind is read by the profile.
    await page.goto(PAGE)
    await page.get_by_label("Profile", exact=True).select_option(label="Konto, inverted")
    await page.get_by_label("Account", exact=True).fill("KONTO")
    await previewed(page, file("later.csv", MESSY.replace(b"4711", b"4712")))
    await page.locator("#preview-lines tbody tr").first.wait_for()
    assert await page.locator("#d-sign").input_value() == "inverted"


async def test_what_was_changed_after_the_preview_is_looked_at_before_it_is_stored(
    page: Page, console_world: ConsoleWorld
) -> None:
    await page.goto(PAGE)
    await page.get_by_label("Account", exact=True).fill("SEEN")
    await previewed(page, file("changed.csv", MESSY.replace(b"4711", b"4713")))
    upload, told = page.get_by_role("button", name="Upload it"), page.get_by_text("changed after the preview")
    await page.get_by_role("heading", name="How the table was read").wait_for()
    await page.locator("#d-sign").select_option("inverted")
    await upload.click()
    await told.wait_for()
    await page.get_by_text("-1,234.50\u00a0EUR").wait_for()
    await page.get_by_label("Account", exact=True).fill("CHANGED")
    await upload.click()
    await page.locator("#preview-statements").get_by_text("CHANGED").wait_for()
    assert await told.is_visible()
    assert not (await console_world.rest("GET", "/incoming-transactions?account=SEEN")).json()["data"]
    await uploaded(page)
    found = (await console_world.rest("GET", "/incoming-transactions?account=CHANGED")).json()["data"]
    assert sorted((line["direction"], line["amountMinor"]) for line in found) == [("credit", 80000), ("debit", 123450)]


async def test_a_file_that_does_not_say_enough_asks_and_takes_the_answer(page: Page, axe: Axe) -> None:
    await page.goto(PAGE)
    await page.get_by_label("Account", exact=True).fill("ASKED")
    await previewed(page, file("dates.csv", AMBIGUOUS))
    await page.get_by_role("group", name="Which part of a date comes first").wait_for()
    await axe(page)
    await page.get_by_label("3 April 2026").check()
    await page.get_by_role("button", name="Answer").click()
    await page.locator("#preview-lines tbody tr").first.wait_for()
    assert "Apr 3, 2026" in await page.locator("#preview-lines").inner_text()


async def test_a_file_that_cannot_be_read_says_so_and_leaves_the_page_as_it_was(page: Page, axe: Axe) -> None:
    await page.goto(PAGE)
    await page.get_by_label("Account", exact=True).fill("KEPT")
    await previewed(page, file("photo.png", b"\x89PNG\r\n\x1a\n" + bytes(200)))
    await page.locator("#refused").wait_for()
    assert await page.evaluate("document.activeElement.id") == "refused"
    assert len(await page.locator("#refused-text").inner_text()) > 10
    assert await page.get_by_label("Account", exact=True).input_value() == "KEPT"
    assert await page.locator("#preview").is_hidden()
    await axe(page)
    await previewed(page, file("empty.csv", b""))
    await page.get_by_text("The file is empty.").wait_for()


async def test_a_file_may_be_dropped(page: Page) -> None:
    await page.goto(PAGE)
    given = await page.evaluate_handle(
        """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], "dropped.xml"));
            return data;
        }""",
        message(camt(0, 100, 40)).decode(),
    )
    await page.dispatch_event("#drop", "drop", {"dataTransfer": given})
    await page.get_by_role("heading", name="What is in the file").wait_for()
    assert await page.locator("[data-fact=name]").inner_text() == "dropped.xml"


async def test_several_files_are_taken_one_after_the_other(page: Page, console_world: ConsoleWorld) -> None:
    first, last = "NL20INGB0001234567", "NL02ABNA0123456789"
    payloads = [
        file("first.xml", message(camt(0, 100, 61, account=first))),
        file("binary.csv", b"\x00\x01\x02\x03" * 40),
        file("last.xml", message(camt(0, 250, 62, account=last))),
    ]
    await page.goto(PAGE)
    await page.get_by_label("Choose a file").set_input_files(payloads)
    await page.get_by_role("button", name="Preview", exact=True).click()
    await page.get_by_text("File 1 of 3").wait_for()
    # Whose account it is, and what it comes to, is seen before anything is stored.
    statement = await page.locator("#preview-statements tbody").inner_text()
    assert first in statement
    assert "1.00\u00a0EUR" in statement
    assert "add up" in statement
    await page.get_by_text(f"There was no statement of the account {first} yet.").wait_for()
    await page.get_by_role("button", name="Upload it", exact=True).click()
    # What cannot be read says what to do, and keeps nobody from the rest.
    await page.get_by_text("Take the file from the bank once more").wait_for()
    await page.get_by_role("button", name="Leave it out").click()
    await page.get_by_text("File 3 of 3").wait_for()
    await page.get_by_role("button", name="Upload it", exact=True).click()
    await page.wait_for_url(f"**{PAGE}")
    await page.get_by_role("link", name="last.xml").wait_for()
    names = [found["name"] for found in (await console_world.rest("GET", "/imports")).json()["data"]]
    assert names[:2] == ["last.xml", "first.xml"]
    # Of a file that has come before, that is told; and of its account, nothing any more.
    await previewed(page, payloads[0])
    await page.locator("#preview-statements").get_by_text(first).wait_for()
    await page.get_by_role("button", name="Upload it", exact=True).click()
    await page.wait_for_url(f"**{PAGE}/*-*")
    await page.get_by_text("This file had come before.").wait_for()
    assert await page.locator("#preview-new-accounts").count() == 0


async def test_of_several_files_it_is_told_which_is_asked_about(page: Page, axe: Axe) -> None:
    payloads = [
        file("stored.xml", message(camt(0, 100, 63, account="NL20INGB0001234567"))),
        file("asked.csv", AMBIGUOUS),
        file("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(200)),
    ]
    await page.goto(PAGE)
    assert await page.get_by_role("link", name="stored.xml").count() == 0
    await page.get_by_label("Choose a file").set_input_files(payloads)
    await page.get_by_role("button", name="Preview", exact=True).press("Enter")
    await page.locator("#preview").wait_for()
    await page.get_by_role("button", name="Upload it", exact=True).press("Enter")
    await page.get_by_role("group", name="Which part of a date comes first").wait_for()
    # What was stored is in the list already, though others are still to come.
    await page.get_by_role("link", name="stored.xml").wait_for()
    assert await page.get_by_text("File 2 of 3: asked.csv").is_visible()
    # The question is enough; how a program would answer it is nobody's business here.
    assert await page.locator("#refused").is_hidden()
    await axe(page)
    await page.get_by_role("button", name="Leave it out").press("Enter")
    await page.get_by_text("File 3 of 3: picture.png").wait_for()
    assert await page.locator("#question").is_hidden()
    async with page.expect_navigation():
        await page.get_by_role("button", name="Leave it out").press("Enter")
    await page.get_by_role("link", name="stored.xml").wait_for()


async def test_amounts_have_the_digits_that_banks_give_their_currency(page: Page) -> None:
    """What browsers know of currencies is how they are displayed, which is less for some."""
    lines = "".join(f"2026-03-04;of {code};1234.50;{code}\n" for code in ("HUF", "RSD", "EUR"))
    await page.goto(PAGE)
    await page.get_by_label("Account", exact=True).fill("DIGITS")
    await previewed(
        page, file("digits.csv", f"Date;Text;Amount;Currency\n{lines}2026-03-04;dinar;1.250;IQD\n".encode())
    )
    rows = page.locator("#preview-lines tbody tr")
    await rows.nth(3).wait_for()
    told = [text.replace("\u00a0", " ") for text in await rows.locator("td:nth-child(3)").all_inner_texts()]
    assert told == ["1,234.50 HUF", "1,234.50 RSD", "1,234.50 EUR", "1.250 IQD"]


async def test_hostile_names_and_contents_end_as_text(page: Page, axe: Axe) -> None:
    hostile = '<img src=x onerror="window.hacked=1">\u202e=cmd()'
    table = f"Date;Text;Name;Amount;Currency\n2026-03-04;{hostile};{hostile};1.00;EUR\n".encode()
    await page.goto(PAGE)
    await page.get_by_label("Account", exact=True).fill("HOSTILE")
    await previewed(page, file(f"{hostile.replace('/', '')}.csv", table))
    await page.locator("#preview-lines tbody tr").first.wait_for()
    assert "<img src=x" in await page.locator("#preview-lines").inner_text()
    assert "U+202E" in await page.locator("#preview-lines").inner_text()
    await axe(page)
    await uploaded(page)
    for path in (PAGE, f"{PAGE}/timeline?through=2026-03-31"):
        await page.goto(path)
        assert await page.locator("main img").count() == 0
    assert await page.evaluate("window.hacked") is None


async def never_answered(_route: Route) -> None:
    """Leave a request as it is."""


async def test_sending_ends_when_it_is_stopped_and_when_the_connection_is_lost(page: Page) -> None:
    await page.goto(PAGE)
    await held(page, "**/upload/preview", never_answered)
    await previewed(page, file("slow.csv", AMBIGUOUS))
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_text("Stopped. Nothing was stored.").wait_for()
    await page.unroute("**/upload/preview")
    await held(page, "**/upload/preview", lambda route: route.abort())
    await page.get_by_role("button", name="Preview", exact=True).click()
    await page.get_by_text("The connection was lost. Trying again is safe").wait_for()
    assert await page.get_by_role("button", name="Preview", exact=True).is_enabled()


async def test_an_upload_that_was_lost_is_tried_again_with_the_same_key(page: Page) -> None:
    keys = []

    async def lost(route: Any) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            await route.abort()
        else:
            await route.continue_()

    await page.goto(PAGE)
    await previewed(page, file("twice.xml", message(camt(0, 100, 41, account="NL91ABNA0417164300"))))
    await page.get_by_role("heading", name="What is in the file").wait_for()
    await held(page, "**/incoming-transactions/upload", lost)
    await page.get_by_role("button", name="Upload it").click()
    await page.get_by_text("The connection was lost. Trying again is safe").wait_for()
    await page.get_by_role("button", name="Upload it").click()
    await page.wait_for_url(f"**{PAGE}/*-*")
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_an_import_that_is_being_read_is_watched_until_it_is_done(page: Page) -> None:
    lines = "".join(f"2026-03-04;line {n};{n}.00;EUR\n" for n in range(1, 40_000))
    await page.goto(PAGE)
    await page.get_by_label("Account", exact=True).fill("LARGE")
    await previewed(page, file("large.csv", f"Date;Text;Amount;Currency\n{lines}".encode()))
    await page.get_by_role("button", name="Upload it").wait_for()
    await page.get_by_text("20 of 39,999 lines are shown").wait_for()
    await page.get_by_role("button", name="Upload it").click()
    await page.wait_for_url(f"**{PAGE}/*-*")
    await page.get_by_text("completed", exact=True).wait_for(timeout=60_000)
    assert "39,999" in await page.locator("main").inner_text()


async def test_an_import_that_is_being_read_can_be_cancelled(page: Page, console_world: ConsoleWorld, axe: Axe) -> None:
    answer = await console_world.acme.post(
        "/incoming-transactions/upload", files={"file": ("held.xml", message(camt(0, 100, 42)))}
    )
    found = answer.json()
    database = console_world.service.factory.context.database
    scope = await scope_of_tenant(console_world.service.factory, console_world.acme)

    async def become(imported: str, job: str) -> None:
        async with database.tenant(scope) as connection:
            await connection.execute("UPDATE import SET status = %s WHERE id = %s", (imported, found["id"]))
            await connection.execute("UPDATE job SET status = %s WHERE id = %s", (job, found["jobId"]))

    await become("processing", "running")
    await page.goto(f"{PAGE}/{found['id']}")
    await axe(page)
    await page.get_by_role("button", name="Cancel the import").click()
    await page.get_by_text("It is asked to stop.").wait_for()
    await become("completed", "succeeded")
    await page.get_by_text("completed", exact=True).wait_for()
    assert await page.locator("#watch").count() == 0


async def test_a_session_that_is_over_while_a_file_is_sent_goes_on_after_sign_in(
    page: Page, console_world: ConsoleWorld
) -> None:
    await page.goto(PAGE)
    await page.get_by_label("Account", exact=True).fill("SESSION")
    await page.context.clear_cookies()
    await previewed(page, file("session.csv", MESSY))
    dialog = page.get_by_role("dialog", name="Your session is over")
    await dialog.wait_for()
    await sign_in(page.context, console_world)
    other = await page.context.new_page()
    await other.goto("/console/signed-in")
    await page.get_by_role("heading", name="How the table was read").wait_for()
    assert await dialog.is_hidden()


async def test_the_timeline_tells_gaps_in_a_drawing_and_in_words(
    page: Page, console_world: ConsoleWorld, axe: Axe, shot: Shot
) -> None:
    account = "FR1420041010050500013M02606"
    weeks = [camt(100 * day, 100 * day + 100, day, account=account) for day in (*range(5), *range(7, 12), 20)]
    for content in map(message, weeks):
        answer = await console_world.acme.post(
            "/incoming-transactions/upload", files={"file": ("statement.xml", content)}
        )
        assert answer.status_code == 201, answer.text
    await page.goto(f"{PAGE}/timeline?through=2026-03-31")
    drawing = page.get_by_role("img", name="11 of 91 days covered; gaps: 2; missing statements: 0")
    assert await drawing.count() == 1
    await axe(page)
    await shot(page, "timeline")
    await page.get_by_role("link", name=account).first.click()
    await page.get_by_text("Nothing is known of").first.wait_for()
    await axe(page)
    await page.set_viewport_size({"width": 640, "height": 800})
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) <= 0
    await page.goto(PAGE)
    assert await page.evaluate(overflow) <= 0
