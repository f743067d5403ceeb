from __future__ import annotations

import io
import random
from collections import deque
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.statements import Statement
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import ReadOptions
from payrec.formats.camt import xml as camt_xml
from payrec.formats.registry import parse
from support.camt import ACCOUNT, HEAD, TAIL, balance, codes, details, document, ntry, read, reason_of
from support.memory import peak_bytes
from support.samples import requires_samples, sample, truth_of

HOSTILE = ("synthetic/hostile_entities", "synthetic/hostile_external_dtd", "synthetic/hostile_deep")
SAMPLES = truth_of("camt/", "synthetic/camt053", *HOSTILE)
XML_SAMPLES = [e for e in SAMPLES if e["file"].endswith(".xml")]

# Real files -------------------------------------------------------------------------------------------------------


def only_typed_errors(data: bytes) -> None:
    try:
        collected = read(data)
    except (UnreadableFileError, PayloadTooLargeError):
        return
    for statement in collected.statements:
        assert statement.transaction_count == len(collected.entries[statement.index])
    for entries in collected.entries.values():
        assert all(0 <= e.amount_minor < 10**15 and e.identity_value and e.booking_on for e in entries)


@requires_samples
@pytest.mark.parametrize("known", XML_SAMPLES, ids=lambda e: e["file"])
def test_prefixes_of_samples_give_typed_errors(known: dict[str, Any]) -> None:
    data = sample(known["file"])
    # A step that shares no factor with the indentation, so that cuts fall everywhere.
    for end in range(0, len(data), max(1, len(data) // 97)):
        only_typed_errors(data[:end])


@requires_samples
def test_mutated_samples_give_typed_errors() -> None:
    rng = random.Random(20260102)  # noqa: S311  # not a secret: the same mutations on every run
    pool = [sample(e["file"]) for e in XML_SAMPLES if e["outcome"] == "read"]
    for _ in range(400):
        data = bytearray(rng.choice(pool))
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(data))
            kind = rng.randrange(4)
            if kind == 0:
                data[at] = rng.randrange(256)
            elif kind == 1:
                del data[at : at + rng.randint(1, 40)]
            elif kind == 2:
                data[at:at] = rng.choice(
                    [b"0", b"-", b"<", b"&#0;", b"&#x1F;", b"\xff", b"<Ntry>", b"</TxDtls>", b"9" * 30]
                )
            else:
                data[at:at] = data[at : at + rng.randint(1, 200)]
        only_typed_errors(bytes(data))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Amt", "CdtDbtInd", "Sts", "BookgDt", "ValDt", "NtryDtls", "TxDtls", "Dt", "Cd", "Chrgs"]),
            st.text(st.characters(codec="utf-8", exclude_characters="<&", exclude_categories=["Cc", "Cs"]), max_size=9),
        ),
        max_size=12,
    )
)
def test_any_elements_in_an_entry_give_an_entry_or_a_rejection(parts: list[tuple[str, str]]) -> None:
    inside = "".join(f"<{name}>{text}</{name}>" for name, text in parts)
    try:
        collected = read(document(f"<Ntry>{inside}</Ntry>{ntry()}"))
    except UnreadableFileError as error:
        assert error.reason == "xml_malformed"  # noqa: PT017  # only characters that XML does not have lead here
        return
    assert len(collected.entries[0]) + sum(p.rejects for p in collected.problems) == 2


# Statements -------------------------------------------------------------------------------------------------------


def head_of(inside: str, **options: Any) -> Statement:
    collected = read(f"{HEAD}<Stmt>{inside}</Stmt>{TAIL}".encode(), **options)
    return collected.statements[0]


@pytest.mark.parametrize(
    ("inside", "is_page"),
    [("", False), ("1 true", False), ("1 false", True), ("2 true", True), ("2 false", True), ("x true", False)],
)
@pytest.mark.parametrize("of", ["statement", "message"])
def test_what_is_a_page_of_several(inside: str, is_page: bool, of: str) -> None:  # noqa: FBT001 - a table
    number, _, last = inside.partition(" ")
    told = f"<PgNb>{number}</PgNb><LastPgInd>{last}</LastPgInd>" if inside else ""
    head = f"<GrpHdr><MsgPgntn>{told}</MsgPgntn></GrpHdr>" if of == "message" else ""
    statement = f"<Stmt><Id>S</Id>{'' if head else f'<StmtPgntn>{told}</StmtPgntn>'}{ACCOUNT}</Stmt>"
    assert read(f"{HEAD}{head}{statement}{TAIL}".encode()).statements[0].is_page is is_page


