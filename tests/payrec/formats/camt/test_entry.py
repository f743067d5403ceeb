from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.statements import Batch
from support.camt import DATES, codes, details, document, ntry, one, part, read

# Fields -----------------------------------------------------------------------------------------------------------


def test_every_field_of_an_entry() -> None:
    entry = one(
        ntry(
            "<NtryRef>7</NtryRef><RvslInd>true</RvslInd><Sts><Cd>PDNG</Cd></Sts><ValDt><DtTm>2026-01-03T00:30:00+02:00</DtTm>"
            "</ValDt><AcctSvcrRef>B1</AcctSvcrRef><BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>RCDT</Cd><SubFmlyCd>ESCT</SubFmlyCd>"
            "</Fmly></Domn><Prtry><Cd>166</Cd></Prtry></BkTxCd>"
            + details(
                "<Refs><EndToEndId>NOTPROVIDED</EndToEndId><TxId>T</TxId><InstrId>I</InstrId><PmtInfId>P</PmtInfId>"
                "<MndtId>M</MndtId><UETR>U</UETR><ChqNb>C</ChqNb></Refs>"
                '<AmtDtls><InstdAmt><Amt Ccy="USD">11.50</Amt><CcyXchg><XchgRate>1.15</XchgRate></CcyXchg></InstdAmt>'
                "</AmtDtls>"
                '<Chrgs><Rcrd><Amt Ccy="EUR">0.50</Amt><CdtDbtInd>DBIT</CdtDbtInd></Rcrd></Chrgs>'
                "<RltdPties><Dbtr><Pty><Nm>Payer  Ltd</Nm></Pty></Dbtr><DbtrAcct><Id>"
                "<IBAN>gb29 nwbk 6016 1331 9268 19</IBAN></Id>"
                "</DbtrAcct><UltmtDbtr><Pty><Nm>Parent</Nm></Pty></UltmtDbtr><Cdtr><Pty><Nm>We</Nm></Pty></Cdtr></RltdPties>"
                "<RltdAgts><DbtrAgt><FinInstnId><BICFI>NWBKGB2L</BICFI></FinInstnId></DbtrAgt></RltdAgts>"
                "<Purp><Cd>SALA</Cd></Purp><RmtInf><Ustrd>one</Ustrd><Ustrd>RF18539007547034</Ustrd></RmtInf>"
                "<RtrInf><Rsn><Cd>AC04</Cd></Rsn></RtrInf>"
            )
        )
    )
    assert (entry.entry_reference, entry.bank_reference, entry.end_to_end_id) == ("7", "B1", None)
    assert (entry.transaction_id, entry.instruction_id, entry.payment_information_id) == ("T", "I", "P")
    assert (entry.mandate_id, entry.uetr, entry.check_number) == ("M", "U", "C")
    assert (entry.status, entry.reversal, entry.direction) == ("pending", True, "credit")
    assert (entry.booking_on, entry.value_on) == (date(2026, 1, 2), date(2026, 1, 3))
    assert (entry.bank_transaction_code, entry.purpose_code, entry.return_reason) == ("PMNT-RCDT-ESCT", "SALA", "AC04")
    assert (entry.counterparty_name, entry.counterparty_account) == ("Payer Ltd", "GB29NWBK60161331926819")
    assert (entry.counterparty_bic, entry.ultimate_counterparty_name) == ("NWBKGB2L", "Parent")
    assert (entry.remittance, entry.structured_reference) == ("one\nRF18539007547034", "RF18539007547034")
    assert entry.original is not None
    assert (entry.original.amount_minor, entry.original.currency, entry.exchange_rate) == (1150, "USD", "1.15")
    assert [(c.amount_minor, c.currency, c.direction) for c in entry.charges] == [(50, "EUR", "debit")]
    assert (entry.identity_kind, entry.identity_value, entry.occurrence) == ("bank", "B1", 0)
    assert entry.account == "DE89370400440532013000"


RETURNED = "<RtrInf><Rsn><Cd>AM04</Cd></Rsn></RtrInf>"


def fee(amount: str = "3.00", included: str = "true", direction: str = "DBIT", currency: str = "EUR") -> str:
    said = f"<CdtDbtInd>{direction}</CdtDbtInd><ChrgInclInd>{included}</ChrgInclInd>"
    return f'<Chrgs><Rcrd><Amt Ccy="{currency}">{amount}</Amt>{said}</Rcrd></Chrgs>'


