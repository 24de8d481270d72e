"""`foretide kafka start|stop|topics`: a real Kafka broker on this machine, for development and tests."""

from __future__ import annotations

from typing import Annotated

import typer

from foretide.cli.console import ClientConfigOption, JsonOption, answer, echo, print_json, progress_bar
from foretide.errors import KafkaError
from foretide.spark.kafka_broker import (
    DEFAULT_PORT,
    create_topics,
    list_topics,
    running_broker,
    start_detached,
    stop_detached,
)
from foretide.spark.kafka_options import read_options
from foretide.status.pipelines import foretide_home

app = typer.Typer(help="Run a Kafka broker on this machine, for development and tests.", no_args_is_help=True)

_MAX_PARTITIONS = 1000


@app.command()
def start(
    *,
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Port on 127.0.0.1.")] = DEFAULT_PORT,
    as_json: JsonOption = False,
) -> None:
    """Start a broker and leave it running. Its topics are kept over a stop and a start."""
    with progress_bar("Starting Kafka"):
        state = start_detached(foretide_home() / "kafka", port, lambda: None)
    text = f"Kafka is running at {state.address} (process {state.pid}); stop it with: foretide kafka stop"
    answer(state, text, as_json=as_json)


@app.command()
def stop(*, as_json: JsonOption = False) -> None:
    """Stop the broker that was started here."""
    state = stop_detached(foretide_home() / "kafka")
    answer(state, f"Kafka at {state.address} has stopped", as_json=as_json)


@app.command()
def topics(
    create: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Topics to create first.")] = None,
    *,
    partitions: Annotated[int, typer.Option(min=1, max=_MAX_PARTITIONS, help="Partitions of new topics.")] = 2,
    servers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Another broker than the one that was started here.")
    ] = None,
    client_config: ClientConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the topics of a broker, after creating those that are named."""
    address, options = servers or _address(), read_options(client_config) if client_config else {}
    if create:
        create_topics(address, create, partitions, options)
    found = list_topics(address, options)
    if as_json:
        print_json(found)
        return
    if not found:
        echo(f"{address} has no topics")
    for name, count in found.items():
        echo(f"{name:40} {count} partitions")


def _address() -> str:
    state = running_broker(foretide_home() / "kafka")
    if state is None:
        raise KafkaError("no Kafka broker was started here: foretide kafka start, or give --servers HOST:PORT")
    return state.address
