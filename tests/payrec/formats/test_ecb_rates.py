"""Files of exchange rates of the European Central Bank: every form says the same, and what is wrong is refused."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.fx_rates import parse_rate
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats import ecb_rates
from payrec.formats.ecb_rates import EcbRates, read_rates
from support.ecb_files import daily_table, table, xml, zipped

RATES = {
    "2026-03-10": {"USD": "1.0856", "JPY": "171.94", "IDR": "17487.21"},
    "2026-03-09": {"USD": "1.0850", "GBP": "0.84638"},
}
HEAD = b"<Envelope><Cube><Cube time='2026-03-10'>"


def read(data: bytes) -> EcbRates:
    return read_rates(io.BytesIO(data), name="rates")


def said(found: EcbRates) -> dict[tuple[date, str], str]:
    return {key: str(rate) for key, rate in found.rates.items()}


def reason(data: bytes) -> str:
    with pytest.raises(UnreadableFileError) as raised:
        read(data)
    return raised.value.reason


def test_table_and_xml_say_the_same_in_a_zip_or_not() -> None:
    expected = {
        (date.fromisoformat(day), currency): str(parse_rate(rate))
        for day, of_day in RATES.items()
        for currency, rate in of_day.items()
    }
    assert expected[date(2026, 3, 9), "USD"] == "1.085"
    for data in (table(RATES), zipped(table(RATES), "eurofxref-hist.csv"), b"\xef\xbb\xbf" + table(RATES)):
        assert (read(data).format, said(read(data))) == ("ecb_csv", expected)
    for data in (xml(RATES), zipped(xml(RATES)), b"\xef\xbb\xbf" + xml(RATES)):
        assert (read(data).format, said(read(data))) == ("ecb_xml", expected)


def test_the_table_of_a_day_has_its_day_in_words() -> None:
    found = read(zipped(daily_table("2026-03-04", RATES["2026-03-10"])))
    assert said(found)[date(2026, 3, 4), "JPY"] == "171.94"
    assert len(found.rates) == 3


def test_a_currency_that_nothing_can_be_stored_in_is_left_out_by_name() -> None:
    found = read(table({"2026-03-10": {"USD": "1.1", "QQQ": "2", "EUR": "1"}}))
    assert (list(said(found).values()), found.unknown) == (["1.1"], {"QQQ", "EUR"})


@given(
    st.dictionaries(
        st.dates(date(1999, 1, 4), date(2035, 1, 1)).map(date.isoformat),
        st.dictionaries(
            st.sampled_from(["USD", "JPY", "GBP", "CHF", "TRL"]),
            st.integers(1, 10**9).map(lambda n: f"{n // 10_000}.{n % 10_000:04d}"),
            min_size=1,
        ),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_the_bank_writes_is_read_as_it_is(rates: dict[str, dict[str, str]]) -> None:
    assert said(read(table(rates))) == said(read(xml(rates)))
    assert len(read(xml(rates)).rates) == sum(map(len, rates.values()))


@given(
    st.binary(max_size=200) | st.text(alphabet="Date,USD\n2026-03N/A.1<>'= Cubetimercny", max_size=200).map(str.encode)
)
def test_nothing_else_is_raised_than_that_a_file_cannot_be_read(data: bytes) -> None:
    with suppress(UnreadableFileError):
        assert read(data).rates


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "unknown_format"),
        (b"Datum,USD\n2026-03-10,1.1\n", "unknown_format"),
        (b"Date;USD\n2026-03-10;1.1\n", "unknown_format"),
        (b"Date,USD\n2026-03-10,1.1\n\xff", "unknown_format"),
        (b"<Document/>", "unknown_format"),
        (b"Date,USD\n", "ecb_no_rates"),
        (b"Date,USD\n2026-03-10,N/A\n", "ecb_no_rates"),
        (b"<Envelope/>", "ecb_no_rates"),
        (b"Date,USD\n2026-02-30,1.1\n", "ecb_date"),
        (b"Date,USD\n10 Maerz 2026,1.1\n", "ecb_date"),
        (b"Date,USD\n10.03.2026,1.1\n", "ecb_date"),
        (b"Date,USD\n2026-03-10,1.1,2.2\n", "ecb_row"),
        (b'Date,USD\n2026-03-10,"1.1', "ecb_row"),
        (b"Date,USD\n2026-03-10,1e3\n", "ecb_rate"),
        (b"Date,USD\n2026-03-10,0\n", "ecb_rate"),
        (b"Date,USD\n2026-03-10,-1\n", "ecb_rate"),
        (b"Date,USD,USD\n2026-03-10,1,2\n", "ecb_given_twice"),
        (b"Date,USD\n2026-03-10,1\n10 March 2026,2\n", "ecb_given_twice"),
        (HEAD + b"<Cube currency='USD' rate='1'/><Cube currency='USD' rate='1'/></Cube></Cube></Envelope>",
         "ecb_given_twice"),
        (b"<Envelope><Cube><Cube currency='USD' rate='1'/></Cube></Envelope>", "ecb_row"),
        (HEAD + b"<Cube currency='usd' rate='1'/></Cube></Cube></Envelope>", "ecb_row"),
        (HEAD + b"<Cube currency='USD'/></Cube></Cube></Envelope>", "ecb_rate"),
        (b"<Envelope><Cube><Cube time='10/03/2026'/></Cube></Envelope>", "ecb_date"),
        (HEAD, "xml_malformed"),
        (b"<!DOCTYPE x [<!ENTITY a 'b'>]><Envelope>&a;</Envelope>", "xml_dtd_forbidden"),
        (b"<Envelope>" + b"<Cube>" * 9, "xml_too_deep"),
        (b"<Envelope>" + b"".join(b"<a%d/>" % n for n in range(300)), "xml_too_many_names"),
        (zipped(b"x", "a/b.zip") + b"torn", "container_truncated"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_reason(data: bytes, code: str) -> None:
    assert reason(data) == code


def test_a_file_is_read_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ecb_rates, "ECB_RATES_MAX", 4)
    assert reason(table(RATES)) == "ecb_too_many"
    monkeypatch.setattr(ecb_rates, "ECB_FILE_BYTES_MAX", 20)
    with pytest.raises(PayloadTooLargeError):
        read(table(RATES))
    monkeypatch.setattr(ecb_rates, "ECB_CURRENCIES_MAX", 2)
    monkeypatch.setattr(ecb_rates, "ECB_FILE_BYTES_MAX", 2_000)
    assert reason(table(RATES)) == "ecb_currencies"
    assert reason(xml({"2026-03-10": {"QQA": "1", "QQB": "1", "QQC": "1"}})) == "ecb_currencies"
