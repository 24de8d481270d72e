"""A model: a network with its processors, its micro-batch costs, and what a simulation of it should do.

Values only. `model_file` makes one from text, `planning.what_if` plans with it, and the simulator runs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.queueing.network import Network

Mode = Literal["pipeline", "micro-batch"]
CurveShape = Literal["steps", "linear"]


@dataclass(frozen=True, slots=True)
class BatchCosts:
    """What a micro-batch costs, apart from the rows themselves.

    The fixed part grows with the POOL, not with the active replicas: Spark starts every task of an exchange,
    empty or not.

    Attributes:
        cores: Tasks that run at the same time.
        fixed_cost: Seconds a batch takes with no rows and no tasks: planning, commits, logs.
        task_cost: Seconds that each task of a pool adds to the batch, as measured on the whole batch.
        work_per_row: Core-seconds a row entering the network needs in all; None takes it from the network
            (visits over service rate, summed).
        trigger: Least seconds between the starts of two batches; 0 starts the next at once.
        row_cost: Seconds that each row adds to a batch whatever the cores, beside its work in the operators.
    """

    cores: int
    fixed_cost: float = 0.0
    task_cost: float = 0.0
    work_per_row: float | None = None
    trigger: float = 0.0
    row_cost: float = 0.0


@dataclass(frozen=True, slots=True)
class SlowWorker:
    """A replica that takes `factor` times as long per tuple from `start` to `end` (seconds)."""

    operator: str
    replica: int
    factor: float
    start: float = 0.0
    end: float = float("inf")


@dataclass(frozen=True, slots=True)
class Failure:
    """A replica that is gone from `at` for `lasts` seconds."""

    operator: str
    replica: int
    at: float
    lasts: float


@dataclass(frozen=True, slots=True)
class ArrivalCurve:
    """External arrivals over time, as factors on the network's own rates.

    Attributes:
        points: (seconds, factor) in order of time; empty means a factor of 1 throughout.
        shape: "steps" holds a factor until the next point, "linear" goes straight to it.
    """

    points: tuple[tuple[float, float], ...] = ()
    shape: CurveShape = "steps"


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """What a simulation of the model should do.

    Attributes:
        mode: "pipeline" (queues between operators that run at the same time) or "micro-batch".
        duration: Seconds of simulated time.
        warm_up: Seconds at the start that are left out of the answers.
        routes: Weights by replica of an operator (4, 3, 1), where they are not all equal.
    """

    mode: Mode = "pipeline"
    duration: float = 60.0
    warm_up: float = 0.0
    seed: int = 0
    curve: ArrivalCurve = field(default_factory=ArrivalCurve)
    slow_workers: tuple[SlowWorker, ...] = ()
    failures: tuple[Failure, ...] = ()
    routes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    """A network and everything that is known about how it runs.

    Attributes:
        processors: Processors (active replicas) an operator has now; may leave operators out.
        pools: Most processors an operator can have; those left out are not limited.
        micro_batch: Costs of a batch, if the model is of Spark's micro-batch mode.
    """

    network: Network
    processors: Mapping[str, int] = field(default_factory=dict)
    pools: Mapping[str, int] = field(default_factory=dict)
    micro_batch: BatchCosts | None = None
    simulation: SimulationPlan | None = None
