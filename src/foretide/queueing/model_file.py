"""Models from text: the small TOML file of `foretide plan` and `foretide simulate`, or the same as JSON.

    [[operator]]
    name = "parse"
    service_rate = 100.0      # tuples a second of one processor
    arrivals = 150.0          # entering here from outside
    processors = 2            # has now; pool, service_scv, arrival_scv, splits are optional too

    [[flow]]
    from = "parse"
    to = "count"
    gain = 0.8

    [micro_batch]             # only for Spark's micro-batch mode
    cores = 8
    fixed_cost = 0.2
    task_cost = 0.001

    [simulation]              # only for `foretide simulate`
    duration = 60
    curve = [[0, 1.0], [30, 2.0]]

Text in, value out; opening the file is the caller's business.
"""

from __future__ import annotations

import json
import math
import tomllib
from typing import TYPE_CHECKING, Any, get_args

from foretide.errors import ModelError, Problem
from foretide.queueing.fields import FieldReader
from foretide.queueing.model import (
    ArrivalCurve,
    BatchCosts,
    CurveShape,
    Failure,
    Mode,
    Model,
    SimulationPlan,
    SlowWorker,
)
from foretide.queueing.network import Flow, Network, Operator

if TYPE_CHECKING:
    from collections.abc import Mapping


