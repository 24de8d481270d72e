"""What if: what another rate, latency target or budget would need, by what was measured of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foretide.control.capacity import capacity
from foretide.control.capacity import explain as explain_capacity
from foretide.control.world.measured import NotYet, arrivals, cores_in_service, network
from foretide.control.world.world import World
from foretide.errors import PlanningError
from foretide.planning.what_if import WhatIf, explain, what_if
from foretide.queueing.model import Mode, Model


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. None stands for what is measured or set now; a budget is a number of processors."""

    rate: float | None = None
    latency: float | None = None
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class Allotment:
    """An operator's line of the answer: replicas or tasks now, and wanted."""

    operator: str
    now: int | None
    wanted: int


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, or `problem`, which says why there is none.

    Attributes:
        rate: Rows a second that it is for; `rate_now` is measured.
        processors: Replicas in real time, cores in micro-batches.
        latency: Seconds to expect: the mean in real time, of the target's quantile in micro-batches.
    """

    mode: Mode | None
    rate_now: float | None
    rate: float | None
    processors_now: int | None
    processors: int | None
    latency: float | None
    operators: tuple[Allotment, ...]
    sentences: tuple[str, ...]
    problem: str | None = None


def answer(worlds: Sequence[World], question: Question) -> Answer:
    """The answer by the worlds of the last minutes."""
    if not worlds:
        return _none(None, "no batch was recorded in the last minutes")
    last = worlds[-1]
    try:
        return _batches(worlds, question) if last.setup.mode == "micro-batch" else _pipeline(last, question)
    except PlanningError as error:
        return _none(last, str(error))


def _none(world: World | None, problem: str) -> Answer:
    mode = None if world is None else world.setup.mode
    processors = None if world is None else _processors_now(world)
    return Answer(mode, None if world is None else _rate(world), None, processors, None, None, (), (), problem)


def _rate(world: World) -> float | None:
    now = arrivals(world)
    return None if isinstance(now, NotYet) else sum(now.values())


def _processors_now(world: World) -> int:
    if world.setup.mode == "micro-batch":
        return cores_in_service(world)
    return sum(world.replicas(part.name) for part in world.setup.operators)


def _batches(worlds: Sequence[World], question: Question) -> Answer:
    last = worlds[-1]
    found = capacity(worlds, question.rate, question.latency, question.budget)
    allotted = tuple(Allotment(name, last.replicas(name), wanted) for name, (wanted, _) in found.pools.items())
    return Answer(
        last.setup.mode,
        _rate(last),
        found.rate,
        cores_in_service(last),
        found.executors * found.cores_per_executor,
        found.latency,
        allotted,
        tuple(explain_capacity(found)),
    )


def _pipeline(world: World, question: Question) -> Answer:
    model = _model(world, question.rate)
    if isinstance(model, NotYet):
        return _none(world, str(model))
    latency = question.latency if question.latency is not None else world.target.latency
    asked = {"budget": question.budget} if question.budget is not None else {"latency": latency}
    if latency is None and question.budget is None:
        return _none(world, "there is no latency target; give a latency or a budget")
    found = what_if(model, **asked)
    if not isinstance(found, WhatIf):
        return _none(world, "the model is of micro-batches")
    lines = tuple(Allotment(line.name, line.now, line.processors) for line in found.operators)
    total = found.allocation.total
    rate = model.network.external_rate
    sentences = tuple(explain(found))
    expected = found.completion.expected
    return Answer(world.setup.mode, _rate(world), rate, _processors_now(world), total, expected, lines, sentences)


def _model(world: World, rate: float | None) -> Model | NotYet:
    """The network as it is measured, with all arrivals in the same ratio to the rate asked for."""
    now = arrivals(world)
    if isinstance(now, NotYet):
        return now
    found = network(world, _scaled(now, rate))
    if isinstance(found, NotYet):
        return found
    names = found.names
    pools = {part.name: part.pool for part in world.setup.operators if part.name in names}
    return Model(found, {name: world.replicas(name) for name in names}, pools)


def _scaled(now: Mapping[str, float], rate: float | None) -> dict[str, float]:
    total = sum(now.values())
    factor = 1.0 if rate is None or total <= 0 else rate / total
    return {spout: value * factor for spout, value in now.items()}
