"""The bytes of a join's plan file that Spark reads: they may change only together with Spark's reader."""

from pathlib import Path

import pytest

from foretide.joins.placement.plan_change import BatchHistory, CommittedBatch, Maxima, PlanChangeProtocol, PlanState
from foretide.joins.placement.spec import JoinBound
from foretide.joins.placement.timeline import Timeline, from_json, to_json
from foretide.joins.plan import JoinPlan, KeyGrid

GOLDEN = Path(__file__).parent / "golden"
SECOND, PARTITIONS = 1_000_000, 4
HOT, WARM, OTHER = 7, -1_337, 2_000_000_000


def a_plan(grids):
    return JoinPlan({key: KeyGrid(rows) for key, rows in grids.items()})


def plan_change():
    """Two keys are split, then one of them otherwise, one goes back to the tail and another comes; old ones go."""
    protocol = PlanChangeProtocol(JoinBound(5 * SECOND, 3 * SECOND))
    steps = {"empty": PlanState(Timeline(), BatchHistory())}

    def seen(state, batch, seconds, watermark=None):
        maxima = Maxima(seconds * SECOND, (seconds + 1) * SECOND)
        return protocol.advance(state, CommittedBatch(batch, state.timeline.version, maxima, watermark))

    state = seen(steps["empty"], 0, 100)
    first = a_plan({HOT: ((0, 1), (2, 3)), WARM: ((3,), (0,))})
    state = steps["announced"] = protocol.adopt(state, first, PARTITIONS, 10 * SECOND)
    state = steps["in_force"] = seen(state, 1, 105)
    second = a_plan({HOT: ((2, 2, 1),), OTHER: ((1,),)})
    state = steps["change_announced"] = protocol.adopt(state, second, PARTITIONS, 10 * SECOND)
    steps["hard_end_moved"] = protocol.retry(state, 500 * SECOND)
    steps["cancelled"] = protocol.cancel(state)
    state = steps["changed"] = seen(state, 2, 110)
    steps["forgotten"] = seen(state, 3, 300, watermark=290 * SECOND)
    return {name: state.timeline for name, state in steps.items()}


STEPS = plan_change()


@pytest.mark.parametrize("name", STEPS)
def test_a_plan_is_written_and_read_byte_for_byte(name):
    text = (GOLDEN / f"{name}.json").read_text()
    assert to_json(STEPS[name]) == text
    assert from_json(text) == STEPS[name]
