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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from foretide.errors import ModelError, Problem
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
    from collections.abc import Iterable, Iterator, Mapping


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
    try:
        return model_from(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ModelError([Problem("file", f"is not valid TOML: {error}", "Correct that line.")]) from error


def model_from_json(text: str) -> Model:
    """Read a model from JSON with the same names as the TOML file, such as a measured snapshot."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ModelError([Problem("file", f"is not valid JSON: {error}", "Correct that line.")]) from error
    if not isinstance(data, dict):
        raise ModelError([Problem("file", "is not a JSON object", "Start it with {.")])
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
            count = entry.whole(name, None, minimum=1)
            if count is not None:
                counts[operator.name] = count
    flows = [Flow(entry.text("from"), entry.text("to"), entry.number("gain", 1.0)) for entry in file.tables("flow")]
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
    if problems:
        raise ModelError(problems)
    return network


def _operator(entry: FieldReader) -> Operator:
    # Network checks the values; here they only have to be numbers.
    return Operator(
        name=entry.text("name"),
        service_rate=entry.number("service_rate", 1.0, needed=True),
        service_scv=entry.number("service_scv", 1.0),
        arrival_scv=entry.number("arrival_scv", 1.0),
        splits=entry.flag("splits"),
    )


def _micro_batch(table: FieldReader | None) -> BatchCosts | None:
    if table is None:
        return None
    work = table.number("work_per_row", math.nan, above=0.0)
    costs = BatchCosts(
        cores=table.whole("cores", 1, minimum=1, needed=True),
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
        seed=table.whole("seed", 0, minimum=0),
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
    points = table.take("curve") or []
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
    return SlowWorker(
        operator=entry.choice("operator", sorted(operators), entry.text("operator")),
        replica=entry.whole("replica", 0, minimum=0),
        factor=entry.number("factor", 1.0, above=0.0, needed=True),
        start=entry.amount("start", 0.0),
        end=entry.number("end", math.inf, above=0.0, infinite=True),
    )


def _failure(entry: FieldReader, operators: set[str]) -> Failure:
    return Failure(
        operator=entry.choice("operator", sorted(operators), entry.text("operator")),
        replica=entry.whole("replica", 0, minimum=0),
        at=entry.amount("at", 0.0, needed=True),
        lasts=entry.number("lasts", 1.0, above=0.0, needed=True),
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


T = TypeVar("T")


@dataclass(slots=True)
class FieldReader:
    """One table of a file. Read each known field, then `finish` to report the others.

    >>> problems: list[Problem] = []
    >>> table = FieldReader({"gain": "much", "gian": 2}, "flow 1", problems)
    >>> table.number("gain", 1.0)
    1.0
    >>> table.finish()
    >>> [problem.what for problem in problems]
    ["gain is 'much'", "unknown field 'gian'"]
    """

    table: Mapping[str, Any]
    where: str
    problems: list[Problem]
    known: set[str] = field(default_factory=set)

    def take(self, name: str) -> Any:
        """The field as it is; None if it is missing."""
        self.known.add(name)
        return self.table.get(name)

    def _refuse(self, name: str, value: object, wanted: str, default: T) -> T:
        what = f"'{name}' is missing" if value is None else f"{name} is {value!r}"
        self.problems.append(Problem(self.where, what, f"Give {wanted}."))
        return default

    def number(
        self, name: str, default: float, *, above: float = -math.inf, needed: bool = False, infinite: bool = False
    ) -> float:
        """A number greater than `above` (which is excluded), finite unless `infinite`."""
        value = self.take(name)
        if value is None and not needed:
            return default
        wanted = "a number" if above == -math.inf else f"a number above {above:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._refuse(name, value, wanted, default)
        fits = value > above and (infinite or math.isfinite(value))
        return float(value) if fits else self._refuse(name, value, wanted, default)

    def amount(self, name: str, default: float, *, needed: bool = False) -> float:
        """A number that is 0 or more."""
        value = self.number(name, default, needed=needed)
        return value if value >= 0 else self._refuse(name, value, "0 or more", default)

    def whole(self, name: str, default: T, *, minimum: int, needed: bool = False) -> int | T:
        """A whole number from `minimum` on."""
        value = self.take(name)
        if value is None and not needed:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            return self._refuse(name, value, f"a whole number, {minimum} or more", default)
        return value

    def text(self, name: str) -> str:
        """A text that must be there and not be empty."""
        value = self.take(name)
        return value if isinstance(value, str) and value else self._refuse(name, value, "a text", "")

    def flag(self, name: str) -> bool:
        """True or false; false if it is not there."""
        value = self.take(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        return self._refuse(name, value, "true or false", default=False)

    def choice(self, name: str, choices: Iterable[T], default: T) -> T:
        """One of a few words."""
        value = self.take(name)
        for word in choices:
            if value == word:
                return word
        wanted = "one of " + ", ".join(str(word) for word in choices)
        return default if value is None else self._refuse(name, value, wanted, default)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of numbers, 0 or more."""
        value = self.take(name)
        if isinstance(value, list) and all(_is_amount(item) for item in value):
            return tuple(float(item) for item in value)
        return self._refuse(name, value, "a list of numbers, 0 or more", ())

    def table_of(self, name: str) -> FieldReader | None:
        """A table within this one."""
        value = self.take(name)
        if isinstance(value, dict):
            return FieldReader(value, name if self.where == "file" else f"{self.where}.{name}", self.problems)
        return None if value is None else self._refuse(name, value, f"a table [{name}]", None)

    def tables(self, name: str) -> Iterator[FieldReader]:
        """The entries of a list of tables; each is finished when the next one is asked for."""
        value = self.take(name)
        if value is None:
            return
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._refuse(name, value, f"tables [[{name}]]", None)
            return
        for number, item in enumerate(value, start=1):
            entry = FieldReader(item, f"{name} {number}", self.problems)
            yield entry
            entry.finish()

    def finish(self) -> None:
        """Report fields that were not read: mostly misspelt ones."""
        for name in self.table:
            if name not in self.known:
                known = ", ".join(sorted(self.known))
                self.problems.append(Problem(self.where, f"unknown field '{name}'", f"Known are {known}."))


def _is_amount(item: object) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item) and item >= 0