def test_statement_head() -> None:
    made = head_of(
        "<Id>S</Id><StmtPgntn><PgNb>2</PgNb><LastPgInd>true</LastPgInd></StmtPgntn><LglSeqNb>9</LglSeqNb>"
        "<CreDtTm>2026-01-02T20:00:00</CreDtTm><FrToDt><FrDtTm>2026-01-01T00:00:00</FrDtTm>"
        "<ToDtTm>2026-01-02T00:00:00</ToDtTm>"
        "</FrToDt><Acct><Id><Othr><Id>12 34</Id></Othr></Id><Ownr><Nm>We</Nm></Ownr>"
        "<Svcr><FinInstnId><BIC>BANKDEFF</BIC>"
        "</FinInstnId></Svcr></Acct>" + balance("OPBD", "1") + balance("XXXX", "1")
    )
    assert (made.statement_id, made.sequence_number, made.page_number, made.last_page) == ("S", "9", 2, True)
    assert made.is_page
    assert made.created_at == "2026-01-02T20:00:00"
    assert (made.from_on, made.to_on) == (date(2026, 1, 1), date(2026, 1, 2))
    assert (made.account, made.account_scheme) == ("1234", "other")
    assert (made.account_name, made.account_bic) == ("We", "BANKDEFF")
    assert (made.currency, [b.type for b in made.balances]) == ("EUR", ["opening", "other"])


def test_caller_fills_in_what_the_file_does_not_say() -> None:
    collected = read(
        f"{HEAD}<Stmt>{ntry(currency='')}</Stmt>{TAIL}".encode(), account="de89 3704 0044 0532 0130 00", currency="eur"
    )
    assert collected.entries[0][0].account == "DE89370400440532013000"
    assert collected.entries[0][0].currency == collected.statements[0].currency == "EUR"


def test_invalid_iban_is_kept_and_marked() -> None:
    collected = read(f"{HEAD}<Stmt><Acct><Id><IBAN>DE00</IBAN></Id></Acct></Stmt>{TAIL}".encode())
    assert (collected.statements[0].account, collected.statements[0].account_scheme) == ("DE00", "other")
    assert codes(collected) == ["invalid_iban"]


def test_previous_closing_opens_where_nothing_else_does() -> None:
    made = head_of(ACCOUNT + balance("PRCD", "1") + balance("CLBD", "11") + ntry())
    assert (made.balance_check, [b.type for b in made.balances]) == ("ok", ["opening", "closing"])
    made = head_of(ACCOUNT + balance("PRCD", "5") + balance("OPBD", "1") + balance("CLBD", "11") + ntry())
    assert (made.balance_check, made.balances[0].type) == ("ok", "previous_closing")


def test_balance_without_indicator_and_malformed_balance() -> None:
    collected = read(document(ntry(), balance("OPBD", "1", "") + balance("CLBD", "x")))
    assert codes(collected) == ["balance_sign_assumed", "invalid_balance"]
    assert [b.signed_minor for b in collected.statements[0].balances] == [100]


@pytest.mark.parametrize(
    ("count", "credit_sum", "check"),
    [("1", "10", "ok"), ("2", "13", "ok"), ("3", "10", "mismatch"), ("1", "13", "mismatch")],
)
def test_control_totals_with_or_without_pending(count: str, credit_sum: str, check: str) -> None:
    summary = (
        f"<TxsSummry><TtlNtries><NbOfNtries>{count}</NbOfNtries></TtlNtries>"
        f"<TtlCdtNtries><Sum>{credit_sum}</Sum></TtlCdtNtries></TxsSummry>"
    )
    collected = read(document(ntry() + ntry("<Sts>PDNG</Sts>", amount="3"), summary))
    assert collected.statements[0].control_totals_check == check
    assert ("control_total_mismatch" in codes(collected)) == (check == "mismatch")


@pytest.mark.parametrize(
    ("name", "element", "format_name", "kind"),
    [
        ("BkToCstmrAcctRpt", "Rpt", "camt.052", "interim"),
        ("BkToCstmrStmtV01", "Stmt", "camt.053", "statement"),
        ("BkToCstmrDbtCdtNtfctn", "Ntfctn", "camt.054", "notification"),
    ],
)
def test_every_message_in_any_wrapper_and_prefix(name: str, element: str, format_name: str, kind: str) -> None:
    inside = f"<{name}><{element}>{ntry()}</{element}></{name}>"
    prefixed = inside.replace("</", "\0").replace("<", "<p:").replace("\0", "</p:")
    wrapped = (
        f'\n <e:Envelope xmlns:e="soap"><e:Body><p:Document xmlns:p="x">{prefixed}</p:Document></e:Body></e:Envelope>'
    )
    for data in (inside, f"<Document>{inside}</Document>", wrapped):
        collected = read(data.encode())
        assert (collected.format, collected.version, collected.statements[0].kind) == (format_name, None, kind)
        assert len(collected.entries[0]) == 1


