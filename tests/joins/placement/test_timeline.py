import json
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import JoinPlanError, PastHardEndError, PlanFormatError
from foretide.joins.placement.salts import TAIL, key_grid, salt_grid
from foretide.joins.placement.spec import JoinBound
from foretide.joins.placement.timeline import BEGINNING, FOREVER, FORMAT, Timeline, Version, from_json, to_json
from foretide.joins.plan import JoinPlan, KeyGrid
from joins.placement.reference_cells import left_cells, matches, right_cells

KEY = -7


def a_grid(rows, columns, first_salt):
    return tuple(tuple(range(first_salt + row * columns, first_salt + (row + 1) * columns)) for row in range(rows))


@st.composite
def timelines(draw, columns=3):
    """A few versions of one key, the tail among them, with or without a hard end."""
    timeline, start, salt = Timeline(), 0, 1
    for _ in range(draw(st.integers(0, 4))):
        start += draw(st.integers(1, 8))
        grid = a_grid(draw(st.integers(1, 3)), draw(st.integers(1, columns)), salt)
        salt += 9
        timeline = timeline.continued({KEY: draw(st.sampled_from([grid, TAIL]))}, start)
    return timeline.with_hard_end({KEY}, start + draw(st.integers(1, 20))) if draw(st.booleans()) else timeline


@st.composite
def bounds(draw):
    before = draw(st.integers(-4, 6))
    return JoinBound(before, draw(st.integers(-before, 8)))


@settings(deadline=None)
@given(timelines(), bounds(), st.lists(st.tuples(st.integers(-9, 45), st.integers(-9, 9)), min_size=2, max_size=8))
def test_each_pair_within_the_bound_meets_in_exactly_one_cell_unless_its_batch_fails(timeline, bound, tuples):
    hard_end = timeline.hard_ends.get(KEY, FOREVER)
    for (left_time, left_row), (right_time, right_row) in product(tuples, tuples):
        if max(left_time, bound.left_times(right_time)[1]) >= hard_end:
            continue
        left = Counter(left_cells(timeline, KEY, left_row, left_time))
        right = Counter(right_cells(timeline, KEY, right_row, right_time, bound))
        assert left
        assert set(left.values()) == set(right.values()) == {1}
        if matches(bound, left_time, right_time):
            assert len(left & right) == 1


@settings(deadline=None)
@given(timelines(columns=1), st.integers(-9, 9), st.integers(-9, 45))
def test_with_one_column_a_left_tuple_is_in_exactly_one_cell(timeline, row_hash, time):
    if time < timeline.hard_ends.get(KEY, FOREVER):
        assert len(left_cells(timeline, KEY, row_hash, time)) == 1


def test_a_left_join_refuses_grids_of_several_columns():
    JoinBound(1, 1, "left").check(KEY, ((1,), (2,)))
    JoinBound(1, 1, "inner").check(KEY, ((1, 2),))
    with pytest.raises(JoinPlanError, match="one cell only"):
        JoinBound(1, 1, "left").check(KEY, ((1, 2),))


@pytest.mark.parametrize(("before", "after", "how"), [(1, -2, "inner"), (1, 1, "right"), (1, 1, "full")])
def test_a_join_that_cannot_be_exact_is_refused(before, after, how):
    with pytest.raises(JoinPlanError):
        JoinBound(before, after, how)


def test_a_key_without_a_plan_is_in_the_tail_for_all_time():
    timeline = Timeline().continued({KEY: ((1,),)}, 5)
    assert left_cells(timeline, 3, 99, FOREVER - 9) == right_cells(timeline, 3, 99, 5, JoinBound(2, 2)) == (0,)


def test_tuples_that_reach_a_hard_end_are_refused_and_all_others_placed():
    timeline = Timeline().with_hard_end({KEY}, 100)
    bound = JoinBound(before=5, after=9)
    assert left_cells(timeline, KEY, 1, 99) == right_cells(timeline, KEY, 1, 94, bound) == (0,)
    with pytest.raises(PastHardEndError):
        left_cells(timeline, KEY, 1, 100)
    with pytest.raises(PastHardEndError) as raised:
        right_cells(timeline, KEY, 1, 95, bound)
    assert (raised.value.key_hash, raised.value.reached, raised.value.hard_end) == (KEY, 100, 100)


@settings(deadline=None)
@given(timelines(), bounds(), st.integers(-9, 45), st.integers(-5, 5))
def test_what_is_forgotten_matters_to_no_tuple_that_is_not_late(timeline, bound, watermark, row_hash):
    pruned = timeline.without_before(watermark - bound.retention)
    for time in range(watermark + 1, watermark + 20):
        for place in (left_cells, lambda *asked: right_cells(*asked, bound)):
            try:
                expected = place(timeline, KEY, row_hash, time)
            except PastHardEndError:
                continue
            assert place(pruned, KEY, row_hash, time) == expected


def test_a_key_that_went_back_to_the_tail_is_dropped_in_the_end():
    timeline = Timeline().continued({KEY: ((1, 2),)}, 5).continued({KEY: TAIL}, 9)
    assert timeline.without_before(4) is timeline
    assert timeline.without_before(5).versions(KEY)[0] == Version(BEGINNING, 9, ((1, 2),))
    assert timeline.without_before(9).plans == {}


