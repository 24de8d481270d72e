"""`foretide plan`: how many processors for each operator, from a model file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from foretide.cli.console import DurationOption, JsonOption
from foretide.planning.what_if import BatchWhatIf, WhatIf, duration, explain, what_if
from foretide.queueing.model import Model
from foretide.queueing.model_file import model_from_json, model_from_toml

ModelArgument = Annotated[
    Path, typer.Argument(help="The model: TOML, or JSON if it ends in .json.", exists=True, dir_okay=False)
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
        typer.echo(json.dumps(to_data(answer), indent=2))
    else:
        _show(answer, Console())


def read_model(file: Path) -> Model:
    """The model in a file; JSON if its name says so, else TOML."""
    text = file.read_text(encoding="utf-8")
    return model_from_json(text) if file.suffix == ".json" else model_from_toml(text)


def to_data(answer: WhatIf | BatchWhatIf) -> dict[str, Any]:
    """The answer as plain values; infinite numbers become null, which JSON cannot express."""
    mode = "pipeline" if isinstance(answer, WhatIf) else "micro-batch"
    return {"mode": mode, **_finite(asdict(answer)), "why": explain(answer)}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _show(answer: WhatIf | BatchWhatIf, console: Console) -> None:
    if isinstance(answer, WhatIf):
        console.print(_operators(answer))
        console.print(_alternatives(answer))
    else:
        console.print(_stages(answer))
    for sentence in explain(answer):
        console.print(sentence, markup=False, highlight=False)


def _operators(answer: WhatIf) -> Table:
    table = Table("operator", title="Processors", title_justify="left")
    for column in ("now", "planned", "arrivals/s", "busy", "time per visit", "share", "saved by one more"):
        table.add_column(column, justify="right")
    for line in answer.operators:
        table.add_row(
            line.name,
            "-" if line.now is None else str(line.now),
            str(line.processors),
            f"{line.arrival_rate:.4g}",
            f"{line.utilization:.0%}",
            duration(line.sojourn),
            f"{line.share:.0%}",
            duration(line.next_gain),
        )
    return table


def _alternatives(answer: WhatIf) -> Table:
    names = answer.allocation.processors
    table = Table(*names, title="Alternatives with the same number", title_justify="left")
    table.add_column("time in all", justify="right")
    best = answer.allocation.expected_total_sojourn
    rows = [(names, best), *((a.processors, a.expected_total_sojourn) for a in answer.alternatives)]
    for processors, sojourn in rows:
        table.add_row(*(str(processors[name]) for name in names), f"{duration(sojourn)} (+{sojourn / best - 1:.2%})")
    return table


def _stages(answer: BatchWhatIf) -> Table:
    table = Table("operator", title="Micro-batches", title_justify="left")
    for column in ("replicas", "pool", "time a batch"):
        table.add_column(column, justify="right")
    for stage in answer.plan.model.stages:
        seconds = answer.stage_seconds[stage.operator]
        table.add_row(stage.operator, str(stage.active), str(stage.pool), duration(seconds))
    return table
