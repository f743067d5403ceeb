from __future__ import annotations

import codecs
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import DETECTION_BYTES
from payrec.domain.statements import Entry
from payrec.errors import UnreadableFileError
from payrec.formats.base import ReadOptions
from payrec.formats.encoding import Decoder, Encoding, decoded, detect_encoding
from payrec.formats.registry import parse


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (codecs.BOM_UTF8 + b"a", Encoding("utf-8", mark_length=3)),
        (codecs.BOM_UTF16_LE + b"a\0", Encoding("utf-16-le", mark_length=2)),
        (codecs.BOM_UTF16_BE + b"\0a", Encoding("utf-16-be", mark_length=2)),
        ("<?xml version='1.0'?>".encode("utf-16-le"), Encoding("utf-16-le")),
        (b'<?xml version="1.0" encoding="UTF-8"?><a>\xe4</a>', Encoding("utf-8")),
        (b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xe4</a>", Encoding("iso-8859-1")),
        (b'<?xml version="1.0" encoding="Windows-1252"?>', Encoding("cp1252")),
        (b'<?xml version="1.0" encoding="utf-16"?><a/>', Encoding("utf-8")),
        (b'<?xml version="1.0" encoding="USASCII"?><a/>', Encoding("utf-8")),
        ("Übertrag".encode(), Encoding("utf-8")),
        ("Übertrag".encode("cp1252"), Encoding("cp1252", guessed=True)),
        (b"plain", Encoding("utf-8")),
    ],
)
def test_detection(data: bytes, encoding: Encoding) -> None:
    assert detect_encoding(data, complete=True) == encoding


def test_cut_character_at_the_end_of_the_head_is_no_error() -> None:
    torn = "ä".encode()[:1]
    assert detect_encoding(b"a" + torn, complete=False) == Encoding("utf-8")
    assert detect_encoding(b"a" + torn, complete=True) == Encoding("cp1252", guessed=True)


def test_profile_decides_unless_there_is_a_mark() -> None:
    assert detect_encoding(b"\xb3", complete=True, profile="windows-1250") == Encoding("cp1250")
    assert detect_encoding(codecs.BOM_UTF8, complete=True, profile="cp852").name == "utf-8"


@pytest.mark.parametrize("profile", ["zlib", "idna", "rot13", "unicode_escape", "no-such", "a\0b", ""])
def test_profile_cannot_name_what_is_no_encoding_of_text(profile: str) -> None:
    with pytest.raises(UnreadableFileError) as raised:
        detect_encoding(b"a", complete=True, profile=profile)
    assert raised.value.reason == "encoding_unsupported"


@pytest.mark.parametrize("data", [codecs.BOM_UTF32_LE + b"a\0\0\0", b'<?xml version="1.0" encoding="EBCDIC-CP-US"?>'])
def test_unsupported(data: bytes) -> None:
    with pytest.raises(UnreadableFileError) as raised:
        detect_encoding(data, complete=True)
    assert raised.value.reason == "encoding_unsupported"


@settings(max_examples=60)
@given(st.text(max_size=60), st.sampled_from(["utf-8", "utf-16-le"]), st.integers(1, 7))
def test_pieces_decode_to_the_whole(text: str, encoding: str, size: int) -> None:
    decoder = Decoder(encoding)
    assert "".join(decoded(io.BytesIO(text.encode(encoding)), decoder, size=size)) == text
    assert not decoder.damaged


@settings(max_examples=100)
@given(st.binary(max_size=60), st.sampled_from(["utf-8", "utf-16-be", "cp1252"]), st.integers(1, 7))
def test_any_bytes_decode_and_damage_is_told(data: bytes, encoding: str, size: int) -> None:
    decoder = Decoder(encoding)
    text = "".join(decoded(io.BytesIO(data), decoder, size=size))
    try:
        assert text == data.decode(encoding)
        assert not decoder.damaged
    except UnicodeDecodeError:
        assert decoder.damaged
        assert "\ufffd" in text


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("text", ["ä", "äöü", "x ä", "Müller Żółw", "€5", ""])
def test_what_is_no_utf_8_behind_ascii_is_what_the_fallback_says(text: str, size: int) -> None:
    encoding = "cp1250" if "Ż" in text else "cp1252"
    decoder = Decoder("utf-8", fallback=lambda _: encoding)
    found = "".join(decoded(io.BytesIO(b"ascii, " + text.encode(encoding)), decoder, size=size))
    assert found == f"ascii, {text}"
    assert [(p.code, p.detail.split()[-1]) for p in decoder.told()] == (
        [("encoding_guessed", encoding)] if text else []
    )


@settings(max_examples=100)
@given(st.text(max_size=30), st.binary(max_size=30), st.integers(1, 7))
def test_fallback_is_no_way_out_once_there_was_more_than_ascii(text: str, data: bytes, size: int) -> None:
    decoder, plain = Decoder("utf-8", fallback=lambda _: "cp1252"), Decoder("utf-8")
    whole = "é".encode() + text.encode() + data
    assert list(decoded(io.BytesIO(whole), decoder, size=size)) == list(decoded(io.BytesIO(whole), plain, size=size))
    assert decoder.guessed is None


_MONEY = '"direction":"credit","amount":"1.00","currency":"EUR","bookingDate":"2026-01-02"'
_CAMT = '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt><Id>S</Id>'
_NTRY = (
    '<Ntry><Amt Ccy="EUR">1</Amt><CdtDbtInd>CRDT</CdtDbtInd><BookgDt><Dt>2026-01-02</Dt></BookgDt><NtryDtls><TxDtls>'
    "<RmtInf><Ustrd>{}</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>\n"
)


@pytest.mark.parametrize(
    ("head", "record"),
    [
        (":20:X\n:25:1\n:28C:1\n:60F:C260101EUR0,\n", ":61:2601020102C1,NTRFNONREF\n:86:{}\n"),
        ("Date;Text;Amount;Currency\n", "2026-01-02;{};1.00;EUR\n"),
        ("", '{{"externalId":"{n}",' + _MONEY + ',"remittance":"{}"}}\n'),
        (_CAMT, _NTRY),
    ],
    ids=["mt940", "csv", "json lines", "camt"],
)
def test_first_umlaut_far_behind_the_head_is_read(head: str, record: str) -> None:
    tail = "</Stmt></BkToCstmrStmt></Document>" if head.startswith("<") else ""
    rows = "".join(record.format("Rechnung", n=n) for n in range(DETECTION_BYTES // len(record) + 9))
    data = (head + rows + record.format("Müller", n="last") + tail).encode("cp1252")
    result = parse(io.BytesIO(data), name="x", options=ReadOptions(), monotonic=lambda: 0.0)
    entries = [item for item in result if isinstance(item, Entry)]
    assert entries[-1].remittance == "Müller"
    assert {entry.remittance for entry in entries[:-1]} == {"Rechnung"}
    assert (result.file.encoding, result.file.encoding_guessed) == ("cp1252", True)
    assert "encoding_guessed" in {problem.code for problem in result.file.problems}
    assert (result.file.dialect or {}).get("encoding", "cp1252") == "cp1252"
