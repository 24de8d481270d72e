"""When the effect of a decision is judged: the window is over, and there were batches enough before and after it."""

import pytest

from control.worlds import observed, world
from foretide.control.actions.registry import SetReplicas
from foretide.control.decisions.decision import Wish
from foretide.control.decisions.effects import Evaluations, EvaluationSettings, evaluate
from foretide.control.world.setup import Target

SETTINGS = EvaluationSettings(window=60.0)
TARGET = Target(latency=1.0)


def seen(at, latency, replicas=1, batch=None):
    """A batch that has just ended."""
    figures = {"latency_p99_ms": latency, "batch": int(at) if batch is None else batch}
    return world(at, seen=observed(parse=replicas), target=TARGET, **figures)


def effects_of(period, latencies, batches_after=5):
    """Batches of a period, a decision after the fifth, and what is said of it: the batch at which it was judged."""
    evaluations, found = Evaluations(), []
    for number in range(5 + batches_after):
        now = seen(number * period, latencies[number >= 5], 1 if number < 5 else 2)
        result = evaluate(evaluations, now, SETTINGS)
        evaluations = result.evaluations
        found += [(number - 5, effect) for effect in result.effects]
        if number == 4:
            evaluations = evaluations.with_decision(
                1, [Wish("replicas", SetReplicas("parse", 2), "more work")], now, SETTINGS
            )
    return found


@pytest.mark.parametrize("period", [25.0, 60.0, 300.0])
def test_batches_longer_than_the_window_are_judged_after_three_of_them(period):
    ((after, effect),) = effects_of(period, (5_000.0, 500.0))
    assert effect.outcome == "better"
    assert "went from 5,000 to 500 ms" in effect.words
    assert after == 3


def test_short_batches_are_judged_when_the_window_is_over():
    ((after, effect),) = effects_of(5.0, (5_000.0, 500.0), batches_after=20)
    assert effect.outcome == "better"
    assert after == 12


def test_where_no_more_batches_come_the_effect_is_unclear_in_the_end():
    evaluations = Evaluations()
    for number in range(5):
        evaluations = evaluate(evaluations, seen(60.0 * number, 900.0), SETTINGS).evaluations
    last = seen(240.0, 900.0, batch=240)
    evaluations = evaluations.with_decision(1, [Wish("replicas", SetReplicas("parse", 2), "more work")], last, SETTINGS)
    evaluations = evaluate(evaluations, seen(241.0, 900.0, 2, batch=240), SETTINGS).evaluations
    idle = [evaluate(evaluations, seen(241.0 + 60 * windows, 900.0, 2, batch=240), SETTINGS) for windows in (9, 10)]
    assert [[effect.outcome for effect in result.effects] for result in idle] == [[], ["unclear"]]
