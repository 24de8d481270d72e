"""The process of the dashboard: one server for pages and API."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from foretide.dashboard.access import Access, Limits, hosts_of, read_token
from foretide.errors import EnvironmentNotReadyError, MonitoringError

if TYPE_CHECKING:
    from foretide.status.sources import Sources

_MAX_MESSAGE_BYTES = 1_000_000
_PACKAGES = ("fastapi", "nicegui", "uvicorn")


def check_installed() -> None:
    """EnvironmentNotReadyError if the packages of the dashboard are not installed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise EnvironmentNotReadyError(f"the dashboard requires {missing[0]}: pip install 'foretide[dashboard]'")


def create_app(sources: Sources, access: Access, *, pages: bool = True) -> Any:
    """The ASGI application."""
    from foretide.dashboard.api import create_api  # noqa: PLC0415 - an extra
    from foretide.dashboard.guard import Guard  # noqa: PLC0415
    from foretide.dashboard.reading import Reader  # noqa: PLC0415

    reader = Reader(sources)
    app = create_api(reader, access, version("foretide"))
    if pages:
        from foretide.dashboard.pages import add_pages  # noqa: PLC0415

        add_pages(app, reader)
    return Guard(app, access)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any free one.

    Raises:
        MonitoringError: The address cannot be used.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as undo:
            listening = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(128)
            undo.pop_all()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MonitoringError(f"cannot listen on port {port} of '{host}': {reason}; choose another, or 0") from error
    return listening


def address_of(listening: socket.socket) -> str:
    """The address for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(
    listening: socket.socket,
    host: str,
    stores: Sequence[str] = (),
    limits: Limits | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Serve until the process is interrupted."""
    check_installed()
    import uvicorn  # noqa: PLC0415 - an extra

    from foretide.status.sources import Sources  # noqa: PLC0415 - loads SQLAlchemy

    sources = Sources(stores)
    access = Access(read_token(), hosts_of(host), limits or Limits())
    config = uvicorn.Config(
        create_app(sources, access),
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        ws_max_size=_MAX_MESSAGE_BYTES,
        timeout_graceful_shutdown=2,
        ws="websockets-sansio",
    )
    server = uvicorn.Server(config)
    on_start()
    try:
        asyncio.run(server.serve(sockets=[listening]))
    finally:
        sources.close()
