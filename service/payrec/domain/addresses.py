"""Where messages may be sent to: public addresses, and those that the installation's settings allow.

Server-side request forgery is refused twice with these rules: what an address says when it is given, and the very
address that is connected to, whatever a name said before. The lists are written out (IANA's special-purpose registries,
RFC 6890 and its successors), because what Python calls global differs between its releases.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

from payrec.constants.events import WEBHOOK_PORT_FREE_MIN, WEBHOOK_URL_LENGTH_MAX

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_REFUSED_4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared behind carriers; some clouds keep their metadata there
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's host, by an address that looks public
        "169.254.0.0/16",  # link-local, the metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_GLOBAL_6: Final = IPv6Network("2000::/3")
"""The only part of IPv6 that is given out for global use."""
_REFUSED_6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""NAT64 (RFC 6052): the last 32 bits are the IPv4 address that is reached."""

_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_URL: Final = re.compile(r"[!-~]+", re.ASCII)
_LOOPBACK_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


class UrlRefusedError(Exception):
    """An address that nothing is sent to; ``code`` says why, and the text says it to people."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Destinations:
    """What may be reached: everything public, and ``allowed`` networks besides, those also without TLS."""

    allowed: tuple[Network, ...] = ()

    @classmethod
    def of(cls, text: str) -> Destinations:
        """Read networks that are separated by commas.

        Raises
        ------
        ValueError
            One of them is none.
        """
        return cls(tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip()))

    def admits(self, address: Address, *, is_encrypted: bool) -> bool:
        """Tell whether a connection to the address may be made."""
        if any(address in network or reached_by(address) in network for network in self.allowed):
            return True
        return is_encrypted and is_public(address)

    def check_url(self, url: str) -> None:
        """Look at an address before anything is sent to it. Names are looked up later, at each connection.

        Raises
        ------
        UrlRefusedError
        """
        parts = _parts(url)
        is_encrypted = parts.scheme == "https"
        if not is_encrypted and not self.allowed:
            raise UrlRefusedError("scheme_refused", "must be https")
        host = (parts.hostname or "").lower()
        literal = literal_address(host)
        if literal is None and _is_loopback_name(host):
            literal = IPv4Address("127.0.0.1")
        if literal is not None and not self.admits(literal, is_encrypted=is_encrypted):
            raise UrlRefusedError("address_refused", "names an address that nothing is sent to")


def is_public(address: Address) -> bool:
    """Tell whether an address is one of the public internet, also one that is reached through another."""
    inner = reached_by(address)
    if isinstance(inner, IPv6Address):
        return inner in _GLOBAL_6 and not any(inner in network for network in _REFUSED_6)
    return not any(inner in network for network in _REFUSED_4)


def reached_by(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for (mapped, or through NAT64), else the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _TRANSLATED:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def literal_address(host: str) -> Address | None:
    """Return the address that a host is, None where it is a name.

    Raises
    ------
    UrlRefusedError
        It is a number in one of the spellings that C libraries take besides the four decimal numbers.
    """
    try:
        return ip_address(host)
    except ValueError:
        pass
    if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        raise UrlRefusedError("host_malformed", "must write an IPv4 address as four decimal numbers")
    return None


def check_host(host: str) -> None:
    """Look at a host that is named by itself.

    Raises
    ------
    UrlRefusedError
        It is neither an address nor a name that can be looked up.
    """
    if literal_address(host) is None and not _is_name(host.removesuffix(".")):
        raise UrlRefusedError("host_malformed", "must name a host")


def connected_address(family: int, sockaddr: Sequence[object]) -> Address | None:
    """Return the address of what a socket is about to be connected to; None where it is no internet address."""
    if family not in {socket.AF_INET, socket.AF_INET6}:
        return None
    return ip_address(str(sockaddr[0]).partition("%")[0])


def _parts(url: str) -> SplitResult:
    if len(url) > WEBHOOK_URL_LENGTH_MAX or not _URL.fullmatch(url) or "\\" in url:
        raise UrlRefusedError("url_malformed", "must be a URL in printable ASCII, without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UrlRefusedError("url_malformed", "is no URL") from None
    if parts.scheme not in {"https", "http"}:
        raise UrlRefusedError("scheme_refused", "must be https")
    if "@" in parts.netloc:
        raise UrlRefusedError("credentials_refused", "must not have a user or a password")
    if parts.fragment or url.endswith("#"):
        raise UrlRefusedError("url_malformed", "must not have a fragment")
    host = (parts.hostname or "").lower()
    is_bracketed = parts.netloc.startswith("[")
    if not is_bracketed and not _is_name(host):
        raise UrlRefusedError("host_malformed", "must name a host")
    if is_bracketed and ("%" in host or ":" not in host):
        raise UrlRefusedError("host_malformed", "must have an IPv6 address without a zone in its brackets")
    default = {"https": 443, "http": 80}[parts.scheme]
    if parts.netloc.endswith(":") or not (port is None or port == default or port >= WEBHOOK_PORT_FREE_MIN):
        raise UrlRefusedError("port_refused", f"must have port {default}, or one from {WEBHOOK_PORT_FREE_MIN} on")
    return parts


def _is_name(host: str) -> bool:
    return len(host) <= 253 and _HOST.fullmatch(host) is not None


def _is_loopback_name(host: str) -> bool:
    return host in _LOOPBACK_NAMES or host.endswith(".localhost")
