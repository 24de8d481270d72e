"""Why an allocation is what it is, in plain words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from foretide.planning.what_if import BatchWhatIf, WhatIf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def explain(answer: WhatIf | BatchWhatIf) -> list[str]:
    """Sentences that say what was chosen, where the time goes, and what comes next."""
    return [*(_pipeline(answer) if isinstance(answer, WhatIf) else _batches(answer))]


def duration(seconds: float) -> str:
    """Seconds in the unit one would say: 1.5 s, 250 ms.

    >>> duration(1.5), duration(0.25), duration(4e-5), duration(math.inf)
    ('1.5 s', '250 ms', '0.04 ms', 'without end')
    """
    if math.isinf(seconds):
        return "without end"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _pipeline(answer: WhatIf) -> Iterator[str]:
    allocation = answer.allocation
    total = allocation.expected_total_sojourn
    verb = "split best as" if answer.asked == "budget" else "are the fewest that do, as"
    count = f"{allocation.total} processor{'s' if allocation.total > 1 else ''}"
    yield f"{count} {verb} {_ratio(allocation.processors)}: {duration(total)} in all operators."
    if answer.completion.expected < total * (1 - 1e-9):
        yield (
            f"Forked branches run side by side, so a tuple tree is fully processed after about "
            f"{duration(answer.completion.expected)}."
        )
    busiest = next(line for line in answer.operators if line.name == answer.bottleneck)
    yield (
        f"The bottleneck is {busiest.name}: {busiest.utilization:.0%} busy, "
        f"{busiest.share:.0%} of the time is spent there."
    )
    yield _next_processor(answer, total)
    if answer.alternatives:
        second = answer.alternatives[0]
        slower = second.expected_total_sojourn / total - 1
        yield f"The next best, {_ratio(second.processors)}, takes {slower:.2%} longer."
    if allocation.spare:
        yield f"{allocation.spare} of the budget are left over: they would bring nothing."
    if answer.now is not None:
        yield _compared(answer.now, total)


def _next_processor(answer: WhatIf, total: float) -> str:
    free = [line for line in answer.operators if line.processors < answer.pools.get(line.name, 1 << 40)]
    if not free:
        return "Every pool is used up; one more processor would need a larger pool."
    helped = max(free, key=lambda line: line.next_gain)
    share = helped.next_gain / total
    return f"One more processor would help {helped.name} most, by {share:.2%} of the time."


def _batches(answer: BatchWhatIf) -> Iterator[str]:
    plan, steady = answer.plan, answer.plan.steady
    yield (
        f"{plan.cores} cores with {_ratio(plan.replicas)} replicas: batches of {duration(steady.length)} "
        f"every {duration(steady.interval)}, {steady.rows:.4g} rows each."
    )
    yield (
        f"A row is committed {duration(steady.mean_latency)} after it arrives on average, "
        f"{duration(steady.latency(0.95))} in 95 % of cases."
    )
    yield f"{duration(plan.model.overhead)} of each batch are fixed cost, rows or no rows."
    slowest = answer.stage_seconds[answer.bottleneck]
    yield f"The bottleneck is {answer.bottleneck}: {duration(slowest)} of each batch."
    yield (
        f"Batches settle up to {plan.model.highest_rate:.4g} rows a second; {steady.utilization:.0%} of that arrive."
    )
    if answer.now is not None:
        yield _compared(answer.now, steady.mean_latency)


def _compared(now: float, planned: float) -> str:
    if math.isinf(now):
        return "As it is now it cannot keep up: queues grow for ever."
    change = now / planned - 1
    if abs(change) < 5e-5:  # noqa: PLR2004
        return f"As it is now it takes {duration(now)}: the same."
    return f"As it is now it takes {duration(now)}: {abs(change):.2%} {'more' if change > 0 else 'less'}."


def _ratio(counts: Mapping[str, int]) -> str:
    return ":".join(str(count) for count in counts.values())