def test_a_return_is_told_apart_from_the_fee_that_its_amount_includes() -> None:
    entry = one(ntry(details(fee() + RETURNED), "55.00", "DBIT"))
    assert (entry.amount_minor, entry.direction) == (5_200, "debit")
    assert entry.net is not None
    assert (entry.net.amount_minor, entry.net.currency, entry.net.direction) == (5_500, "EUR", "debit")
    # The statement adds up with what the account moved.
    read_ = read(document(ntry(details(fee() + RETURNED), "55.00", "DBIT")))
    assert read_.statements[0].booked.debit_minor == 5_500


def paid(amount: str, currency: str = "EUR") -> str:
    return f'<AmtDtls><InstdAmt><Amt Ccy="{currency}">{amount}</Amt></InstdAmt></AmtDtls>'


def test_a_fee_is_told_apart_where_it_and_the_payment_are_the_amount() -> None:
    """As banks write it that send version 2, whose charges do not say whether the amount includes them."""
    charges = '<Chrgs><Amt Ccy="EUR">3.00</Amt></Chrgs><Chrgs><Amt Ccy="EUR">0.00</Amt></Chrgs>'
    entry = one(ntry(details(paid("52.00") + charges + RETURNED), "55.00", "DBIT"))
    assert (entry.amount_minor, entry.net and entry.net.amount_minor) == (5_200, 5_500)
    for other in (paid("55.00"), paid("52.00", "USD"), paid("52.001"), ""):
        entry = one(ntry(details(other + charges + RETURNED), "55.00", "DBIT"))
        assert (entry.amount_minor, entry.net) == (5_500, None)
    denied = one(ntry(details(paid("52.00") + fee(included="false") + RETURNED), "55.00", "DBIT"))
    assert (denied.amount_minor, denied.net) == (5_500, None)


def test_each_detail_of_a_batch_of_returns_has_its_own_fee() -> None:
    parts = [f'<Amt Ccy="EUR">{amount}</Amt>{fee()}{RETURNED}' for amount in ("55.00", "23.00")]
    [entries] = read(document(ntry(details(*parts), "78.00", "DBIT"))).entries.values()
    assert [(e.amount_minor, e.net.amount_minor) for e in entries if e.net] == [(5_200, 5_500), (2_000, 2_300)]


@pytest.mark.parametrize(
    ("inside", "direction"),
    [
        (fee(included="false") + RETURNED, "DBIT"),
        (fee(), "DBIT"),  # nothing comes back
        (fee() + RETURNED, "CRDT"),
        (fee("55.00") + RETURNED, "DBIT"),
        (fee(direction="CRDT") + RETURNED, "DBIT"),
        (fee(currency="USD") + RETURNED, "DBIT"),
        (fee() + fee(included="") + RETURNED, "DBIT"),
    ],
)
def test_any_other_amount_stays_as_it_is_written(inside: str, direction: str) -> None:
    entry = one(ntry(details(inside), "55.00", direction))
    assert (entry.amount_minor, entry.net) == (5_500, None)


def test_old_places_of_fields() -> None:
    entry = one(
        "<Ntry><Amt Ccy='EUR'>1</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>INFO</Sts>"
        f"{DATES}<Chrgs><Amt Ccy='EUR'>0.25</Amt></Chrgs><TxDtls><RltdPties><Cdtr><Nm>Shop</Nm></Cdtr></RltdPties>"
        "<RmtInf><Strd><CdtrRefInf><CdtrRef>R1</CdtrRef></CdtrRefInf></Strd></RmtInf>"
        "<RtrInf><RtrRsn><Cd>AC01</Cd></RtrRsn></RtrInf></TxDtls></Ntry>"
    )
    assert (entry.status, entry.counterparty_name, entry.structured_reference) == ("info", "Shop", "R1")
    assert (entry.return_reason, entry.charges[0].amount_minor) == ("AC01", 25)


def test_what_all_details_of_a_batch_have_together_is_no_single_one_s() -> None:
    whole = (
        '<AmtDtls><InstdAmt><Amt Ccy="USD">11.00</Amt></InstdAmt></AmtDtls>'
        '<Chrgs><Rcrd><Amt Ccy="EUR">0.30</Amt><CdtDbtInd>DBIT</CdtDbtInd></Rcrd></Chrgs>'
    )
    own = (
        '<Amt Ccy="EUR">4</Amt><AmtDtls><InstdAmt><Amt Ccy="USD">4.40</Amt></InstdAmt></AmtDtls>'
        '<Chrgs><Rcrd><Amt Ccy="EUR">0.10</Amt><CdtDbtInd>DBIT</CdtDbtInd></Rcrd></Chrgs>'
    )
    batch = ntry(whole + details('<Amt Ccy="EUR">6</Amt>') + details(own), "10.00")
    collected = read(document(batch))
    first, second = collected.entries[0]
    assert (first.amount_minor, first.original, first.charges) == (600, None, [])
    assert second.original is not None
    assert (second.original.amount_minor, [c.amount_minor for c in second.charges]) == (440, [10])
    assert codes(collected) == ["batch_charges"]
    assert one(ntry(whole + details('<Amt Ccy="EUR">10</Amt>'), "10.00")).charges[0].amount_minor == 30


