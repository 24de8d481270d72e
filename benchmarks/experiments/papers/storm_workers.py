"""Storm @Twitter, section 4: machines taken away while the topology carries on: 16, 13, 10, 7, 4."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict, not_run
from benchmarks.experiments.outcome import Outcome
from foretide.control.actions.registry import Quarantine, Restart, SetAdmission
from foretide.control.simulation.query import SimulatedBatch, SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

MACHINES = (16, 13, 10, 7, 4)
PAPER_THROUGHPUT = (6.8, 5.8, 5.2, 4.5, 2.2)
PAPER_LATENCY = (7.8, 12.0, 17.0, 25.0, 45.0)
STEP_SECONDS, SETTLE_SECONDS = 120.0, 40.0
PENDING = 120_000
SECONDS_PER_ROW = 0.0004
WAYS = ("carries on", "restarts")
THROUGHPUT, LENGTH, ROWS = "throughput", "batch, start to commit", "rows in all"


def scenario() -> ControlScenario:
    """Users of events counted by 50 tasks, on 16 machines with three cores each."""
    rate = 2 / SECONDS_PER_ROW
    operators = (Operator("read", 1e6), Operator("filter", rate), Operator("count", rate))
    network = Network(operators, (Flow("read", "filter"), Flow("filter", "count")), {"read": 1.0})
    pools = {"read": 50, "filter": 50, "count": 50}
    costs = BatchCosts(1, fixed_cost=0.2, task_cost=0.001)
    return ControlScenario(network, pools, costs=costs, executors=16, cores_per_executor=3, hosts=16)


def run_steps(seed: int, way: str) -> list[SimulatedBatch]:
    """Every batch of the five steps, in which there is always more to read than a batch may take."""
    rng = np.random.default_rng(seed)
    seconds = len(MACHINES) * STEP_SECONDS
    query = SimulatedQuery(scenario(), RowLoad(rng.normal(300_000.0, 3_000.0, int(seconds)).tolist()))
    query.perform(SetAdmission("read", PENDING))
    batches: list[SimulatedBatch] = []
    gone = 0
    while query.now < seconds and (batch := query.run()) is not None:
        batches.append(batch)
        step = min(int(query.now / STEP_SECONDS), len(MACHINES) - 1)
        due = MACHINES[0] - MACHINES[step]
        for worker in range(gone, due):
            query.perform(Quarantine(str(worker)))
        if due > gone and way == "restarts":
            query.perform(Restart("a machine is gone", order=f"step {step}"))
        gone = due
    return batches


def measured(run: Run) -> dict[str, Samples]:
    """Both ways, step by step."""
    return {
        name(way, place): _step([each for each in batches if _is_in(each, place)])
        for way in WAYS
        for batches in [run_steps(run.seed, way)]
        for place in range(len(MACHINES))
    }


def _is_in(batch: SimulatedBatch, place: int) -> bool:
    begin = place * STEP_SECONDS
    return begin <= batch.run.start < begin + STEP_SECONDS


def _step(batches: list[SimulatedBatch]) -> Samples:
    """What the batches of a step took; those right after the change count for its throughput only."""
    begin = batches[0].run.start // STEP_SECONDS * STEP_SECONDS
    settled = [each for each in batches if each.run.start >= begin + SETTLE_SECONDS]
    rows = sum(each.rows for each in batches)
    return {
        THROUGHPUT: [rows / (STEP_SECONDS / 60) / 1e6],
        LENGTH: [1000 * each.seconds for each in settled],
        ROWS: [rows],
    }


def name(way: str, place: int) -> str:
    """The name of a side."""
    return f"{way}, {MACHINES[place]} machines"


def _throughput(found: Outcome) -> Verdict:
    rates = [found.median(name("carries on", place), THROUGHPUT) for place in range(len(MACHINES))]
    shares, paper = [rate / rates[0] for rate in rates], [rate / PAPER_THROUGHPUT[0] for rate in PAPER_THROUGHPUT]
    said = "/".join(f"{rate:.1f}" for rate in rates)
    ours, theirs = ("/".join(f"{share:.2f}" for share in each) for each in (shares, paper))
    reached = all(one >= other - 0.02 for one, other in zip(shares, paper, strict=True))
    return Verdict(f"{said} million a minute: {ours} of the first step, the paper {theirs}", reached)


def _latency(found: Outcome) -> Verdict:
    times = [found.median(name("carries on", place), LENGTH) for place in range(len(MACHINES))]
    growth, paper = times[-1] / times[0], PAPER_LATENCY[-1] / PAPER_LATENCY[0]
    said = "/".join(f"{each:,.0f}" for each in times)
    return Verdict(f"{said} ms: {growth:.1f} times from first to last, the paper {paper:.1f}", growth <= paper)


def _restart(found: Outcome) -> Verdict:
    rows = {way: sum(found.median(name(way, place), ROWS) for place in range(len(MACHINES))) for way in WAYS}
    more = rows["carries on"] / rows["restarts"] - 1
    return Verdict(f"{more:.0%} more rows than with a restart of 30 s for each change", more > 0)


def _sides(way: str) -> tuple[Side, ...]:
    return tuple(Side(name(way, place), not_run, way, float(machines)) for place, machines in enumerate(MACHINES))


EXPERIMENT = Experiment(
    paper="storm-at-twitter",
    title="Unique users while three machines are taken away at a time: 16, 13, 10, 7, 4 (section 4)",
    kind="simulator",
    sides=(*_sides("carries on"), *_sides("restarts")),
    measures=(Measure(THROUGHPUT, "million/min", "more"), Measure(LENGTH, "ms"), Measure(ROWS, "", "more")),
    claims=(
        Claim("6.8/5.8/5.2/4.5/2.2 million tuples a minute: the topology carries on", _throughput),
        Claim("7.8/12/17/25/45 ms: latency grows 5.8 times", _latency),
        Claim("without a restart of the topology", _restart),
    ),
    scale="simulated micro-batches, 2 minutes a step in place of 15; latency is the length of a batch of 120,000 rows, "
    "not that of a tuple; 50 tasks take two rounds on 48, 39 and 30 cores alike",
    together=partial(measured),
    repeat=5,
    minutes=1.0,
    quick_minutes=0.1,
    axis="machines",
)
