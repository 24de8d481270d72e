import pytest

from foretide.control_folder.folder import ROUTES, ControlFolder
from foretide.control_folder.orders import HeldOrder
from foretide.metrics.batch import BatchReport, EdgeFlow
from foretide.runtime.pipeline.listeners import LoadAwareBalance
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import LoadAware, Shuffle
from foretide.topology.sources import Rate
from helpers import NO_SPACE, FullDisk


def work(frame):
    return frame


def topology(*groupings):
    bolts = [Bolt(f"b{number}", work, [From("lines", grouping)]) for number, grouping in enumerate(groupings)]
    return Topology("app", [Spout("lines", Rate(1))], bolts)


@pytest.fixture
def folder(tmp_path):
    made = ControlFolder(str(tmp_path))
    made.change_routes(lambda table: table.declare("parse", pool=3))
    return made


@pytest.fixture
def balance(folder):
    return LoadAwareBalance({"parse": 30.0}, folder)


def report(finished, rows, busy, edge="parse"):
    total = sum(rows)
    return BatchReport(0, finished, 1.0, total, 1, {edge: EdgeFlow(total, total, 1, rows, busy)})


def interval(balance, folder, rows, busy, begin=0.0):
    """One interval in three batches that together showed `rows` and `busy`."""
    third = lambda values: tuple(value // 3 for value in values)
    rest = lambda values: tuple(value - 2 * (value // 3) for value in values)
    balance.see(report(begin, third(rows), third(busy)), [])
    balance.see(report(begin + 10, third(rows), third(busy)), [])
    balance.see(report(begin + 30, rest(rows), rest(busy)), [])
    return folder.routes().edges["parse"].counts


def test_a_replica_that_is_half_as_fast_gets_half_as_much(balance, folder):
    counts = interval(balance, folder, (3000, 3000, 3000), (3000, 6000, 3000))
    assert counts == pytest.approx((410, 205, 410), abs=1)
    assert sum(counts) == 1024


def test_an_edge_that_a_person_has_set_keeps_its_split(balance, folder):
    before = folder.routes()
    folder.orders.hold("edge parse", HeldOrder("me@here", 0.0, "split 1:1:1"))
    interval(balance, folder, (3000, 3000, 3000), (3000, 6000, 3000))
    assert folder.routes() == before


def test_equally_fast_replicas_keep_their_split_and_nothing_is_published(balance, folder):
    before = folder.routes()
    interval(balance, folder, (3000, 3000, 3000), (3000, 3100, 2950))
    assert folder.routes() == before


def test_a_split_that_is_right_already_is_not_published_again(balance, folder):
    interval(balance, folder, (3000, 3000, 3000), (3000, 6000, 3000))
    before = folder.routes()
    interval(balance, folder, (3600, 1800, 3600), (3600, 3600, 3600), begin=60.0)
    assert folder.routes() == before


def test_nothing_is_published_before_the_interval_is_over(balance, folder):
    for finished in (0.0, 10.0, 29.9):
        balance.see(report(finished, (100, 100, 100), (100, 900, 100)), [])
    assert folder.routes().version == 1


def test_the_next_interval_is_as_long_as_the_first(balance, folder):
    interval(balance, folder, (3000, 3000, 3000), (3000, 6000, 3000))
    before = folder.routes()
    balance.see(report(59.9, (3000, 3000, 3000), (9000, 3000, 3000)), [])
    assert folder.routes() == before
    balance.see(report(60.0, (3000, 3000, 3000), (9000, 3000, 3000)), [])
    assert folder.routes().edges["parse"].counts[0] < before.edges["parse"].counts[0]


def test_each_interval_begins_with_a_clean_sheet(balance, folder):
    interval(balance, folder, (3000, 3000, 3000), (3000, 6000, 3000))
    counts = interval(balance, folder, (3600, 1800, 3600), (3600, 1800, 3600), begin=60.0)
    assert counts == pytest.approx((341, 341, 341), abs=1)


def test_a_task_that_was_taken_out_stays_out(balance, folder):
    folder.change_routes(lambda table: table.split("parse", [1, 1, 0]))
    counts = interval(balance, folder, (3000, 3000, 0), (3000, 6000, 0))
    assert counts[2] == 0
    assert counts[0] > counts[1] > 0


def test_a_replica_that_happened_to_get_no_rows_keeps_a_share(balance, folder):
    counts = interval(balance, folder, (3, 9, 0), (30, 30, 0))
    assert min(counts) > 0


def test_a_replica_too_fast_for_the_clock_does_not_take_everything(balance, folder):
    counts = interval(balance, folder, (3, 3, 3), (0, 1, 2))
    assert min(counts) > 0


def test_an_interval_without_rows_changes_nothing(balance, folder):
    interval(balance, folder, (0, 0, 0), (3, 9, 6))
    assert folder.routes().version == 1


@pytest.mark.parametrize(
    "edges", [None, {}, {"other": EdgeFlow(9, 9, 1, (9, 0, 0), (9, 9, 9))}, {"parse": EdgeFlow(9, 9)}]
)
def test_batches_that_show_nothing_of_the_tasks_change_nothing(balance, folder, edges):
    for finished in (0.0, 40.0, 80.0):
        balance.see(BatchReport(0, finished, 1.0, 9, 1, edges), [])
    assert folder.routes().version == 1


def test_an_unreadable_table_is_left_to_others(balance, folder, tmp_path):
    (tmp_path / ROUTES).write_text("{")
    balance.see(report(0.0, (3000, 3000, 3000), (3000, 6000, 3000)), [])
    balance.see(report(30.0, (3000, 3000, 3000), (3000, 6000, 3000)), [])
    assert (tmp_path / ROUTES).read_text() == "{"


@pytest.mark.parametrize(("mode", "seconds"), [("real-time", 1.0), ("micro-batch", 30.0)])
def test_by_default_an_edge_is_split_every_second_in_real_time_and_every_half_minute_in_batches(folder, mode, seconds):
    made = LoadAwareBalance.of(topology(LoadAware()), folder, mode)
    folder.change_routes(lambda table: table.declare("b0", pool=3))
    before = folder.routes()
    for finished in (0.0, 0.9 * seconds):
        made.see(report(finished, (100, 100, 100), (100, 900, 100), "b0"), [])
    assert folder.routes() == before
    made.see(report(seconds, (100, 100, 100), (100, 900, 100), "b0"), [])
    assert folder.routes().edges["b0"].counts[1] < 100


def test_only_load_aware_edges_are_balanced(folder):
    assert LoadAwareBalance.of(topology(Shuffle(), Shuffle()), folder, "micro-batch") is None
    made = LoadAwareBalance.of(topology(Shuffle(), LoadAware(interval=5.0)), folder, "micro-batch")
    folder.change_routes(lambda table: table.declare("b0", pool=3).declare("b1", pool=3))
    for finished in (0.0, 5.0):
        for edge in ("b0", "b1"):
            made.see(report(finished, (100, 100, 100), (100, 900, 100), edge), [])
    edges = folder.routes().edges
    assert edges["b0"].counts == (342, 341, 341)
    assert edges["b1"].counts[1] < 100


def test_a_control_loop_does_it_instead_while_it_runs(balance, folder):
    balance.pause()
    before = folder.routes()
    interval(balance, folder, (3000, 3000, 3000), (3000, 6000, 3000))
    assert folder.routes() == before
    balance.resume()
    assert interval(balance, folder, (3000, 3000, 3000), (3000, 6000, 3000), begin=60.0)[1] < 250


def test_after_a_restart_with_another_pool_the_edge_is_measured_anew(balance, folder):
    balance.see(report(0.0, (3000, 3000, 3000), (3000, 9000, 3000)), [])
    folder.change_routes(lambda table: table.declare("parse", pool=4))
    balance.see(BatchReport(1, 29.0, 1.0, 100, 1, None), [])  # nothing is known of the first batch after it
    even = folder.routes().edges["parse"].counts
    balance.see(BatchReport(1, 31.0, 1.0, 100, 1, None), [])  # the interval ends: what is known is of the old pool
    assert folder.routes().edges["parse"].counts == even
    counts = interval(balance, folder, (3000,) * 4, (3000, 3000, 3000, 6000), begin=40.0)
    assert counts == pytest.approx((293, 293, 293, 146), abs=1)


def test_the_interval_begins_anew_with_the_first_batch_of_another_pool(balance, folder):
    balance.see(report(0.0, (3000, 3000, 3000), (3000, 3000, 3000)), [])
    even = folder.change_routes(lambda table: table.declare("parse", pool=4)).edges["parse"].counts
    balance.see(report(29.0, (10,) * 4, (10, 10, 10, 90)), [])
    balance.see(report(31.0, (10,) * 4, (10, 10, 10, 90)), [])
    assert folder.routes().edges["parse"].counts == even
    balance.see(report(59.0, (10,) * 4, (10, 10, 10, 90)), [])
    assert folder.routes().edges["parse"].counts != even


def test_a_folder_that_cannot_be_written_keeps_its_routes_and_raises_nothing(tmp_path):
    disk = FullDisk(tmp_path)
    folder = ControlFolder(str(tmp_path), disk)
    before = folder.change_routes(lambda table: table.declare("parse", pool=3))
    disk.error = NO_SPACE
    interval(LoadAwareBalance({"parse": 30.0}, folder), folder, (3000, 3000, 3000), (3000, 6000, 3000))
    assert folder.routes() == before