def test_amount_of_the_entry_is_its_own_child() -> None:
    nested = details("<Amt Ccy='EUR'>5</Amt>")
    inside = f"<Ntry>{nested}<Amt Ccy='EUR'>7</Amt><CdtDbtInd>CRDT</CdtDbtInd>{DATES}</Ntry>"
    assert one(inside).amount_minor == 700


def test_reversal_does_not_turn_the_direction() -> None:
    entry = one(ntry("<RvslInd>true</RvslInd>", direction="DBIT"))
    assert (entry.direction, entry.reversal) == ("debit", True)


def test_other_side_stands_in_for_an_empty_counterparty_but_never_the_account_itself() -> None:
    own = "<CdtrAcct><Id><IBAN>DE89370400440532013000</IBAN></Id></CdtrAcct>"
    entry = one(ntry(details("<RltdPties><Cdtr><Nm>Other</Nm></Cdtr></RltdPties>")))
    assert entry.counterparty_name == "Other"
    entry = one(ntry(details(f"<RltdPties><Cdtr><Nm>Myself</Nm></Cdtr>{own}</RltdPties>")))
    assert (entry.counterparty_name, entry.counterparty_account) == (None, None)


@pytest.mark.parametrize(
    ("detail", "entry_text", "remittance"),
    [
        ("<RmtInf><Ustrd>a</Ustrd></RmtInf><AddtlTxInf>b</AddtlTxInf>", "c", "a"),
        ("<AddtlTxInf>b</AddtlTxInf>", "c", "b"),
        ("", "c", "c"),
    ],
)
def test_remittance_falls_back(detail: str, entry_text: str, remittance: str) -> None:
    entry = one(ntry(details(detail) + f"<AddtlNtryInf>{entry_text}</AddtlNtryInf>"))
    assert entry.remittance == remittance


@pytest.mark.parametrize(
    ("written", "code"),
    [
        (ntry(amount="12..34"), "invalid_amount"),
        (ntry(amount="1.005"), "amount_precision"),
        (ntry(amount="10000000000000"), "invalid_amount"),
        (ntry(amount=""), "invalid_amount"),
        (ntry(currency="ZZZ"), "unknown_currency"),
        (ntry(direction="UP"), "missing_direction"),
        (f"<Ntry><Amt Ccy='EUR'>1</Amt>{DATES}</Ntry>", "missing_direction"),
        (ntry("<ValDt><Dt>2026-02-30</Dt></ValDt>"), "invalid_date"),
        (ntry(details(f"<AddtlTxInf>{'x' * 70_000}</AddtlTxInf>")), "field_too_long"),
        (ntry(details(f"<RmtInf>{'<Ustrd>' + 'x' * 9_999 + '</Ustrd>'}</RmtInf>".replace("x", "xy"))), None),
        (ntry(details("<RmtInf>" + ("<Ustrd>" + "x" * 9_000 + "</Ustrd>") * 9 + "</RmtInf>")), "field_too_long"),
    ],
)
def test_rejected_entry_has_its_line_and_takes_no_neighbour_along(written: str, code: str | None) -> None:
    collected = read(document(f"{ntry()}\n{written}\n{ntry()}"))
    if code is None:
        assert len(collected.entries[0]) == 3
        return
    assert len(collected.entries[0]) == 2
    assert [(p.code, p.rejects, p.line, p.statement) for p in collected.problems] == [(code, True, 2, 0)]


def test_five_decimals_are_fine_when_they_are_zeros_and_exponents_are_the_currencys() -> None:
    assert one(ntry(amount="10.05000")).amount_minor == 1005
    collected = read(document(ntry(amount="885", currency="JPY") + ntry(amount="1.234", currency="KWD")))
    assert [e.amount_minor for e in collected.entries[0]] == [885, 1234]


def test_wrong_charge_or_original_is_left_out_and_told() -> None:
    collected = read(
        document(
            ntry(
                '<AmtDtls><InstdAmt><Amt Ccy="JPY">1.5</Amt></InstdAmt></AmtDtls><Chrgs><Amt Ccy="EUR">x</Amt></Chrgs>'
            )
        )
    )
    (entry,) = collected.entries[0]
    assert (entry.original, entry.charges) == (None, [])
    assert sorted(codes(collected)) == ["invalid_charge", "invalid_original"]
    assert [p.entry for p in collected.problems] == [0, 0]