def test_newer_version_is_read_by_its_shape_and_told() -> None:
    collected = read(document(ntry()).replace(b"001.08", b"001.15"))
    assert collected.version == "camt.053.001.15"
    assert codes(collected) == ["unknown_version"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_encodings(encoding: str) -> None:
    declared = encoding.removesuffix("-sig")
    data = (
        f'<?xml version="1.0" encoding="{declared}"?>' + document(ntry("<AddtlNtryInf>Ärger</AddtlNtryInf>")).decode()
    )
    assert read(data.encode(encoding)).entries[0][0].remittance == "Ärger"


def test_undecodable_bytes_are_replaced_and_told() -> None:
    data = b'<?xml version="1.0" encoding="UTF-8"?>' + document(ntry("<AddtlNtryInf>\N{BULLET}</AddtlNtryInf>"))
    collected = read(data.replace("\N{BULLET}".encode(), b"\xe4"))
    assert collected.entries[0][0].remittance == "\ufffd"
    assert codes(collected) == ["undecodable_bytes"]


def test_no_statement_other_messages_and_no_xml() -> None:
    assert reason_of(f"{HEAD}{TAIL}".encode()) == "no_statement"
    pain = b'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.03"><CstmrCdtTrfInitn/></Document>'
    assert reason_of(pain) == "not_a_statement"
    assert reason_of(b"<!DOCTYPE html><html><body>Login</body></html>") == "unknown_format"


# Hostile input ----------------------------------------------------------------------------------------------------


def test_declaration_is_refused_wherever_the_message_is() -> None:
    assert reason_of(b'<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x">' + document(ntry())) == "xml_dtd_forbidden"
    assert reason_of(b'<!DOCTYPE x [<!ENTITY a "b">]>' + document("&a;")) == "xml_dtd_forbidden"
    # Even where detection let an HTML page pass, reading would not.
    scanner = camt_xml.Scanner()
    with pytest.raises(UnreadableFileError) as raised:
        scanner.feed("<!DOCTYPE html><html/>")
    assert raised.value.reason == "xml_dtd_forbidden"
    assert reason_of(document("&undeclared;")) == "xml_malformed"


@pytest.mark.parametrize("place", ["Ntry", "Unknown"])
def test_depth(place: str) -> None:
    deep = "<a>" * 70 + "</a>" * 70
    assert reason_of(document(f"<{place}>{deep}</{place}>")) == "xml_too_deep"
    wrapped = "<w>" * 5 + "<v>" * 70
    assert reason_of(wrapped.encode()) in ("xml_too_deep", "unknown_format")


def test_endless_token_and_endless_names() -> None:
    assert reason_of(document(f"<!--{'x' * 2_000_000}-->")) == "xml_token_too_long"
    assert reason_of(document(f'<Ntry a="{"x" * 2_000_000}"/>')) == "xml_token_too_long"
    assert reason_of(document("".join(f"<n{i}/>" for i in range(30_000)))) == "xml_too_many_names"


def test_endless_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = document(ntry(f"<AddtlNtryInf>{'x' * 8_000_000}</AddtlNtryInf>"))
    unwanted = document(ntry(f"<Other>{'x' * 8_000_000}</Other>"))
    found: list[list[str]] = []
    # BytesIO copies nothing until it is written to, so the peak is what reading itself takes.
    assert peak_bytes(lambda: found.extend(codes(read(data)) for data in (wanted, unwanted))) < 4_000_000
    assert found == [["field_too_long"], []]
    monkeypatch.setattr(camt_xml, "XML_ENTRY_CHARACTERS_MAX", 5_000)
    many = ntry(details("<RmtInf>" + "<Ustrd>xxxxxxxxxx</Ustrd>" * 100 + "</RmtInf>"))
    assert codes(read(document(ntry() + many + ntry()))) == ["batch_too_large"]


def test_number_of_details_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camt_xml, "BATCH_DETAILS_MAX", 3)
    collected = read(document(ntry(details(*["<X/>"] * 3)) + ntry(details(*["<X/>"] * 4)) + ntry()))
    assert [(p.code, p.rejects) for p in collected.problems] == [
        ("batch_details_unbalanced", False),
        ("batch_too_large", True),
    ]
    assert len(collected.entries[0]) == 2


def test_number_of_balances_is_bounded() -> None:
    collected = read(document("", balance("OPBD", "1") * 1_002))
    assert codes(collected) == ["invalid_balance"] * 2
    assert len(collected.statements[0].balances) == 1_000


def test_memory_does_not_grow_with_the_file() -> None:
    def peak_of(count: int) -> int:
        body = "".join(ntry(f"<AcctSvcrRef>R{i}</AcctSvcrRef>") for i in range(count))
        items = parse(io.BytesIO(document(body)), name="f", options=ReadOptions(), monotonic=lambda: 0.0)
        return peak_bytes(lambda: deque(items, maxlen=0))

    # 3,000 entries that were kept would be some megabytes; the counter of identities takes eleven bytes for each.
    assert peak_of(4_000) - peak_of(1_000) < 600_000