def model_from_toml(text: str) -> Model:
    """Read a model from TOML.

    >>> model = model_from_toml('''
    ... [[operator]]
    ... name = "parse"
    ... service_rate = 100
    ... arrivals = 150
    ... processors = 2
    ... ''')
    >>> model.network.arrival_rates, model.processors
    ({'parse': 150.0}, {'parse': 2})

    Raises:
        ModelError: The text is no TOML, or says something that makes no sense; lists every problem.
        LoopGainError: A loop returns at least as much as it takes in.
    """
    try:
        return model_from(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ModelError([Problem("file", f"is no TOML: {error}", "Look at that line.")]) from error


def model_from_json(text: str) -> Model:
    """Read a model from JSON with the same names as the TOML file: how a measured snapshot is handed over."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ModelError([Problem("file", f"is no JSON: {error}", "Look at that line.")]) from error
    if not isinstance(data, dict):
        raise ModelError([Problem("file", "is no JSON object", "Start it with {.")])
    return model_from(data)


def model_from(data: Mapping[str, Any]) -> Model:
    """Read a model from plain mappings and lists, as both file formats give them."""
    problems: list[Problem] = []
    file = FieldReader(data, "file", problems)
    operators: list[Operator] = []
    external: dict[str, float] = {}
    processors: dict[str, int] = {}
    pools: dict[str, int] = {}
    for entry in file.tables("operator"):
        operator = _operator(entry)
        operators.append(operator)
        external[operator.name] = entry.number("arrivals", 0.0)
        for counts, name in ((processors, "processors"), (pools, "pool")):
            count = entry.whole(name, None, least=1)
            if count is not None:
                counts[operator.name] = count
        entry.finish()
    flows = [_flow(entry) for entry in file.tables("flow")]
    micro_batch = _micro_batch(file.table_of("micro_batch"))
    simulation = _simulation(file.table_of("simulation"), {operator.name for operator in operators})
    file.finish()
    problems += _pool_problems(processors, pools)
    network = _network(operators, flows, external, problems)
    return Model(network, processors, pools, micro_batch, simulation)


def _network(
    operators: list[Operator], flows: list[Flow], external: dict[str, float], problems: list[Problem]
) -> Network:
    """Build the network, and put its problems with those of the file."""
    try:
        network = Network(tuple(operators), tuple(flows), external)
    except ModelError as error:
        raise ModelError([*problems, *error.problems]) from error
    if problems:
        raise ModelError(problems)
    return network


def _operator(entry: FieldReader) -> Operator:
    # Whether a rate makes sense is Network's business; here only that it is a number.
    return Operator(
        name=entry.text("name"),
        service_rate=entry.number("service_rate", 1.0, needed=True),
        service_scv=entry.number("service_scv", 1.0),
        arrival_scv=entry.number("arrival_scv", 1.0),
        splits=entry.flag("splits"),
    )


def _flow(entry: FieldReader) -> Flow:
    flow = Flow(entry.text("from"), entry.text("to"), entry.number("gain", 1.0))
    entry.finish()
    return flow


def _pool_problems(processors: Mapping[str, int], pools: Mapping[str, int]) -> list[Problem]:
    return [
        Problem(f"operator '{name}'", f"has {count} processors of a pool of {pools[name]}", "Enlarge the pool.")
        for name, count in processors.items()
        if count > pools.get(name, count)
    ]


def _micro_batch(table: FieldReader | None) -> BatchCosts | None:
    if table is None:
        return None
    work = table.number("work_per_row", math.nan, above=0.0)
    costs = BatchCosts(
        cores=table.whole("cores", 1, least=1, needed=True),
        fixed_cost=table.amount("fixed_cost", 0.0),
        task_cost=table.amount("task_cost", 0.0),
        work_per_row=None if math.isnan(work) else work,
        trigger=table.amount("trigger", 0.0),
    )
    table.finish()
    return costs


def _simulation(table: FieldReader | None, operators: set[str]) -> SimulationPlan | None:
    if table is None:
        return None
    modes: tuple[Mode, ...] = get_args(Mode)
    plan = SimulationPlan(
        mode=table.choice("mode", modes, "pipeline"),
        duration=table.number("duration", 60.0, above=0.0),
        warm_up=table.amount("warm_up", 0.0),
        seed=table.whole("seed", 0, least=0),
        curve=_curve(table),
        slow_workers=tuple(_slow_worker(entry, operators) for entry in table.tables("slow_worker")),
        failures=tuple(_failure(entry, operators) for entry in table.tables("failure")),
        routes=_routes(table.table_of("routes"), operators),
    )
    table.finish()
    return plan


def _curve(table: FieldReader) -> ArrivalCurve:
    shapes: tuple[CurveShape, ...] = get_args(CurveShape)
    shape = table.choice("curve_shape", shapes, "steps")
    table.known.add("curve")
    points = table.table.get("curve", [])
    try:
        curve = tuple((float(at), float(factor)) for at, factor in points)
    except (TypeError, ValueError):
        curve = ((-1.0, -1.0),)
    times = [at for at, _ in curve]
    if times != sorted(times) or not all(math.isfinite(n) and n >= 0 for point in curve for n in point):
        remedy = "Give [[seconds, factor], ...] in order of time, none below 0."
        table.problems.append(Problem("simulation", f"curve is {points!r}", remedy))
        return ArrivalCurve((), shape)
    return ArrivalCurve(curve, shape)


def _slow_worker(entry: FieldReader, operators: set[str]) -> SlowWorker:
    worker = SlowWorker(
        operator=entry.choice("operator", sorted(operators), entry.text("operator")),
        replica=entry.whole("replica", 0, least=0),
        factor=entry.number("factor", 1.0, above=0.0, needed=True),
        start=entry.amount("start", 0.0),
        end=entry.number("end", math.inf, above=0.0, infinite=True),
    )
    entry.finish()
    return worker


def _failure(entry: FieldReader, operators: set[str]) -> Failure:
    failure = Failure(
        operator=entry.choice("operator", sorted(operators), entry.text("operator")),
        replica=entry.whole("replica", 0, least=0),
        at=entry.amount("at", 0.0, needed=True),
        lasts=entry.number("lasts", 1.0, above=0.0, needed=True),
    )
    entry.finish()
    return failure


def _routes(table: FieldReader | None, operators: set[str]) -> dict[str, tuple[float, ...]]:
    if table is None:
        return {}
    routes = {name: table.numbers(name) for name in sorted(operators) if name in table.table}
    for name, weights in routes.items():
        if not sum(weights) > 0:
            table.problems.append(Problem(table.where, f"the weights of '{name}' add up to 0", "Give some."))
    table.finish()
    return routes