# Batches ----------------------------------------------------------------------------------------------------------


def test_batch_that_adds_up_is_one_transaction_for_each_detail() -> None:
    collected = read(document(ntry("<AcctSvcrRef>B</AcctSvcrRef>" + details(part("12"), part("2", direction="DBIT")))))
    first, second = collected.entries[0]
    assert [(e.direction, e.amount_minor) for e in (first, second)] == [("credit", 1200), ("debit", 200)]
    assert first.batch is second.batch
    assert first.batch is not None
    assert (first.batch.group_key, first.batch.count, first.batch.itemised) == ("B", 2, True)
    assert [e.identity_value for e in (first, second)] == ["B#0", "B#1"]
    statement = collected.statements[0]
    assert (statement.entry_count, statement.transaction_count, statement.booked.credit_minor) == (1, 2, 1000)
    assert (first.index, second.index) == (0, 1)


@pytest.mark.parametrize(
    ("references", "identities"),
    [
        (("X", "Y"), ["X", "Y"]),
        (("X", "X"), ["X#0", "X#1"]),
        (("B", "Y"), ["B#0", "Y"]),
        (("", "Y"), ["B#0", "Y"]),
    ],
)
def test_reference_of_a_detail_is_its_identity_when_it_is_its_own(
    references: tuple[str, str], identities: list[str]
) -> None:
    parts = [part("5", reference) for reference in references]
    collected = read(document(ntry("<AcctSvcrRef>B</AcctSvcrRef>" + details(*parts))))
    assert [e.identity_value for e in collected.entries[0]] == identities


@pytest.mark.parametrize(
    "parts",
    [
        (part("4"), part("4")),
        (part("5"), part("5", currency="USD")),
        (part("5"), ""),
        (part("5"), part("x")),
    ],
)
def test_batch_that_does_not_add_up_is_kept_whole(parts: tuple[str, str]) -> None:
    collected = read(document(ntry(details(*parts))))
    (entry,) = collected.entries[0]
    assert (entry.amount_minor, len(entry.details)) == (1000, 2)
    assert entry.batch is not None
    assert (entry.batch.group_key, entry.batch.count, entry.batch.itemised) == (None, 2, False)
    assert codes(collected) == ["batch_details_unbalanced"]


def test_batch_by_its_number_alone_is_one_transaction() -> None:
    entry = one(ntry("<NtryDtls><Btch><NbOfTxs>0086</NbOfTxs></Btch></NtryDtls>"))
    assert entry.batch is not None
    assert (entry.batch.count, entry.batch.itemised) == (86, False)
    # Another report may know its only payment by an id of its own.
    assert one(ntry("<NtryDtls><Btch><NbOfTxs>1</NbOfTxs></Btch></NtryDtls>")).batch == Batch(None, 1, itemised=False)


@pytest.mark.parametrize(
    ("own", "batch"),
    [("", None), ("B1", None), ("A1", Batch("B1", 1, itemised=True))],
    ids=["no id of its own", "the same id", "an id of its own"],
)
def test_a_batch_of_one_payment_is_known_by_the_id_of_its_detail(own: str, batch: Batch | None) -> None:
    inside = f"<NtryDtls><Btch><NbOfTxs>1</NbOfTxs></Btch><TxDtls>{part('10.00', own)}</TxDtls></NtryDtls>"
    entry = one(ntry("<AcctSvcrRef>B1</AcctSvcrRef>" + inside))
    assert (entry.batch, entry.bank_reference) == (batch, own or "B1")
    assert one(ntry("<AcctSvcrRef>B1</AcctSvcrRef>" + details(part("10.00", own)))).batch is None


def test_equal_batches_without_reference_are_two_groups() -> None:
    batch = ntry(details(part("4"), part("6")))
    collected = read(document(batch + batch))
    keys = [e.batch.group_key for e in collected.entries[0] if e.batch]
    assert len(set(keys)) == 2
    assert [e.occurrence for e in collected.entries[0]] == [0, 0, 1, 1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-500, 500), min_size=2, max_size=8))
def test_split_details_add_up_to_their_entry(signed: list[int]) -> None:
    total = sum(signed)
    parts = [part(f"{abs(v)}", direction="CRDT" if v >= 0 else "DBIT") for v in signed]
    collected = read(document(ntry(details(*parts), f"{abs(total)}", "CRDT" if total >= 0 else "DBIT")))
    entries = collected.entries[0]
    assert sum(e.amount_minor if e.direction == "credit" else -e.amount_minor for e in entries) == total * 100
    booked = collected.statements[0].booked
    assert booked.credit_minor - booked.debit_minor == total * 100
    assert booked.credit_count + booked.debit_count == 1
