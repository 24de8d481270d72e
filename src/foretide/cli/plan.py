"""`foretide plan`: processors for each operator from a model file, or executors from what a pipeline has shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from foretide.cli.console import Console, DurationOption, JsonOption, StoreOption, Text, plain_table, print_json
from foretide.control.capacity import Capacity, capacity
from foretide.control.capacity import explain as explain_capacity
from foretide.errors import ModelError
from foretide.files import read_text
from foretide.formatting import finite, format_duration, format_number
from foretide.planning.alternatives import slower
from foretide.planning.what_if import BatchWhatIf, WhatIf, explain, what_if
from foretide.queueing.model import Model
from foretide.queueing.model_file import model_from_json, model_from_toml
from foretide.status.stored import Recording, open_store

ModelArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The model: TOML, or JSON if it ends in .json.", exists=True, dir_okay=False),
]
_MODEL_SUFFIXES = {".toml", ".json"}
_RECENT_SECONDS = 900.0


def plan(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|APP",
            help="A model (TOML, or JSON if it ends in .json), or the name of a running pipeline. Optional if only one "
            "is running.",
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Processors to allocate (cores for micro-batches); for models.")
    ] = None,
    latency: Annotated[float | None, DurationOption(help="Latency to meet with the fewest, such as 2s.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Rows a second to plan for; for pipelines. Default: what arrives now.")
    ] = None,
    store: StoreOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Plan processors from a model, or executors from what was measured of a pipeline.

    For a model, shows the allocation, the expected latency and the next best alternatives; give either --budget or
    --latency. For a pipeline, shows the executors that a rate and a latency need, by the last minutes of its batches.
    """
    if source is not None and _is_file(Path(source)):
        if rate is not None or store is not None:
            raise typer.BadParameter("is for pipelines, not for models", param_hint="--store" if store else "--rate")
        if (budget is None) == (latency is None):
            raise typer.BadParameter("a model is planned with either --budget N or --latency DURATION")
        answer: Any = what_if(read_model(Path(source)), budget, latency)
    else:
        if budget is not None:
            raise typer.BadParameter(
                "is for models; a pipeline is planned with --rate and --latency", param_hint="--budget"
            )
        answer = _capacity(source, store, rate, latency)
    if as_json:
        print_json(to_data(answer), indent=2)
    else:
        _show(answer, Console())


def _is_file(path: Path) -> bool:
    """Whether it can only be meant as a file."""
    try:
        exists = path.exists()
    except (OSError, ValueError):
        exists = True  # a path that no file can have: reading it says so
    return exists or path.suffix in _MODEL_SUFFIXES or path.name != str(path)


def _capacity(app: str | None, store: str | None, rate: float | None, latency: float | None) -> Capacity:
    """What a pipeline needs, by its last minutes."""
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise typer.BadParameter("must be a number of rows a second above 0", param_hint="--rate")
    with open_store(app, store) as (found, name):
        last = Recording.of(found, name).ends[-1]
        recording = Recording.of(found, name, since=last - _RECENT_SECONDS)
        return capacity(recording.worlds(), rate, latency)


def read_model(file: Path) -> Model:
    """The model in a file; JSON if its name says so, else TOML."""
    text = read_text(file, "a model")
    with problems_of(file):
        return model_from_json(text) if file.suffix == ".json" else model_from_toml(text)


@contextmanager
def problems_of(file: Path) -> Iterator[None]:
    """Name the file in problems of its model."""
    try:
        yield
    except ModelError as error:
        raise ModelError(error.problems, file) from None


def to_data(answer: WhatIf | BatchWhatIf | Capacity) -> dict[str, Any]:
    """The answer as plain values; infinite numbers become null, which JSON cannot express."""
    if isinstance(answer, Capacity):
        return {"mode": "micro-batch", **finite(asdict(answer)), "why": explain_capacity(answer)}
    mode = "pipeline" if isinstance(answer, WhatIf) else "micro-batch"
    return {"mode": mode, **finite(asdict(answer)), "why": explain(answer)}


def _show(answer: WhatIf | BatchWhatIf | Capacity, console: Console) -> None:
    if isinstance(answer, Capacity):
        for sentence in explain_capacity(answer):
            console.print(sentence, markup=False, highlight=False)
        return
    if isinstance(answer, WhatIf):
        console.print(_operators(answer))
        if answer.alternatives:
            console.print(_alternatives(answer))
    else:
        console.print(_stages(answer))
    for sentence in explain(answer):
        console.print(sentence, markup=False, highlight=False)


def _operators(answer: WhatIf) -> Table:
    columns = ("now", "planned", "arrivals/s", "busy", "time per visit", "share", "saved by one more")
    table = plain_table("Processors", "operator", *columns)
    for line in answer.operators:
        table.add_row(
            Text(line.name),
            "-" if line.now is None else f"{line.now:,}",
            f"{line.processors:,}",
            format_number(line.arrival_rate),
            f"{line.utilization:.0%}",
            format_duration(line.sojourn),
            f"{line.share:.0%}",
            format_duration(line.next_gain),
        )
    return table


def _alternatives(answer: WhatIf) -> Table:
    names = answer.allocation.processors
    table = plain_table("Alternatives with the same number", "processors", "time in all", "")
    best = answer.allocation.expected_total_sojourn
    for each in answer.alternatives:
        counts = ", ".join(f"{name} {each.processors[name]:,}" for name in names)
        table.add_row(Text(counts), format_duration(each.expected_total_sojourn), slower(each, best))
    return table


def _stages(answer: BatchWhatIf) -> Table:
    table = plain_table("Micro-batches", "operator", "replicas", "pool", "time a batch")
    for stage in answer.plan.model.stages:
        seconds = answer.stage_seconds[stage.operator]
        table.add_row(Text(stage.operator), f"{stage.active:,}", f"{stage.pool:,}", format_duration(seconds))
    return table
