"""Plans of skewed joins, tried on rows: planned from one window, measured on the next."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import ModelError
from foretide.joins.plan import NO_PLAN, JoinPlan, KeyLoad, TailLoad, fill, grid_of, imbalance
from foretide.joins.planning.planner import explain_plan, plan_join, predict
from foretide.joins.settings import JoinSettings
from foretide.workloads.randomness import words

ROWS = 100_000
PAPER, BALANCED = JoinSettings(variant="paper"), JoinSettings(variant="balanced")


def hashes(keys, seed=0):
    """A 32-bit hash for each key."""
    return (words(seed, "hash", 0, keys) >> np.uint64(32)).astype(np.int64)


def zipf(keys, exponent, half=False):
    weights = np.arange(1, keys + 1.0) ** -exponent
    if half:
        weights[0] = weights[1:].sum()
    return weights / weights.sum()


def counted(key, left, right):
    return [KeyLoad(int(k), float(a), float(b)) for k, a, b in zip(key, left, right, strict=True)]


def planned(loads, partitions, settings, how="inner"):
    """The plan from what one window showed: its most frequent keys one by one, the rest by partition."""
    ordered = sorted(loads, key=lambda load: -load.rows)
    hot, rest = ordered[: settings.max_keys], ordered[settings.max_keys :]
    by_hash = fill(NO_PLAN, rest, [TailLoad(0.0, 0.0)] * partitions, lambda key: key % partitions)
    tail = [TailLoad(left, right) for left, right in zip(by_hash.left, by_hash.right, strict=True)]
    return plan_join(hot, tail, partitions, settings, how=how)


def measured(plan, key, left, right, partitions, rng):
    """LI and replication when each left row takes a row of its key's grid at random, each right row a column."""
    stored, coming = np.zeros(partitions), np.zeros(partitions)
    for k, a, b in zip(key.tolist(), left.tolist(), right.tolist(), strict=True):
        grid = plan.grid_of_key(k, lambda k: k % partitions)
        rows, columns = grid.shape
        for row, count in enumerate(rng.multinomial(a, [1 / rows] * rows) if rows > 1 else [a]):
            stored[list(grid.rows[row])] += count
        for column, count in enumerate(rng.multinomial(b, [1 / columns] * columns) if columns > 1 else [b]):
            coming[[each[column] for each in grid.rows]] += count
    return imbalance((stored * coming).tolist()), (stored.sum() + coming.sum()) / (left.sum() + right.sum())


def tried(weights, partitions, settings, how="inner", seed=0):
    rng = np.random.default_rng(seed)
    key = hashes(len(weights), seed)
    first, then = ([rng.multinomial(ROWS, weights) for _ in range(2)] for _ in range(2))
    plan = planned(counted(key, *first), partitions, settings, how)
    return plan, *measured(plan, key, *then, partitions, rng)


@pytest.mark.parametrize("partitions", [8, 16])
@pytest.mark.parametrize("keys", [1000, 10_000])
@pytest.mark.parametrize(
    ("exponent", "most"), [(0.0, 1.0), (0.5, 1.0), (1.0, 1.2), (1.5, 2.1), (2.0, 3.1)], ids=lambda x: f"{x:g}"
)
def test_measured_imbalance_is_low_whatever_the_skew(exponent, most, keys, partitions):
    plan, found, replication = tried(zipf(keys, exponent), partitions, BALANCED)
    assert found <= 0.15
    assert replication <= most
    assert replication == pytest.approx(plan.replication, rel=0.01)


@pytest.mark.parametrize("partitions", [8, 16])
@pytest.mark.parametrize("keys", [1000, 10_000])
def test_a_key_of_half_of_all_rows_is_balanced(keys, partitions):
    plan, found, replication = tried(zipf(keys, 0, half=True), partitions, BALANCED)
    assert found <= 0.15
    assert replication <= 2.55
    assert max(len(grid.cells) for grid in plan.grids.values()) >= 0.75 * partitions


@pytest.mark.parametrize(("exponent", "partitions"), [(1.0, 8), (2.0, 8), (1.5, 16)])
def test_the_papers_numbers_of_splits_alone_do_not_balance(exponent, partitions):
    _, by_hash, _ = tried(zipf(1000, exponent), partitions, JoinSettings(variant="balanced", target=100.0))
    _, by_paper, _ = tried(zipf(1000, exponent), partitions, PAPER)
    assert 0.5 < by_paper < by_hash


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_a_left_join_copies_no_left_row(exponent):
    plan, found, replication = tried(zipf(1000, exponent), 8, BALANCED, how="left")
    assert all(grid.shape[1] == 1 for grid in plan.grids.values())
    assert found <= 0.15
    assert replication <= 3


def test_sides_of_different_size_copy_the_smaller_one():
    loads = [KeyLoad(3, 100.0, 9000.0), *(KeyLoad(100 + n, 1.0, 90.0) for n in range(100))]
    rows, columns = planned(loads, 8, BALANCED).grids[3].shape
    assert columns > rows


def test_the_fullest_partition_has_no_more_work_than_without_a_plan():
    loads = counted(hashes(300), *(2 * [10_000 * zipf(300, 1.7)]))
    tail = [TailLoad(0.0, 0.0)] * 7
    plan = plan_join(loads, tail, 7)
    assert fullest(plan, loads, 7) < fullest(NO_PLAN, loads, 7) / 4


