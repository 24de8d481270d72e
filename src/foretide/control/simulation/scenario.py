"""What is simulated under control: a query in micro-batches or in real time, and its cluster. Values only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from foretide.control.world.setup import OperatorSetup, Setup
from foretide.errors import ControlError, ModelError, Problem
from foretide.queueing.model import BatchCosts, Mode, Model
from foretide.queueing.network import Network
from foretide.simulation.batches import RowLoad
from foretide.simulation.scenario import rate_curve, scenario_of, simulation_plan


@dataclass(frozen=True, slots=True)
class SlowExecutor:
    """An executor that takes `factor` times as long for everything from `start` to `end` (seconds)."""

    executor: str
    factor: float
    start: float = 0.0
    end: float = math.inf


@dataclass(frozen=True)
class ControlScenario:
    """A query on a cluster.

    Attributes:
        network: Operators and flows. Those with arrivals from outside are spouts, whose replicas cannot be changed. The
            load says how much arrives; only the shares of the spouts are taken from here.
        replicas: Active replicas at the start; operators that are not named start with their whole pool.
        costs: What a batch costs. `cores` is not looked at: executors bring them.
        executors: Executors at the start, named "0", "1" and so on.
        hosts: Machines that executors are spread over.
        executor_range: Fewest and most executors; None if their number cannot be changed.
        executor_delay: Seconds from the request for an executor until it is there.
        mode: `micro-batch`, or `pipeline` for real time: see `pipeline`.
        batch_seconds: How long tasks stay where they are, in a pipeline.
        balance_every: Seconds after which each load-aware edge is split again, by operator.
    """

    network: Network
    pools: Mapping[str, int]
    replicas: Mapping[str, int] = field(default_factory=dict)
    costs: BatchCosts = field(default_factory=lambda: BatchCosts(1, fixed_cost=0.2, task_cost=0.001))
    executors: int = 4
    cores_per_executor: int = 4
    hosts: int = 2
    executor_range: tuple[int, int] | None = None
    slow_executors: tuple[SlowExecutor, ...] = ()
    executor_delay: float = 20.0
    restart_seconds: float = 30.0
    name: str = "simulated"
    mode: Mode = "micro-batch"
    batch_seconds: float = 60.0
    balance_every: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(self.network.external.values()):
            raise ControlError("a simulated query needs an operator with arrivals from outside")
        if missing := set(self.network.names) ^ set(self.pools):
            raise ControlError(f"pools must name every operator once, check {', '.join(sorted(missing))}")
        sizes = {"executors": self.executors, "cores_per_executor": self.cores_per_executor, "hosts": self.hosts}
        sizes |= {f"pools[{name!r}]": pool for name, pool in self.pools.items()}
        for name, size in sizes.items():
            if size < 1:
                raise ControlError(f"{name} must be 1 or more, got {size}")

    @cached_property
    def spouts(self) -> tuple[str, ...]:
        """Operators with arrivals from outside."""
        return tuple(name for name in self.network.names if self.network.external.get(name, 0.0) > 0)

    @cached_property
    def spout_shares(self) -> dict[str, float]:
        """Each spout's share of the load."""
        return {name: self.network.external[name] / self.network.external_rate for name in self.spouts}

    @cached_property
    def visits(self) -> dict[str, float]:
        """Tuples that each operator handles for a row that enters."""
        return self.network.visits

    @cached_property
    def bolts(self) -> tuple[str, ...]:
        """Operators whose replicas can be changed."""
        return tuple(name for name in self.network.names if name not in self.spouts)

    def setup(self) -> Setup:
        """What a control loop knows of it."""
        operators = tuple(
            OperatorSetup(
                name,
                self.pools[name],
                None if name in self.spouts else name,
                name in self.spouts,
                balance_every=self.balance_every.get(name),
            )
            for name in self.network.names
        )
        return Setup(
            self.name,
            operators,
            tuple((flow.source, flow.target) for flow in self.network.flows),
            mode=self.mode,
            cores_per_executor=self.cores_per_executor,
            executors=self.executor_range,
            trigger=self.costs.trigger,
            can_admit=frozenset(self.spouts),
        )


def control_scenario_of(model: Model, cores_per_executor: int = 1, max_executors: int | None = None) -> ControlScenario:
    """The query and cluster of a model file.

    Its cores are brought by executors of equal size, the last one rounded up. A slow worker of the model is the
    executor with that core, and slow for all operators.

    Args:
        model: With the costs of a micro-batch.
        cores_per_executor: Tasks that each executor runs at the same time.
        max_executors: Most executors that may be requested; None leaves their number as it is.

    Raises:
        ModelError: The model cannot be simulated under control; lists every problem.
    """
    plan = replace(simulation_plan(model), mode="micro-batch")
    costs = scenario_of(replace(model, simulation=plan)).batching
    problems = [
        Problem("simulation", f"{name} cannot be combined with policies", "Leave it out.")
        for name, given in (("failure", plan.failures), ("routes", plan.routes))
        if given
    ]
    if costs is None or problems:
        raise ModelError(problems)
    return ControlScenario(
        model.network,
        pools={**model.processors, **model.pools},
        replicas=model.processors,
        costs=costs,
        executors=math.ceil(costs.cores / cores_per_executor),
        cores_per_executor=cores_per_executor,
        executor_range=None if max_executors is None else (1, max_executors),
        slow_executors=tuple(
            SlowExecutor(str(slow.replica // cores_per_executor), slow.factor, slow.start, slow.end)
            for slow in plan.slow_workers
        ),
    )


def load_of(model: Model) -> RowLoad:
    """The rows of a model file that fall due, second by second."""
    plan = simulation_plan(model)
    curve = rate_curve(model.network.external_rate, plan.curve)
    edges = [float(second) for second in range(math.ceil(plan.duration) + 1)]
    due = [curve.expected(min(edge, plan.duration)) for edge in edges]
    return RowLoad([later - earlier for earlier, later in pairwise(due)])
