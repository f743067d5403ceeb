"""Where messages may go: public addresses in their one spelling, and what the settings allow."""

from __future__ import annotations

import contextlib
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.addresses import Destinations, UrlRefusedError, connected_address, is_public, literal_address

PUBLIC = Destinations()
CLUSTER = Destinations.of("10.0.0.0/8, fd00::/8,127.0.0.1/32")

NAT64 = IPv6Network("64:ff9b::/96")
INTERNAL = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",  # noqa: S104 - refused, not bound
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
]
INTERNAL_6 = [
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "2001:db8::1",
    "2001::1",
    "2002:7f00:1::",
    "64:ff9b:1::1",
    "::127.0.0.1",
    "100::1",
    "3fff::1",
    "5f00::1",
]


def disguises(address: str) -> list[str]:
    """Return IPv6 addresses that reach an IPv4 one."""
    number = int(IPv4Address(address))
    return [str(IPv6Address((0xFFFF << 32) | number)), str(IPv6Address((0x64FF9B << 96) | number))]


def refusal(destinations: Destinations, url: str) -> str | None:
    try:
        destinations.check_url(url)
    except UrlRefusedError as refused:
        return refused.code
    return None


@pytest.mark.parametrize("address", INTERNAL + INTERNAL_6 + [d for a in INTERNAL for d in disguises(a)])
def test_what_is_not_public_is_refused_in_a_url_and_at_a_socket(address: str) -> None:
    literal = f"[{address}]" if ":" in address else address
    assert refusal(PUBLIC, f"https://{literal}/hook") == "address_refused"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    reached = connected_address(family, (address, 443))
    assert reached is not None
    assert not PUBLIC.admits(reached, is_encrypted=True)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", *disguises("8.8.8.8")])
def test_what_is_public_is_taken_with_tls_alone(address: str) -> None:
    literal = f"[{address}]" if ":" in address else address
    assert refusal(PUBLIC, f"https://{literal}/hook") is None
    assert refusal(PUBLIC, f"http://{literal}/hook") == "scheme_refused"
    assert refusal(CLUSTER, f"http://{literal}/hook") == "address_refused"


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "127.0.0.1.",
        "1.2.3.4.5",
        "256.1.1.1",
        "127.0.0.0x1",
        "0x",
    ],
)
def test_an_ipv4_address_has_one_spelling(host: str) -> None:
    for destinations in (PUBLIC, CLUSTER):
        assert refusal(destinations, f"https://{host}/hook") == "host_malformed"


@pytest.mark.parametrize("host", ["127.1.", "2130706433.", "0x7f000001.", "127.0.0.1."])
def test_a_dot_at_the_end_makes_no_name_of_a_number(host: str) -> None:
    """Of a server that is named by its host alone, nothing else has been looked at."""
    with pytest.raises(UrlRefusedError) as refused:
        literal_address(host)
    assert refused.value.code == "host_malformed"
    assert str(refused.value) == refused.value.detail
    assert literal_address("example.com.") is None


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.com/", "scheme_refused"),
        ("//example.com/", "scheme_refused"),
        ("https:///path", "host_malformed"),
        ("https://", "host_malformed"),
        ("https://user@example.com/", "credentials_refused"),
        ("https://user:secret@example.com/", "credentials_refused"),
        ("https://@example.com/", "credentials_refused"),
        ("https://example.com#@127.0.0.1/", "url_malformed"),
        ("https://example.com\\@127.0.0.1/", "url_malformed"),
        ("https://exa mple.com/", "url_malformed"),
        ("https://example.com/\n", "url_malformed"),
        ("https://ex\tample.com/", "url_malformed"),
        ("https://１２７.0.0.1/", "url_malformed"),
        ("https://127%2e0%2e0%2e1/", "host_malformed"),
        ("https://[fe80::1%25eth0]/", "host_malformed"),
        ("https://[v1.x]/", "url_malformed"),
        ("https://[127.0.0.1]/", "url_malformed"),
        ("https://example..com/", "host_malformed"),
        ("https://-example.com/", "host_malformed"),
        ("https://example.com:22/", "port_refused"),
        ("https://example.com:0/", "port_refused"),
        ("https://example.com:/", "port_refused"),
        ("https://example.com:80/", "port_refused"),
        ("https://example.com:65536/", "url_malformed"),
        ("https://example.com:x/", "url_malformed"),
        ("https://localhost/", "address_refused"),
        ("https://a.localhost:8443/", "address_refused"),
        ("https://example.com:1023/", "port_refused"),
        ("https://example.com/#", "url_malformed"),
        (f"https://{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}/", None),
        (f"https://{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 62}/", "host_malformed"),
        (f"https://example.com/{'a' * 2028}", None),
        (f"https://example.com/{'a' * 2029}", "url_malformed"),
        ("https://example.com:443/", None),
        ("https://example.com:1024/", None),
        ("https://example.com/", None),
        ("HTTPS://EXAMPLE.com:8443/x?y=1", None),
        ("https://xn--bcher-kva.example/", None),
    ],
)
def test_urls(url: str, code: str | None) -> None:
    found = refusal(PUBLIC, url)
    # Releases of Python differ in which malformed brackets they take apart.
    assert found == code or {found, code} == {"host_malformed", "url_malformed"}


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("http://example.com/", "must be https"),
        ("ftp://example.com/", "must be https"),
        ("https://exa mple.com/", "must be a URL in printable ASCII, without spaces"),
        ("https://example.com:x/", "is no URL"),
        ("https://user@example.com/", "must not have a user or a password"),
        ("https://example.com/#a", "must not have a fragment"),
        ("https://example..com/", "must name a host"),
        ("https://[fe80::1%25eth0]/", "must have an IPv6 address without a zone in its brackets"),
        ("https://127.1/", "must write an IPv4 address as four decimal numbers"),
        ("https://example.com:22/", "must have port 443, or one from 1024 on"),
        ("https://10.0.0.1/", "names an address that nothing is sent to"),
    ],
)
def test_a_refused_url_says_why(url: str, detail: str) -> None:
    with pytest.raises(UrlRefusedError) as refused:
        PUBLIC.check_url(url)
    assert refused.value.detail == detail