def fullest(plan, loads, partitions):
    filling = [[0.0, 0.0] for _ in range(partitions)]
    for load in loads:
        grid = plan.grid_of_key(load.key, lambda key: key % partitions)
        for cell in grid.cells:
            filling[cell][0] += load.left / grid.shape[0]
            filling[cell][1] += load.right / grid.shape[1]
    return max(left * right for left, right in filling)


rows_of_keys = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=12)


@given(rows_of_keys, st.integers(1, 9), st.sampled_from(["paper", "balanced"]), st.sampled_from(["inner", "left"]))
@settings(deadline=None, max_examples=60)
def test_any_plan_uses_each_partition_at_most_once_for_a_key(keys, partitions, variant, how):
    hot = [KeyLoad(number * 7919, left, right) for number, (left, right) in enumerate(keys)]
    tail = [TailLoad(10.0 * at, 5.0) for at in range(partitions)]
    plan = plan_join(hot, tail, partitions, JoinSettings(variant=variant), how=how)
    for grid in plan.grids.values():
        assert len(set(grid.cells)) == len(grid.cells)
        assert max(grid.cells) < partitions
        assert how == "inner" or grid.shape[1] == 1
    assert plan.replication >= 1 - 1e-9
    again = plan_join(hot[::-1], tail, partitions, JoinSettings(variant=variant), how=how)
    assert again == plan


def test_without_hot_keys_there_is_no_plan():
    tail = [TailLoad(1.0, 1.0), TailLoad(3.0, 3.0)]
    before = JoinPlan({5: grid_of([0, 1], 1)})
    plan = plan_join([], tail, 2, before=before)
    assert plan == NO_PLAN
    assert plan.imbalance == pytest.approx(0.8)


def test_a_plan_that_brings_little_leaves_the_old_one():
    tail = [TailLoad(25.0, 25.0)] * 4
    before = plan_join([KeyLoad(13, 100.0, 100.0)], tail, 4)
    assert plan_join([KeyLoad(13, 90.0, 110.0)], tail, 4, before=before) is before
    assert "stays" in explain_plan(before, before)[0]


def test_a_plan_that_brings_much_replaces_the_old_one():
    tail = [TailLoad(25.0, 25.0)] * 4
    before = plan_join([KeyLoad(13, 100.0, 100.0)], tail, 4)
    after = plan_join([KeyLoad(14, 100.0, 100.0)], tail, 4, before=before)
    assert set(after.grids) == {14}
    assert explain_plan(after, before)[-1] == (
        "Since the last plan 1 keys came in, 1 went back to the hash, 0 changed."
    )


@pytest.mark.parametrize(("how", "partitions"), [("left", 4), ("inner", 3)])
def test_an_old_plan_for_another_join_is_not_kept(how, partitions):
    before = plan_join([KeyLoad(13, 100.0, 100.0)], [TailLoad(25.0, 25.0)] * 4, 4)
    plan = plan_join(
        [KeyLoad(13, 100.0, 100.0)], [TailLoad(25.0, 25.0)] * partitions, partitions, how=how, before=before
    )
    assert plan is not before
    assert plan.grids[13] != before.grids[13]


def test_another_default_partition_is_respected():
    loads = [KeyLoad(key, 10.0, 10.0) for key in range(4)]
    tail = [TailLoad(10.0, 10.0)] * 4
    assert plan_join(loads, tail, 4) == NO_PLAN
    crowded = plan_join(loads, tail, 4, default_partition=lambda key: 0)
    assert sorted(grid.cells[0] for grid in crowded.grids.values()) == [1, 2, 3]


def test_keys_beyond_the_cap_are_left_to_the_hash():
    loads = [KeyLoad(8 * n, 100.0 - n, 100.0) for n in range(20)]
    plan = plan_join(loads, [TailLoad(0.0, 0.0)] * 8, 8, JoinSettings(max_keys=5))
    assert set(plan.grids) <= {load.key for load in loads[:5]}
    assert plan.grids


def test_the_same_plan_is_judged_for_another_window():
    tail = [TailLoad(25.0, 25.0)] * 4
    plan = plan_join([KeyLoad(13, 100.0, 100.0)], tail, 4)
    later = predict(plan, [KeyLoad(14, 100.0, 100.0)], tail)
    assert later == plan
    assert later.imbalance > 2
    assert later.replication == 1


def test_rows_on_one_side_only_need_no_plan():
    assert plan_join([KeyLoad(1, 100.0, 0.0), KeyLoad(2, 50.0, 0.0)], [TailLoad(0.0, 0.0)] * 4, 4) == NO_PLAN


@pytest.mark.parametrize(
    ("hot", "tail", "how", "message"),
    [
        ([KeyLoad(1, 1.0, 1.0)] * 2, [TailLoad(0.0, 0.0)] * 4, "inner", "holds a key twice"),
        ([], [TailLoad(0.0, 0.0)] * 3, "inner", "3 entries for 4 partitions"),
        ([], [TailLoad(0.0, 0.0)] * 4, "outer", "Give one of inner, left"),
    ],
)
def test_what_makes_no_sense_is_refused(hot, tail, how, message):
    with pytest.raises(ModelError, match=message):
        plan_join(hot, tail, 4, how=how)


def test_explanations_name_what_is_split_and_what_it_costs():
    loads = counted(hashes(1000), *(2 * [10_000 * zipf(1000, 2.0)]))
    lines = explain_plan(planned(loads, 8, BALANCED))
    assert "into 4 x 2" in lines[0] or "into 3 x 2" in lines[0]
    assert "in one piece" in lines[1]
    assert "stored rows for each that arrives" in lines[2]
    assert explain_plan(NO_PLAN)[0] == "All keys go where the hash puts them."
