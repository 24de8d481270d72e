"""Storm @Twitter, section 3.3: the tuner of max-spout-pending beside fixed values."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from foretide.control.actions.registry import SetAdmission
from foretide.control.simulation.query import SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario
from foretide.planning.admission import Observation, ProgressTuner
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

PERIOD = 120.0
HOUR = 3600.0
FIXED = (500, 2_000, 8_000, 32_000, 128_000)
STARTS = (500, 8_000, 128_000)
CORES, WORK, NOISE = 8, 0.001, 0.02
THROUGHPUT, IN_FLIGHT, LIMIT = "throughput, second half", "batch, start to commit", "limit at the end"


def scenario() -> ControlScenario:
    """One bolt with a millisecond of work a tuple on eight cores."""
    network = Network((Operator("read", 1e6), Operator("work", 1 / WORK)), (Flow("read", "work"),), {"read": 1.0})
    costs = BatchCosts(1, fixed_cost=0.2, task_cost=0.001)
    return ControlScenario(network, {"read": 8, "work": 16}, costs=costs, executors=4, cores_per_executor=2)


def run_with(run: Run, limit: int, *, tuned: bool) -> Samples:
    """An hour with more to read than is processed; progress is measured with an error of some per cent."""
    rng = np.random.default_rng(run.seed)
    hour = HOUR / 2 if run.quick else HOUR
    query = SimulatedQuery(scenario(), RowLoad([20_000.0] * int(hour)))
    query.perform(SetAdmission("read", limit))
    tuner = ProgressTuner(min_limit=100)
    state, due, taken = tuner.start(limit), PERIOD, 0.0
    late: list[tuple[float, float]] = []
    while query.now < hour and (batch := query.run()) is not None:
        taken += batch.rows
        if batch.run.start >= hour / 2:
            late.append((batch.rows, batch.seconds))
        if tuned and query.now >= due:
            seen = taken * PERIOD / (query.now - due + PERIOD) * (1 + rng.normal(0.0, NOISE))
            state, step = tuner.step(state, Observation(progress=max(seen, 0.0)))
            query.perform(SetAdmission("read", step.limit))
            limit, taken, due = step.limit, 0.0, query.now + PERIOD
    rows, seconds = (sum(values) for values in zip(*late, strict=True))
    return {THROUGHPUT: [rows / seconds], IN_FLIGHT: [1000 * took for _, took in late], LIMIT: [float(limit)]}


def name(limit: int, *, tuned: bool) -> str:
    """The name of a side."""
    return f"tuned from {limit:,}" if tuned else f"fixed at {limit:,}"


def _near_best(found: Outcome) -> Verdict:
    best = max(found.median(name(limit, tuned=False), THROUGHPUT) for limit in FIXED)
    shares = [found.median(name(limit, tuned=True), THROUGHPUT) / best for limit in STARTS]
    starts = ", ".join(f"{share:.0%} from {limit:,}" for share, limit in zip(shares, STARTS, strict=True))
    return Verdict(f"{starts}, of the best fixed value", min(shares) >= 0.95)


def _fewest(found: Outcome) -> Verdict:
    best, tuned = (
        found.median(name(limit, tuned=kind), IN_FLIGHT) for limit, kind in ((FIXED[-1], False), (8_000, True))
    )
    return Verdict(f"batches of {tuned:,.0f} ms from 8,000, {best:,.0f} ms with {FIXED[-1]:,} fixed", tuned < best)


EXPERIMENT = Experiment(
    paper="storm-at-twitter",
    title="The tuner of tuples in flight by progress, every 120 s, beside fixed limits (section 3.3)",
    kind="simulator",
    sides=(
        *(Side(name(limit, tuned=False), partial(run_with, limit=limit, tuned=False)) for limit in FIXED),
        *(Side(name(limit, tuned=True), partial(run_with, limit=limit, tuned=True)) for limit in STARTS),
    ),
    measures=(Measure(THROUGHPUT, "tuples/s", "more"), Measure(IN_FLIGHT, "ms"), Measure(LIMIT, "rows", "neither")),
    claims=(
        Claim("the tuner finds a limit with the best progress, wherever it begins", _near_best),
        Claim("with the fewest tuples in flight", _fewest),
    ),
    scale="simulated micro-batches: rows a batch may take are what Storm has in flight",
    repeat=5,
    minutes=1.5,
    quick_minutes=0.1,
)
