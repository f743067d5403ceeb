"""Whose payment an entry is and what it pays, where messages say it in other places than the usual ones."""

from __future__ import annotations

import pytest

from support.camt import codes, details, document, ntry, one, read

OWN = "DE89370400440532013000"
OTHER = "DE02120300000000202051"


def party(side: str, name: str, account: str | None) -> str:
    told = f"<{side}Acct><Id><IBAN>{account}</IBAN></Id></{side}Acct>" if account else ""
    return f"<{side}><Pty><Nm>{name}</Nm></Pty></{side}>{told}"


def parties(debtor: str, creditor: str) -> str:
    return details(f"<RltdPties>{debtor}{creditor}</RltdPties><RtrInf><Rsn><Cd>AC04</Cd></Rsn></RtrInf>")


@pytest.mark.parametrize(
    ("direction", "inside"),
    [
        # A collected debit comes back: who was to pay is the debtor still.
        ("DBIT", parties(party("Dbtr", "Customer", OTHER), party("Cdtr", "We", OWN))),
        ("DBIT", parties(party("Dbtr", "Customer", None), party("Cdtr", "We", OWN))),
        # A payment comes back.
        ("CRDT", parties(party("Dbtr", "We", OWN), party("Cdtr", "Customer", OTHER))),
        # And the usual ones.
        ("CRDT", parties(party("Dbtr", "Customer", OTHER), party("Cdtr", "We", OWN))),
        ("DBIT", parties(party("Dbtr", "We", OWN), party("Cdtr", "Customer", OTHER))),
    ],
)
def test_the_own_account_is_no_counterparty(direction: str, inside: str) -> None:
    entry = one(ntry(inside, direction=direction))
    account = OTHER if OTHER in inside else None
    assert (entry.counterparty_name, entry.counterparty_account) == ("Customer", account)


def test_a_transfer_within_one_account_has_the_party_that_it_names() -> None:
    entry = one(ntry(parties(party("Dbtr", "We", OWN), party("Cdtr", "We too", OWN))))
    assert (entry.counterparty_name, entry.counterparty_account) == ("We", OWN)


DOCUMENT = "<RmtInf><Strd><RfrdDocInf><Nb>INV-9</Nb></RfrdDocInf><AddtlRmtInf>a part</AddtlRmtInf></Strd>{}</RmtInf>"


@pytest.mark.parametrize(
    ("inside", "remittance"),
    [
        (DOCUMENT.format(""), "INV-9\na part\nCREDIT"),
        (DOCUMENT.format("<Strd><RfrdDocInf><Nb>INV-10</Nb></RfrdDocInf></Strd>"), "INV-9\na part\nINV-10\nCREDIT"),
        (DOCUMENT.format("<Ustrd>both invoices</Ustrd>"), "both invoices"),
        ("<RmtInf><Strd><RfrdDocInf><RfrdDocNb>INV-9</RfrdDocNb></RfrdDocInf></Strd></RmtInf>", "INV-9\nCREDIT"),
        ("<AddtlTxInf>told</AddtlTxInf>" + DOCUMENT.format(""), "INV-9\na part\ntold"),
    ],
)
def test_the_documents_that_are_paid_are_text_where_there_is_no_other(inside: str, remittance: str) -> None:
    entry = one(ntry(details(inside) + "<AddtlNtryInf>CREDIT</AddtlNtryInf>"))
    assert entry.remittance == remittance


def instructed(amount: str, currency: str = "EUR") -> str:
    return f'<AmtDtls><InstdAmt><Amt Ccy="{currency}">{amount}</Amt></InstdAmt></AmtDtls>'


def test_details_of_a_batch_may_have_what_was_instructed_alone() -> None:
    collected = read(document(ntry(details(instructed("4.00"), instructed("6.00")))))
    assert [(e.amount_minor, e.batch and e.batch.itemised) for e in collected.entries[0]] == [(400, True), (600, True)]
    assert codes(collected) == []


@pytest.mark.parametrize("second", [instructed("7.00"), instructed("6.00", "USD")])
def test_what_was_instructed_is_no_proof_where_it_does_not_add_up(second: str) -> None:
    collected = read(document(ntry(details(instructed("4.00"), second))))
    assert [(e.amount_minor, len(e.details)) for e in collected.entries[0]] == [(1_000, 2)]
    assert codes(collected) == ["batch_details_unbalanced"]
