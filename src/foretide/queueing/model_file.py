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

Text in, value out; the caller opens the file.
"""

from __future__ import annotations

import json
import math
import tomllib
from typing import TYPE_CHECKING, Any, get_args

from foretide.errors import ModelError, Problem
from foretide.formatting import format_number
from foretide.queueing.fields import (
    AMOUNT,
    ARRIVALS,
    DURATION,
    FACTOR,
    MAX_COUNT,
    POSITIVE_SECONDS,
    RATE,
    SECONDS,
    FieldReader,
)
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
    from collections.abc import Callable, Iterator, Mapping


_MAX_OPERATORS = 200
_MAX_SEED = (1 << 63) - 1


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
        ModelError: The text is not TOML, or a field is invalid; lists every problem.
        LoopGainError: A loop returns at least as much as it takes in.
    """
    return model_from(_parsed(tomllib.loads, text, "TOML"))


def model_from_json(text: str) -> Model:
    """Read a model from JSON with the same names as the TOML file, such as a measured snapshot."""
    data = _parsed(json.loads, text, "JSON")
    if not isinstance(data, dict):
        raise ModelError([Problem("file", "is not a JSON object", "Start it with {.")])
    return model_from(data)


def _parsed(parse: Callable[[str], Any], text: str, language: str) -> Any:
    try:
        return parse(text)
    except RecursionError:
        raise ModelError([Problem("file", "is nested too deeply", "Give tables of plain values.")]) from None
    except ValueError as error:
        reason = "it has a number of too many digits" if "digits" in str(error) else str(error)
        raise ModelError([Problem("file", f"is not valid {language}: {reason}", "Correct that line.")]) from error


def model_from(data: Mapping[str, Any]) -> Model:
    """Read a model from plain mappings and lists, as both file formats give them."""
    problems: list[Problem] = []
    file = FieldReader(data, "file", problems)
    operators: list[Operator] = []
    external: dict[str, float] = {}
    processors: dict[str, int] = {}
    pools: dict[str, int] = {}
    for entry in file.tables("operator", _MAX_OPERATORS):
        operator = _operator(entry)
        operators.append(operator)
        external[operator.name] = entry.number("arrivals", 0.0, ARRIVALS)
        for counts, name in ((processors, "processors"), (pools, "pool")):
            count = entry.whole(name, None, minimum=1)
            if count is not None:
                counts[operator.name] = count
    flows = [
        Flow(entry.text("from"), entry.text("to"), entry.number("gain", 1.0, AMOUNT)) for entry in file.tables("flow")
    ]
    micro_batch = _micro_batch(file.table_of("micro_batch"))
    simulation = _simulation(file.table_of("simulation"), {operator.name for operator in operators})
    file.finish()
    problems += [
        Problem(f"operator '{name}'", f"has {count} processors of a pool of {pools[name]}", "Enlarge the pool.")
        for name, count in processors.items()
        if count > pools.get(name, count)
    ]
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
    problems += _load_problems(network)
    if problems:
        raise ModelError(problems)
    return network


def _load_problems(network: Network) -> Iterator[Problem]:
    """Loads that gains and loops blow up beyond what is planned, although each field is within its bounds."""
    for name, rate, load in zip(network.names, network.arrival_array, network.load_array, strict=True):
        if not load <= MAX_COUNT:
            what = f"{format_number(rate)} tuples a second arrive, work for {format_number(load)} processors"
            remedy = f"Lower the arrivals or gains before it, or raise service_rate: at most {MAX_COUNT:,} are planned."
            yield Problem(f"operator '{name}'", what, remedy)


def _operator(entry: FieldReader) -> Operator:
    return Operator(
        name=entry.text("name"),
        service_rate=entry.number("service_rate", 1.0, RATE, needed=True),
        service_scv=entry.number("service_scv", 1.0, AMOUNT),
        arrival_scv=entry.number("arrival_scv", 1.0, AMOUNT),
        splits=entry.flag("splits"),
    )


def _micro_batch(table: FieldReader | None) -> BatchCosts | None:
    if table is None:
        return None
    work = table.seconds("work_per_row", math.nan, POSITIVE_SECONDS)
    costs = BatchCosts(
        cores=table.whole("cores", 1, minimum=1, needed=True),
        fixed_cost=table.seconds("fixed_cost", 0.0),
        task_cost=table.seconds("task_cost", 0.0),
        work_per_row=None if math.isnan(work) else work,
        trigger=table.seconds("trigger", 0.0),
    )
    table.finish()
    return costs


def _simulation(table: FieldReader | None, operators: set[str]) -> SimulationPlan | None:
    if table is None:
        return None
    modes: tuple[Mode, ...] = get_args(Mode)
    plan = SimulationPlan(
        mode=table.choice("mode", modes, "pipeline"),
        duration=table.seconds("duration", 60.0, DURATION),
        warm_up=table.seconds("warm_up", 0.0),
        seed=table.whole("seed", 0, minimum=0, maximum=_MAX_SEED),
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
    points = table.pairs("curve", SECONDS, AMOUNT)
    times = [at for at, _ in points]
    if times != sorted(times):
        table.problems.append(Problem(table.where, "the times of curve go back", "Give them in order of time."))
    return ArrivalCurve(points, shape)


def _slow_worker(entry: FieldReader, operators: set[str]) -> SlowWorker:
    return SlowWorker(
        operator=entry.choice("operator", sorted(operators), "", needed=True),
        replica=entry.whole("replica", 0, minimum=0),
        factor=entry.number("factor", 1.0, FACTOR, needed=True),
        start=entry.seconds("start", 0.0),
        end=entry.end("end", POSITIVE_SECONDS),
    )


def _failure(entry: FieldReader, operators: set[str]) -> Failure:
    return Failure(
        operator=entry.choice("operator", sorted(operators), "", needed=True),
        replica=entry.whole("replica", 0, minimum=0),
        at=entry.seconds("at", 0.0, needed=True),
        lasts=entry.seconds("lasts", 1.0, POSITIVE_SECONDS, needed=True),
    )


def _routes(table: FieldReader | None, operators: set[str]) -> dict[str, tuple[float, ...]]:
    if table is None:
        return {}
    routes = {name: table.numbers(name) for name in sorted(operators) if name in table.table}
    for name, weights in routes.items():
        if not sum(weights) > 0:
            table.problems.append(Problem(table.where, f"the weights of '{name}' add up to 0", "Give some."))
    table.finish()
    return routes
