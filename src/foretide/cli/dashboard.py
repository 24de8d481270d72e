"""`foretide dashboard`: pages and a REST API for the pipelines on this machine, in a process of its own."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Sequence
from typing import Annotated

import typer

from foretide.cli.console import JsonOption, answer, echo
from foretide.dashboard.access import token_file
from foretide.dashboard.server import address_of, check_installed, listen, serve
from foretide.runtime.processes import end_with_parent

_MAX_PORT = 65_535
_NICENESS = 10


def dashboard(
    host: Annotated[str, typer.Option(help="Address to listen on; by default only this machine can connect.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=_MAX_PORT, help="Port; 0 takes any free one.")] = 8080,
    store: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE|URL", help="Store of a recorded pipeline to show, too; repeatable."),
    ] = None,
    *,
    as_json: JsonOption = False,
    inherited: Annotated[int | None, typer.Option("--socket", min=0, hidden=True)] = None,
) -> None:
    """Show the pipelines of this machine in a browser, and serve the REST API.

    It reads files and stores only. Changes need the token, which is kept in a file that only you can read.
    """
    check_installed()
    if inherited is not None:
        _serve_beside(inherited)
        return
    with listen(host, port) as listening:
        _serve(listening, host, store or (), as_json=as_json)


def _serve(listening: socket.socket, host: str, store: Sequence[str], *, as_json: bool) -> None:
    """Serve in the foreground until it is interrupted."""
    address = address_of(listening)

    def tell() -> None:
        text = f"dashboard: {address}\nREST API:  {address}/api/v1\nchanges need the token in {token_file()}"
        answer({"address": address, "token_file": str(token_file())}, text, as_json=as_json)
        if host not in {"127.0.0.1", "localhost", "::1"}:
            echo("anybody who can reach this address can read; put a proxy with TLS and passwords in front", err=True)

    serve(listening, host, store, on_start=tell)


def _serve_beside(inherited: int) -> None:
    """As the child of a run: on its socket, until it ends, and only with what it leaves of the processor."""
    try:
        is_socket = stat.S_ISSOCK(os.fstat(inherited).st_mode)
    except (OSError, OverflowError):
        is_socket = False
    if not is_socket:
        raise typer.BadParameter(f"--socket must be the number of an open socket, got {inherited}")
    os.nice(_NICENESS)
    end_with_parent()
    serve(socket.socket(fileno=inherited), "127.0.0.1")
