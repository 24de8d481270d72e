"""What if: from a model and a budget or a latency to an allocation, and why it is what it is, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from foretide.errors import ModelError, OverloadError, Problem
from foretide.formatting import format_duration, format_number, shorten
from foretide.planning.alternatives import VISIBLE, Alternative, next_best, slower
from foretide.planning.batches import BatchPlan, min_cores, plan_batches
from foretide.planning.processors import Allocation, assign_processors, min_processors
from foretide.queueing.batches import batch_model
from foretide.queueing.completion import CompletionTime, expected_completion_time
from foretide.queueing.fields import MAX_COUNT, POSITIVE_SECONDS
from foretide.queueing.sojourn import expected_sojourns, expected_total_sojourn, mmk_wait, utilization

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from foretide.queueing.model import BatchCosts, Model
    from foretide.queueing.network import Network


@dataclass(frozen=True, slots=True)
class OperatorAnswer:
    """One operator's line of the answer.

    Attributes:
        now: Processors it has now, if the model says.
        sojourn: Seconds a tuple spends here on each visit.
        share: Its share of the expected total sojourn time.
        next_gain: Seconds that one more processor here would take off the expected total sojourn time.
    """

    name: str
    now: int | None
    processors: int
    arrival_rate: float
    utilization: float
    sojourn: float
    share: float
    next_gain: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer for operators that run at the same time (a pipeline).

    Attributes:
        alternatives: The next best allocations of as many processors.
        bottleneck: The busiest operator.
        now: Expected total sojourn time as it is now; None if the model does not say, infinite in overload.
        pools: Limits that held.
    """

    asked: Literal["budget", "latency"]
    allocation: Allocation
    completion: CompletionTime
    operators: tuple[OperatorAnswer, ...]
    alternatives: tuple[Alternative, ...]
    bottleneck: str
    now: float | None
    pools: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BatchWhatIf:
    """The answer for Spark's micro-batch mode, where a budget is a number of cores.

    Attributes:
        bottleneck: The operator whose stage takes longest.
        stage_seconds: Seconds of a batch each operator takes, its empty tasks included.
        now: Mean latency with the replicas of the model; None if it does not say.
    """

    asked: Literal["budget", "latency"]
    plan: BatchPlan
    bottleneck: str
    stage_seconds: Mapping[str, float]
    now: float | None


def what_if(model: Model, budget: int | None = None, latency: float | None = None) -> WhatIf | BatchWhatIf:
    """The best use of a budget, or the least that meets a latency; exactly one of them is given.

    A model with a micro-batch section is planned as micro-batches, any other as a pipeline of queues: the two
    have little in common, and the formulas of one are wrong for the other.

    Raises:
        PlanningError: No plan meets the question; its subclasses say why, with figures.
    """
    if (budget is None) == (latency is None):
        raise ModelError([Problem("question", "needs a budget or a latency, not both", "Give one.")])
    if budget is not None and not 1 <= budget <= MAX_COUNT:
        wanted = f"Give a whole number between 1 and {MAX_COUNT:,}."
        raise ModelError([Problem("question", f"budget is {shorten(budget)}", wanted)])
    if latency is not None and not POSITIVE_SECONDS.holds(latency):
        raise ModelError([Problem("question", f"latency is {shorten(latency)}", f"Give seconds, {POSITIVE_SECONDS}.")])
    if model.micro_batch is not None:
        return _batches(model, model.micro_batch, budget, latency)
    return _pipeline(model, budget, latency)


def _pipeline(model: Model, budget: int | None, latency: float | None) -> WhatIf:
    network = model.network
    if budget is not None:
        allocation = assign_processors(network, budget, model.pools)
    else:
        allocation = min_processors(network, latency or 0.0, model.pools)
    busy = utilization(network, allocation.processors)
    return WhatIf(
        asked="latency" if budget is None else "budget",
        allocation=allocation,
        completion=expected_completion_time(network, allocation.processors),
        operators=_operators(model, allocation, busy),
        alternatives=tuple(next_best(network, allocation.processors, model.pools)),
        bottleneck=max(busy, key=lambda name: busy[name]),
        now=_now(network, model.processors),
        pools=model.pools,
    )


def _operators(model: Model, allocation: Allocation, busy: Mapping[str, float]) -> tuple[OperatorAnswer, ...]:
    network = model.network
    sojourns = expected_sojourns(network, allocation.processors)
    counts = np.array([allocation.processors[name] for name in network.names])
    waits = mmk_wait(counts, network.load_array) - mmk_wait(counts + 1, network.load_array)
    gains = (waits * network.variability_array * network.load_array / network.external_rate).tolist()
    rates, visits = network.arrival_rates, network.visits
    return tuple(
        OperatorAnswer(
            name=name,
            now=model.processors.get(name),
            processors=allocation.processors[name],
            arrival_rate=rates[name],
            utilization=busy[name],
            sojourn=sojourns[name],
            share=visits[name] * sojourns[name] / allocation.expected_total_sojourn,
            next_gain=gain,
        )
        for name, gain in zip(network.names, gains, strict=True)
    )