def test_the_zone_of_an_address_does_not_count_at_a_socket() -> None:
    assert connected_address(socket.AF_INET6, ("fe80::1%eth0", 443, 0, 2)) == ip_address("fe80::1")


def test_what_the_settings_allow_may_be_reached_without_tls_and_nothing_else() -> None:
    assert refusal(CLUSTER, "http://10.1.2.3:443/") == "port_refused"
    for url in (
        "http://10.1.2.3:80/",
        "http://10.1.2.3:8080/",
        "https://10.1.2.3/",
        "http://[fd00::5]:8080/",
        "http://localhost:8080/",
    ):
        assert refusal(CLUSTER, url) is None
        assert refusal(PUBLIC, url) in {"address_refused", "scheme_refused"}
    # A name says nothing yet; the address that it leads to decides at the socket.
    assert refusal(CLUSTER, "http://receiver.shop.svc/") is None
    assert refusal(PUBLIC, "http://receiver.shop.svc/") == "scheme_refused"
    assert not CLUSTER.admits(ip_address("8.8.8.8"), is_encrypted=False)
    assert CLUSTER.admits(ip_address("::ffff:10.1.2.3"), is_encrypted=False)
    assert not CLUSTER.admits(ip_address("192.168.1.1"), is_encrypted=True)


def test_networks_are_written_with_commas_and_may_name_a_host_of_theirs() -> None:
    networks = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert Destinations.of("10.1.2.3/8, fd00::1/8,") == Destinations(networks)
    assert Destinations.of(" ") == Destinations()


@pytest.mark.parametrize("text", ["10.0.0.0/33", "nonsense", "10.0.0.0/8;::1"])
def test_networks_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Destinations.of(text)


@given(st.integers(0, 2**32 - 1))
def test_a_disguise_changes_nothing(number: int) -> None:
    plain = IPv4Address(number)
    assert {is_public(ip_address(text)) for text in disguises(str(plain))} == {is_public(plain)}
    if not plain.is_global and plain not in {IPv4Address("192.0.0.9"), IPv4Address("192.0.0.10")}:
        assert not is_public(plain)


@given(st.integers(0, 2**128 - 1))
def test_no_ipv6_address_is_public_that_python_calls_private(number: int) -> None:
    address = IPv6Address(number)
    if address.is_private or address.is_link_local or address.is_multicast or address.is_reserved:
        assert not is_public(address) or address.ipv4_mapped is not None or address in NAT64


@given(st.from_regex(r"[0-9a-fx.]{1,20}", fullmatch=True))
def test_whatever_the_c_library_takes_for_an_address_is_no_name(host: str) -> None:
    try:
        socket.inet_aton(host)
    except OSError:
        return
    with contextlib.suppress(UrlRefusedError):
        assert literal_address(host) == ip_address(host)