def test_rolling_back_leaves_the_plan_without_hard_ends():
    timeline = Timeline().continued({KEY: ((1,),)}, 5)
    hardened = timeline.with_hard_end({KEY, 8}, 50)
    assert hardened.hard_ends == {KEY: 50, 8: 50}
    assert hardened.without_hard_ends().versions(KEY) == timeline.versions(KEY)
    assert hardened.without_hard_ends().versions(8) == timeline.versions(8)
    assert [timeline.version, hardened.version, hardened.without_hard_ends().version] == [1, 2, 3]


def test_a_plan_becomes_salts_that_land_on_its_partitions():
    wanted = KeyGrid(((0, 5, 2), (7, 0, 1)))
    assert key_grid(KEY, salt_grid(KEY, wanted, 8, range(50)), 8) == wanted
    timeline = Timeline().continued({KEY: ((1, 2),), 3: ((4,),)}, 5)
    plan = JoinPlan({KEY: wanted, 9: KeyGrid(((6,),))})
    salts = timeline.salts_of(plan, 8)
    assert salts[3] == TAIL, "the plan does not name it"
    assert timeline.plan(8, salts) == plan
    assert timeline.continued(salts, 7).plan(8) == plan


def test_a_key_that_stays_where_it_is_keeps_its_salts_and_new_ones_take_none_that_are_remembered():
    timeline = Timeline().continued({KEY: ((1, 2),)}, 5)
    assert timeline.salts_of(timeline.plan(8), 8) == {KEY: ((1, 2),)}
    moved = timeline.salts_of(JoinPlan({KEY: KeyGrid(((0, 1),))}), 8)[KEY]
    assert not timeline.taken(KEY) & {salt for row in moved for salt in row}


def test_the_partitions_of_a_plan_follow_from_how_many_there_are():
    timeline = Timeline().continued({KEY: ((1, 2),)}, 5)
    assert max(timeline.plan(64).grids[KEY].cells) > 3
    assert timeline.plan(4).grids[KEY] == key_grid(KEY, ((1, 2),), 4)


def versions(*stretches):
    return Timeline(1, {KEY: tuple(Version(*stretch) for stretch in stretches)})


@pytest.mark.parametrize(
    ("stretches", "reason"),
    [
        ([], "beginning of time"),
        ([(0, FOREVER, TAIL)], "beginning of time"),
        ([(BEGINNING, 5, TAIL), (6, FOREVER, TAIL)], "without a gap"),
        ([(BEGINNING, 5, TAIL), (5, 5, TAIL)], "ends before it starts"),
        ([(BEGINNING, FOREVER, ())], "empty"),
        ([(BEGINNING, FOREVER, ((),))], "empty"),
        ([(BEGINNING, FOREVER, ((1, 2), (3,)))], "differ in length"),
        ([(BEGINNING, FOREVER, ((1,), (1,)))], "a salt twice"),
        ([(BEGINNING, FOREVER, ((1, 0),))], "only the tail"),
        ([(BEGINNING, FOREVER, ((2**31,),))], "not a 32-bit"),
        ([(BEGINNING, 5, ((1, 2),)), (5, FOREVER, ((2,),))], "use salt 2"),
    ],
)
def test_versions_that_would_not_be_exact_are_refused(stretches, reason):
    with pytest.raises(JoinPlanError, match=reason):
        versions(*stretches)


@settings(deadline=None)
@given(timelines())
def test_a_timeline_comes_back_from_its_file_as_it_was(timeline):
    assert from_json(to_json(timeline)) == timeline


def test_every_truncation_of_a_file_is_refused():
    text = to_json(Timeline().continued({KEY: ((1, 2),)}, 5))
    for length in range(len(text)):
        with pytest.raises(PlanFormatError, match="put the last good file back"):
            from_json(text[:length])


@pytest.mark.parametrize("text", ["[" * 100_000, '{"version": ' + "9" * 5000 + "}", "\\ud800"])
def test_a_file_that_no_parser_takes_is_refused(text):
    with pytest.raises(PlanFormatError):
        from_json(text)


def entry(**changes):
    return {"key": 7, "versions": [{"start": BEGINNING, "end": FOREVER, "rows": [[1]]} | changes]}


@pytest.mark.parametrize(
    "changes",
    [
        {"format": FORMAT + 1},
        {"version": 1.5},
        {"version": None},
        {"version": -1},
        {"version": 2**63},
        {"plan": None},
        {"plan": {"7": []}},
        {"plan": [{"key": "7", "versions": []}]},
        {"plan": [{"key": 2**31, "versions": entry()["versions"]}]},
        {"plan": [entry(), entry()]},
        {"plan": [entry(start=True)]},
        {"plan": [entry(end=FOREVER + 1)]},
        {"plan": [entry(rows=[[1.0]])]},
        {"plan": [entry(rows=[[None]])]},
        {"plan": [entry(rows=[7])]},
        {"plan": [entry(rows="ab")]},
    ],
)
def test_a_damaged_file_is_refused(changes):
    sound = {"format": FORMAT, "version": 3, "plan": [entry()]}
    assert from_json(json.dumps(sound)).versions(7) == (Version(BEGINNING, FOREVER, ((1,),)),)
    with pytest.raises(PlanFormatError):
        from_json(json.dumps(sound | changes))
