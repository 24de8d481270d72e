"""Who may do what: the token for changes, and the hosts by which the server may be addressed."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from foretide.errors import RegistryError
from foretide.files import PRIVATE, atomic_write
from foretide.status.pipelines import foretide_home, private_home

_FILE = "dashboard.token"
_MIN_LENGTH = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may ask for: requests a second and at once, bytes of a body, streams of events, open pages."""

    requests_per_second: float = 50.0
    burst: int = 300
    changes_per_second: float = 2.0
    burst_of_changes: int = 20
    max_body_bytes: int = 16_384
    max_query_bytes: int = 4_096
    max_streams: int = 64
    max_pages: int = 200


@dataclass(frozen=True, slots=True)
class Access:
    """The token that changes need, the names by which the server may be addressed, and the limits."""

    token: str
    hosts: frozenset[str]
    limits: Limits = Limits()

    def is_token(self, given: str) -> bool:
        """Whether it is the token; takes as long for any that is not."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def knows_host(self, header: str) -> bool:
        """Whether a `Host` header names this server: one of its names, or an address, which no other site can have."""
        name = _host_of(header)
        return name in self.hosts or (_is_address(name) and (_is_loopback(name) or not self.loopback_only))

    @property
    def loopback_only(self) -> bool:
        """Whether it can be reached from this machine only."""
        return all(host == "localhost" or _is_loopback(host) for host in self.hosts)


def hosts_of(host: str) -> frozenset[str]:
    """The names of a server that listens on that address."""
    names = {"localhost", "127.0.0.1", "::1"}
    return frozenset(names if _is_loopback(host) or host == "localhost" else {*names, host, socket.gethostname()})


def token_file() -> Path:
    """Where the token is kept."""
    return foretide_home() / _FILE


def read_token() -> str:
    """The token, made at the first start, in a file that only this user can read.

    Raises:
        RegistryError: Foretide's own folder cannot be read or written.
    """
    private_home()
    file = token_file()
    try:
        file.touch(PRIVATE)
        file.chmod(PRIVATE)
        token = file.read_text(encoding="ascii").strip()
        if len(token) < _MIN_LENGTH:
            token = secrets.token_urlsafe(32)
            atomic_write(file, f"{token}\n", PRIVATE)
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryError(f"the token of the dashboard, '{file}', cannot be read or written: {error}") from error
    return token


def _host_of(header: str) -> str:
    """The name in a `Host` header, without its port.

    >>> _host_of("localhost:8080"), _host_of("[::1]:8080"), _host_of("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback
