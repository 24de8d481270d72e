"""`foretide plan`: how many processors for each operator, from a model file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from foretide.cli.console import Console, DurationOption, JsonOption, Text, plain_table, print_json
from foretide.errors import ModelError
from foretide.files import read_text
from foretide.formatting import finite, format_duration, format_number
from foretide.planning.alternatives import slower
from foretide.planning.what_if import BatchWhatIf, WhatIf, explain, what_if
from foretide.queueing.model import Model
from foretide.queueing.model_file import model_from_json, model_from_toml

ModelArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The model: TOML, or JSON if it ends in .json.", exists=True, dir_okay=False),
]


def plan(
    file: ModelArgument,
    budget: Annotated[int | None, typer.Option(help="Processors to allocate (cores for micro-batches).")] = None,
    latency: Annotated[float | None, DurationOption(help="Latency to meet with the fewest, such as 2s.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Plan the processors of each operator from a model.

    Shows the allocation, the expected latency and the next best alternatives. Give either --budget or --latency.
    """
    answer = what_if(read_model(file), budget, latency)
    if as_json:
        print_json(to_data(answer), indent=2)
    else:
        _show(answer, Console())


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


def to_data(answer: WhatIf | BatchWhatIf) -> dict[str, Any]:
    """The answer as plain values; infinite numbers become null, which JSON cannot express."""
    mode = "pipeline" if isinstance(answer, WhatIf) else "micro-batch"
    return {"mode": mode, **finite(asdict(answer)), "why": explain(answer)}


def _show(answer: WhatIf | BatchWhatIf, console: Console) -> None:
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
