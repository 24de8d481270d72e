"""Grids, loads, settings, and Algorithms 1 and 2 of Aj-Stream with what had to be mended in them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import ModelError, SettingsError
from foretide.joins.plan import (
    NO_PLAN,
    JoinPlan,
    KeyGrid,
    KeyLoad,
    TailLoad,
    grid_of,
    imbalance,
)
from foretide.joins.planning.grid_shapes import cell_rows, copies, ladder, shape_for
from foretide.joins.planning.paper import candidate_keys, paper_grids, splits
from foretide.joins.settings import JoinSettings, ScalingSettings, WindowSettings
from joins.planning.rivals import (
    bistream_groups,
    choose_by_forecast,
    choose_by_last_window,
    choose_reactive,
    contrand_groups,
    fill_groups,
)

EVEN = [TailLoad(10.0, 10.0)] * 8
loads = st.builds(KeyLoad, st.just(1), st.floats(0.1, 1e6), st.floats(0.1, 1e6))


def default_partition(key):
    return key % 8


def test_imbalance_is_that_of_eq_2():
    assert imbalance([4.0, 1.0, 1.0]) == pytest.approx(1.0)
    assert imbalance([2.0] * 5) == 0
    assert imbalance([]) == imbalance([0.0, 0.0]) == 0


def test_every_pair_of_rows_meets_in_exactly_one_cell():
    grid = grid_of([5, 2, 7, 1, 0, 3], 3)
    for row in range(2):
        for column in range(3):
            assert len(set(grid.rows[row]) & {each[column] for each in grid.rows}) == 1


@pytest.mark.parametrize("rows", [(), ((),), ((1, 2), (3,)), ((-1,),)])
def test_a_grid_that_is_none_is_refused(rows):
    with pytest.raises(ModelError, match="rows of one length"):
        KeyGrid(rows)


@pytest.mark.parametrize("rows", [-1.0, math.nan, math.inf])
def test_rows_that_are_no_number_of_rows_are_refused(rows):
    with pytest.raises(ModelError, match="0 or more"):
        KeyLoad(1, rows, 1.0)
    with pytest.raises(ModelError, match="0 or more"):
        TailLoad(1.0, rows)


@given(loads, st.integers(1, 40))
def test_a_shape_has_about_as_many_cells_as_asked_for(load, cells):
    rows, columns = shape_for(load, cells, "inner")
    assert 0.75 * cells <= rows * columns <= cells
    assert copies(load, (rows, columns)) <= copies(load, (cells, 1))
    assert shape_for(load, cells, "left") == (cells, 1)


@given(loads, st.integers(1, 30), st.sampled_from(["inner", "left"]))
def test_each_rung_of_a_ladder_is_finer_and_its_cells_are_smaller(load, most, how):
    rungs = ladder(load, most, how)
    assert rungs[0] == (1, 1)
    cells = [rows * columns for rows, columns in rungs]
    assert cells == sorted(set(cells))
    assert cells[-1] <= most
    sizes = [cell_rows(load, shape) for shape in rungs]
    assert sizes == sorted(sizes, reverse=True)
    assert how == "inner" or all(columns == 1 for _, columns in rungs)


def test_algorithm_1_takes_the_most_frequent_keys_of_an_empty_table():
    forecast = [KeyLoad(key, float(key), 0.0) for key in range(1, 9)]
    assert [load.key for load in candidate_keys(forecast, (), JoinSettings(max_keys=3))] == [8, 7, 6]


def test_algorithm_1_never_fills_the_table_beyond_its_cap():
    forecast = [KeyLoad(key, float(key), 0.0) for key in range(1, 9)]
    assert [load.key for load in candidate_keys(forecast, {8, 1}, JoinSettings(max_keys=3))] == [7]
    assert candidate_keys(forecast, {8, 1, 2, 3}, JoinSettings(max_keys=3)) == []


def test_eq_12_counts_rows_that_fit_and_caps_the_keys_only_if_it_is_less():
    assert JoinSettings(memory=1.0, tuple_bytes=1 << 10, theta_l=0.5).room == 512
    assert JoinSettings(memory=1.0, tuple_bytes=1 << 18, theta_l=0.5).candidates == 2
    assert JoinSettings(max_keys=77).candidates == 77


def test_eq_13_counts_the_instances_that_a_key_fills():
    assert splits(KeyLoad(1, 50.0, 50.0), 200.0, 8) == 4
    assert splits(KeyLoad(1, 12.0, 12.0), 200.0, 8) == 0
    assert splits(KeyLoad(1, 0.0, 0.0), 0.0, 8) == 0


def test_algorithm_2_leaves_a_key_that_fills_no_instance_to_the_hash():
    hot = [KeyLoad(1, 100.0, 100.0), KeyLoad(2, 3.0, 3.0)]
    assert set(paper_grids(hot, EVEN, JoinSettings(), NO_PLAN, "inner", default_partition)) == {1}


def test_algorithm_2_puts_splits_on_the_least_loaded_instances():
    tail = [TailLoad(10.0 + at, 10.0) for at in range(8)]
    [grid] = paper_grids([KeyLoad(1, 100.0, 100.0)], tail, JoinSettings(), NO_PLAN, "inner", default_partition).values()
    assert grid.cells == (0, 1, 2, 3)


def test_algorithm_2_passes_over_an_instance_without_room():
    settings = JoinSettings(memory=1.0, tuple_bytes=0.8 * (1 << 20) / 160)  # room for 160 rows
    tail = [TailLoad(0.0, 90.0), *[TailLoad(10.0, 10.0)] * 7]
    [grid] = paper_grids([KeyLoad(1, 100.0, 100.0)], tail, settings, NO_PLAN, "inner", default_partition).values()
    assert 0 not in grid.cells


def test_algorithm_2_goes_on_after_a_key_that_stays_the_same():
    before = JoinPlan({1: grid_of([7, 6], 1), 2: grid_of([5, 4], 1)})
    hot = [KeyLoad(1, 100.0, 100.0), KeyLoad(2, 200.0, 200.0)]
    grids = paper_grids(hot, EVEN, JoinSettings(), before, "inner", default_partition)
    assert grids[1] == before.grids[1]
    assert len(grids[2].cells) > 2


def test_an_update_moves_only_the_change_in_the_number_of_splits():
    before = JoinPlan({1: grid_of([7, 6], 1)})
    more = paper_grids([KeyLoad(1, 100.0, 100.0)], EVEN, JoinSettings(), before, "inner", default_partition)[1]
    assert more.cells[:2] == (7, 6)
    assert len(more.cells) == 4
    less = paper_grids([KeyLoad(1, 25.0, 25.0)], EVEN, JoinSettings(), before, "inner", default_partition)[1]
    assert less.cells == (7,)
    assert paper_grids([KeyLoad(1, 1.0, 1.0)], EVEN, JoinSettings(), before, "inner", default_partition) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"theta_l": 1.0},
        {"variant": "best"},
        {"max_keys": 0},
        {"memory": math.inf},
        {"target": 0.0},
        {"min_gain": -1.0},
    ],
)
def test_settings_out_of_bounds_are_refused(wrong):
    with pytest.raises(SettingsError, match=rf"hot_keys.planning.{next(iter(wrong))} must be"):
        JoinSettings(**wrong)


@pytest.mark.parametrize("wrong", [{"window": 0.0}, {"advance": 31.0}, {"advance": 0.0}, {"offset": -1.0}])
def test_windows_out_of_bounds_are_refused(wrong):
    with pytest.raises(SettingsError, match=f"hot_keys.windows.{next(iter(wrong))} must be"):
        WindowSettings(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"theta": 1.0}, {"max_units": 0.5}, {"idle": 0.9}, {"cores_unit": -1.0}, {"max_units_per_step": 0.0}]
)
def test_settings_of_scaling_out_of_bounds_are_refused(wrong):
    with pytest.raises(SettingsError, match=f"hot_keys.scaling.{next(iter(wrong))} must be"):
        ScalingSettings(**wrong)


def test_bistream_balances_whatever_the_skew_by_copying_one_side_everywhere():
    filling = fill_groups(bistream_groups(8), [KeyLoad(1, 900.0, 900.0), KeyLoad(2, 100.0, 100.0)], EVEN)
    assert imbalance(filling.loads()) == pytest.approx(0)
    assert filling.rows() / 2160 == pytest.approx((1 + 8) / 2)


def test_contrand_copies_less_and_balances_less():
    filling = fill_groups(contrand_groups(8), [KeyLoad(1, 900.0, 900.0), KeyLoad(2, 100.0, 100.0)], EVEN)
    assert imbalance(filling.loads()) > 0.5
    assert filling.rows() / 2160 == pytest.approx((1 + 4) / 2)


@pytest.mark.parametrize("partitions", [1, 2, 7, 24])
def test_subgroups_cover_all_partitions_once(partitions):
    cells = [cell for grid in contrand_groups(partitions) for cell in grid.cells]
    assert sorted(cells) == list(range(partitions))


def test_a_reactive_choice_waits_until_the_imbalance_was_felt():
    last = [KeyLoad(1, 5.0, 5.0), KeyLoad(2, 9.0, 9.0)]
    settings = JoinSettings(max_keys=1, reactive_above=0.3)
    assert choose_reactive(last, 0.3, settings) is None
    assert choose_reactive(last, 0.31, settings) == choose_by_last_window(last, settings) == [last[1]]


def test_a_forecast_gives_rows_of_both_sides():
    found = choose_by_forecast({1: 0.2, 2: 0.5}, {1: 0.1, 3: 0.9}, 1000.0, 10.0, JoinSettings())
    assert found == [KeyLoad(2, 500.0, 0.0), KeyLoad(1, 200.0, 1.0), KeyLoad(3, 0.0, 9.0)]