def _now(network: Network, processors: Mapping[str, int]) -> float | None:
    if set(processors) != set(network.names):
        return None
    try:
        return expected_total_sojourn(network, processors)
    except OverloadError:
        return float("inf")


def _batches(model: Model, costs: BatchCosts, budget: int | None, latency: float | None) -> BatchWhatIf:
    if budget is not None:
        plan = plan_batches(model.network, replace(costs, cores=budget), model.pools)
    else:
        plan = min_cores(model.network, costs, latency or 0.0, model.pools)
    seconds = {
        stage.operator: stage.pool * costs.task_cost + plan.model.stage_seconds(stage, plan.steady.rows)
        for stage in plan.model.stages
    }
    return BatchWhatIf(
        asked="latency" if budget is None else "budget",
        plan=plan,
        bottleneck=max(seconds, key=lambda name: seconds[name]),
        stage_seconds=seconds,
        now=_batches_now(model, costs),
    )


def _batches_now(model: Model, costs: BatchCosts) -> float | None:
    if set(model.processors) != set(model.network.names):
        return None
    now = batch_model(model.network, costs, model.processors, model.pools)
    rate = model.network.external_rate
    return now.steady(rate).mean_latency if rate < now.highest_rate else float("inf")


def explain(answer: WhatIf | BatchWhatIf) -> list[str]:
    """Sentences that say what was chosen, where the time goes, and what comes next."""
    return [*(_explain_pipeline(answer) if isinstance(answer, WhatIf) else _explain_batches(answer))]


def _explain_pipeline(answer: WhatIf) -> Iterator[str]:
    allocation = answer.allocation
    total = allocation.expected_total_sojourn
    verb = "split best as" if answer.asked == "budget" else "are the minimum, as"
    count = f"{allocation.total:,} processor{'s' if allocation.total > 1 else ''}"
    yield f"{count} {verb} {_ratio(allocation.processors)}: {format_duration(total)} in all operators."
    if answer.completion.expected < total * (1 - 1e-9):
        yield (
            f"Forked branches run side by side, so a tuple tree is fully processed after about "
            f"{format_duration(answer.completion.expected)}."
        )
    busiest = next(line for line in answer.operators if line.name == answer.bottleneck)
    yield (
        f"The bottleneck is {busiest.name}: {busiest.utilization:.0%} busy, "
        f"{busiest.share:.0%} of the time is spent there."
    )
    yield _next_processor(answer, total)
    if answer.alternatives:
        second = answer.alternatives[0]
        yield f"The next best, {_ratio(second.processors)}, takes {slower(second, total)}."
    if allocation.spare:
        yield f"{allocation.spare:,} of the budget are left over: they would bring nothing."
    if answer.now is not None:
        yield _compared(answer.now, total)


def _next_processor(answer: WhatIf, total: float) -> str:
    free = [line for line in answer.operators if line.processors < answer.pools.get(line.name, 1 << 40)]
    if not free:
        return "Every pool is used up; one more processor would need a larger pool."
    helped = max(free, key=lambda line: line.next_gain)
    share = helped.next_gain / total
    if share < VISIBLE:
        return "One more processor would make no difference."
    return f"One more processor would help {helped.name} most, by {share:.2%} of the time."


def _explain_batches(answer: BatchWhatIf) -> Iterator[str]:
    plan, steady = answer.plan, answer.plan.steady
    yield (
        f"{plan.cores:,} cores with {_ratio(plan.replicas)} replicas: batches of {format_duration(steady.length)} "
        f"every {format_duration(steady.interval)}, {format_number(steady.rows)} rows each."
    )
    yield (
        f"A row is committed {format_duration(steady.mean_latency)} after it arrives on average, "
        f"{format_duration(steady.latency(0.95))} in 95 % of cases."
    )
    yield f"{format_duration(plan.model.overhead)} of each batch are fixed cost, whatever the number of rows."
    slowest = answer.stage_seconds[answer.bottleneck]
    yield f"The bottleneck is {answer.bottleneck}: {format_duration(slowest)} of each batch."
    highest = format_number(plan.model.highest_rate)
    yield f"Batches settle up to {highest} rows a second; {steady.utilization:.0%} of that arrive."
    if answer.now is not None:
        yield _compared(answer.now, steady.mean_latency)


def _compared(now: float, planned: float) -> str:
    if math.isinf(now):
        return "As it is now it cannot keep up: queues grow for ever."
    change = now / planned - 1
    if abs(change) < VISIBLE:
        return f"As it is now it takes {format_duration(now)}: the same."
    word = "more" if change > 0 else "less"
    return f"As it is now it takes {format_duration(now)}: {100 * abs(change):,.2f}% {word}."


def _ratio(counts: Mapping[str, int]) -> str:
    return ":".join(str(count) for count in counts.values())
