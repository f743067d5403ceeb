"""An environment in which every text is hostile, and what a page may not have become because of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from payrec.console.formatting import plain
from payrec.models.expected_transactions import ExpectedTransactionCreate
from payrec.models.incoming_transactions import IncomingTransactionCreate
from support.browser import ConsoleWorld
from support.hostile_files import FILES, HostileFile
from support.hostile_texts import LONG, RUNS, SHORT, TAG, hostile
from support.providers import Person
from support.service import Tenant
from support.wire import in_control

if TYPE_CHECKING:
    from playwright.async_api import Page

IMPORTS: Final = "/console/production/imports"
CUT_OFF: Final = "2026-03-31"
USERNAME: Final = f"{SHORT}<img/src=x/onerror={RUNS}>"

FAULTS: Final = """(tag) => {
    const hidden = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069]/;
    const faults = [];
    if (window.hacked !== undefined) faults.push("a script of a text has run");
    const roots = [document, ...[...document.querySelectorAll("template")].map((one) => one.content)];
    for (const element of roots.flatMap((root) => [...root.querySelectorAll("*")])) {
        const name = element.localName;
        if ([tag, "img", "iframe", "object", "embed", "base", "style"].includes(name)) faults.push(`<${name}>`);
        const isOurScript = name !== "script" || element.src.startsWith(`${location.origin}/console/static/`);
        if (!isOurScript) faults.push("a script");
        for (const { name: attribute, value } of element.attributes) {
            const isForeign = /^on|^style$|^srcdoc$/.test(attribute) || attribute.includes(tag);
            const isAddress = ["href", "src", "action", "formaction"].includes(attribute);
            const isOurs = /^([#?]|[/]console)/.test(value) || value.startsWith(`${location.origin}/console/`);
            if (isForeign || (isAddress && !isOurs)) faults.push(`<${name} ${attribute}="${value}">`);
            // A field to write in has its text as it is, and data are not shown.
            if (attribute !== "value" && !attribute.startsWith("data-") && hidden.test(value))
                faults.push(`<${name} ${attribute}> hides something`);
        }
    }
    const texts = document.createTreeWalker(document, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const { data, parentElement } = texts.currentNode;
        if (hidden.test(data)) faults.push(`hidden in ${parentElement.outerHTML.slice(0, 200)}`);
    }
    return faults;
}"""
"""What a page has that no page of ours has: elements and attributes of texts, and characters that hide others."""


@dataclass(slots=True, kw_only=True)
class HostileWorld:
    """What was stored, by whom, and where it is."""

    world: ConsoleWorld
    person: Person
    tenant: Tenant
    """Acme, asked by that person."""
    imports: dict[str, str] = field(default_factory=dict)
    """The import of each format's file."""
    profiles: dict[str, str] = field(default_factory=dict)
    """The data source of each file that needs one."""
    lines: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    matches: dict[str, str] = field(default_factory=dict)
    """By status."""
    faults: list[str] = field(default_factory=list)
    """What a text has become that is not a text, and where."""

    async def post(self, path: str, body: Any, status: int = 201) -> dict[str, Any]:
        """Ask for a change and return the answer, which has to have this status."""
        answer = await self.tenant.post(path, body)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def get(self, path: str) -> dict[str, Any]:
        """Return what there is at a path."""
        answer = await self.tenant.get(path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


async def hostile_world(world: ConsoleWorld) -> HostileWorld:
    """Store what comes by the interface, by somebody with a hostile name; files come by ``upload_all``."""
    person = await world.person("admin", "approver", "operator", username=USERNAME)
    answer = await world.service.http.post(f"{world.base_url}/auth/token", json=world.password_of(person))
    assert answer.status_code == 200, answer.text
    found = HostileWorld(world=world, person=person, tenant=replace(world.acme, token=answer.json()["access_token"]))
    named = (("tenant SET name", world.acme.id), ("app_user SET display_name", person.user_id))
    for what, which in named:
        await in_control(world.service, f"UPDATE {what} = %s WHERE id = %s", hostile(what), which)
    for file in (make() for make in FILES.values()):
        # What the columns of a table are is chosen beside the file, as a saved profile.
        if "profile" in file.options:
            source = {"name": f"{file.name} {hostile('profile')}", "kind": "upload"}
            made = await found.post("/data-sources", {**source, "profile": json.loads(file.options["profile"])})
            found.profiles[file.name] = made["id"]
    await _states(found)
    return found


async def _states(found: HostileWorld) -> None:
    """Store lines and items, and have matches in every state that somebody gives a reason for."""
    money = {"direction": "credit", "currency": "EUR"}

    def body(model: type[BaseModel], number: int, amount: str, **more: Any) -> dict[str, Any]:
        return {**money, **texts_of(model, f"{number}"), "amount": amount, **more}

    item = {"dueDate": "2026-03-10"}
    line = {"bookingDate": "2026-03-12"}
    for number, amount in enumerate(("900.00", "800.00", "700.00", "600.00")):
        same = ("endToEndId", "counterpartyName", "counterpartyAccount", "account")
        shared = {name: hostile(f"{number} {name}") for name in same}
        reference = f"INV-{number:05}-Q"
        given = body(ExpectedTransactionCreate, number, amount, **item, **shared, reference=reference)
        made = await found.post("/expected-transactions", given)
        found.items.append(made["id"])
        long = {"remittance": (f"{reference} {hostile(f'{number} text')}" + " x" * LONG)[:LONG]}
        # What has a reason for its return is no payment.
        given = body(IncomingTransactionCreate, number, amount, **line, **shared, **long, returnReason=None)
        made = await found.post("/incoming-transactions", given)
        found.lines.append(made["id"])
    run = await found.post("/matches/match", {"wait": 60}, 200)
    assert run["status"] == "succeeded", run
    proposals = []
    for one in found.lines[:3]:
        made = await found.get(f"/matches?incomingTransactionId={one}")
        assert made["data"], one
        proposals.append(made["data"][0]["id"])
    found.matches["proposed"] = proposals[0]
    found.matches["rejected"] = proposals[1]
    await found.post(f"/matches/{proposals[1]}/reject", {"reason": hostile("rejected")}, 200)
    found.matches["reversed"] = proposals[2]
    await found.post(f"/matches/{proposals[2]}/accept", {"reason": hostile("accepted")}, 200)
    await found.post(f"/matches/{proposals[2]}/reverse", {"reason": hostile("reversed")}, 200)
    leg = {"expectedTransactionId": found.items[3], "incomingTransactionId": found.lines[3], "amountMinor": 50_000}
    made = await found.post("/matches", {"legs": [leg], "reason": hostile("by hand")})
    found.matches["accepted"] = made["id"]
    for number, (verb, said) in enumerate(
        (
            ("ignore", {"reason": hostile("ignored")}),
            ("classify", {"category": "fee", "postingCode": SHORT, "reason": hostile("classified")}),
        )
    ):
        made = await found.post("/incoming-transactions", body(IncomingTransactionCreate, 10 + number, "5.00", **line))
        found.lines.append(made["id"])
        await found.post(f"/incoming-transactions/{made['id']}/{verb}", said, 200)
    lock = await found.post("/period-locks", {"through": "2018-06-30", "reason": hostile("locked")})
    await found.post(f"/period-locks/{lock['id']}/reopen", {"reason": hostile("reopened")}, 200)


def texts_of(model: type[BaseModel], name: str) -> dict[str, Any]:
    """Return a hostile value of each member of a request that is free text, as long as it may be."""
    found: dict[str, Any] = {}
    for member, schema in model.model_json_schema(by_alias=True)["properties"].items():
        kinds = schema.get("anyOf", [schema])
        for kind in kinds:
            is_text = kind.get("type") == "string" and not {"pattern", "enum", "format", "const"} & kind.keys()
            if is_text and kind.get("maxLength", 0) >= 100:
                limit = min(kind["maxLength"], LONG)
                found[member] = (hostile(f"{name} {member}") + "\u009f\u200b" + "x" * limit)[:limit]
    return {**found, "metadata": {SHORT: hostile(f"{name} metadata")}}


async def upload_all(found: HostileWorld, page: Page) -> None:
    """Upload the file of every format as somebody does who looks at it first, and keep what it became."""
    for name, make in FILES.items():
        file = make()
        await previewed(found, page, file)
        await look(found, page, f"the preview of {name}")
        await page.get_by_role("button", name="Upload it").click()
        await page.wait_for_url(f"**{IMPORTS}/*-*")
        found.imports[name] = page.url.rpartition("/")[2]
        await page.locator("#watch").wait_for(state="detached")
        stored = await found.get(f"/imports/{found.imports[name]}")
        counts = stored["counts"]
        assert (stored["status"], counts["rejected"], counts["duplicates"]) == ("completed", 0, 0), (name, stored)
        lines = await found.get(f"/incoming-transactions?importId={stored['id']}&limit=200")
        assert len(lines["data"]) == counts["accepted"] > 0, (name, counts)
        found.lines += [line["id"] for line in lines["data"]]


async def previewed(found: HostileWorld, page: Page, file: HostileFile) -> None:
    """Choose a file and look at it."""
    await page.goto(IMPORTS)
    if file.name in found.profiles:
        await page.get_by_label("Profile", exact=True).select_option(found.profiles[file.name])
    given: Any = {"name": f"{hostile('file', without='/')}{file.name}", "mimeType": "", "buffer": file.content}
    await page.get_by_label("Choose a file").set_input_files(given)
    await page.get_by_role("button", name="Preview", exact=True).click()
    await page.locator("#preview-lines tbody tr").first.wait_for()


async def look(found: HostileWorld, page: Page, where: str) -> None:
    """Look for what a text may have become other than a text, on the page as it is."""
    found.faults += [f"{where}: {fault}" for fault in await page.evaluate(FAULTS, TAG)]


def shown_texts(resource: Any) -> list[str]:
    """Return all hostile texts of an answer, as a page has to show them."""
    if isinstance(resource, dict):
        return [text for key, value in resource.items() for part in (key, value) for text in shown_texts(part)]
    if isinstance(resource, list):
        return [text for value in resource for text in shown_texts(value)]
    is_hostile = isinstance(resource, str) and TAG in resource.lower()
    return [plain(resource, length=len(resource))] if is_hostile else []
