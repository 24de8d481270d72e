import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foretide.control.world.setup import Target
from foretide.control_folder.folder import ROUTES, STATUS, ControlFolder, ControlStatus, DecisionSummary, PipelineStatus
from foretide.control_folder.orders import ADMISSION, RestartOrder, TargetOrder
from foretide.errors import CodecError, ControlFolderError, RouteError
from foretide.metrics.batch import EdgeFlow
from foretide.routing.table import RouteTable


class InMemory:
    """A publication for tests: what was written, and how often."""

    def __init__(self):
        self.files, self.writes, self.locked = {}, [], False

    def read(self, name):
        return self.files.get(name)

    def write(self, name, text):
        self.writes.append(name)
        self.files[name] = text

    def lock(self):
        return self

    def __enter__(self):
        assert not self.locked
        self.locked = True

    def __exit__(self, *_):
        self.locked = False

    def url(self, name):
        return f"memory:/{name}"


@pytest.fixture
def files():
    return InMemory()


@pytest.fixture
def folder(files):
    return ControlFolder("memory", files)


def declare(table):
    return table.declare("parse", pool=2)


def test_without_a_table_the_routes_are_empty(folder):
    assert folder.routes() == RouteTable()
    assert folder.routes_url == "memory:/routes.json"


def test_a_changed_table_is_published_and_given_back(folder):
    table = folder.change_routes(declare)
    assert table.version == 1
    assert folder.routes() == table


def test_a_refused_change_leaves_the_file_as_it_was(folder, files):
    folder.change_routes(declare)
    before = dict(files.files)
    with pytest.raises(RouteError):
        folder.change_routes(lambda table: table.split("parse", [0, 0]))
    assert files.files == before
    assert files.writes == [ROUTES]
    assert not files.locked


def test_a_change_that_changes_nothing_is_not_written_again(folder, files):
    folder.change_routes(declare)
    folder.change_routes(declare)
    assert files.writes == [ROUTES]


def test_changes_are_made_under_the_lock(folder, files):
    held = []
    folder.change_routes(lambda table: held.append(files.locked) or declare(table))
    assert held == [True]
    assert not files.locked


@pytest.mark.parametrize(
    "garbage", ["", "{", "[]", '{"format": 99, "version": 1, "edges": {}}', "\N{REPLACEMENT CHARACTER}"]
)
def test_a_table_that_cannot_be_read_is_an_error_unless_it_is_repaired(folder, files, garbage):
    files.files[ROUTES] = garbage
    with pytest.raises(RouteError):
        folder.routes()
    with pytest.raises(RouteError):
        folder.change_routes(declare)
    assert files.files[ROUTES] == garbage
    assert folder.change_routes(declare, repair=True).edges["parse"].pool == 2
    assert folder.routes().edges["parse"].pool == 2


def test_repair_keeps_a_table_that_can_be_read(folder):
    folder.change_routes(lambda table: declare(table).split("parse", [3, 1]))
    assert folder.change_routes(declare, repair=True).edges["parse"].counts == (768, 256)


def test_limits_are_set_changed_and_lifted_for_each_spout(folder):
    folder.orders.limit_admission("lines", 100)
    folder.orders.limit_admission("events", 7)
    folder.orders.limit_admission("lines", 50)
    assert folder.orders.admission() == {"lines": 50, "events": 7}
    folder.orders.limit_admission("lines", None)
    folder.orders.limit_admission("never-set", None)
    assert folder.orders.admission() == {"events": 7}


@pytest.mark.parametrize("rows", [0, -1])
def test_a_limit_that_would_stop_a_spout_is_refused(folder, files, rows):
    folder.orders.limit_admission("lines", 5)
    with pytest.raises(ControlFolderError, match=f"the admission limit of 'lines' must be at least 1 row, got {rows}"):
        folder.orders.limit_admission("lines", rows)
    assert folder.orders.admission() == {"lines": 5}


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        "",
        "{",
        "[1, 2]",
        "5",
        "null",
        '{"lines": "many"}',
        '{"lines": 0}',
        '{"lines": -5}',
        '{"lines": 1.5}',
        '{"lines": true}',
        '{"lines": null}',
        '{"lines": {"rows": 3}}',
        "\x00\x01",
    ],
)
def test_garbage_for_limits_is_no_limit(folder, files, garbage):
    files.files[ADMISSION] = garbage
    assert folder.orders.admission() == {}


def test_good_limits_beside_garbage_count_and_a_new_one_clears_the_garbage(folder, files):
    files.files[ADMISSION] = '{"lines": "many", "events": 7}'
    assert folder.orders.admission() == {"events": 7}
    folder.orders.limit_admission("lines", 3)
    assert json.loads(files.files[ADMISSION]) == {"events": 7, "lines": 3}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.binary(max_size=40))
def test_no_bytes_on_the_disk_break_the_reading_of_limits_or_status(tmp_path, content):
    for name in (ADMISSION, STATUS, ROUTES):
        (tmp_path / name).write_bytes(content)
    folder = ControlFolder(str(tmp_path))
    assert all(rows > 0 for rows in folder.orders.admission().values())
    assert folder.status.pipeline() is None
    with pytest.raises(RouteError):
        folder.routes()


def test_the_status_is_what_was_last_reported(folder):
    assert (folder.status.pipeline(), folder.status.control()) == (None, None)
    batch = PipelineStatus(2, 7.5, 30, None, {"parse": EdgeFlow(30, 30, per_task=(10, 20))}, ("a row was lost",))
    folder.status.write(PipelineStatus(1, 5.0, 10))
    folder.status.write(batch)
    assert folder.status.pipeline() == batch
    loop = ControlStatus(9.0, "act", ("bypass",), Target(2.0), 3, decisions=(DecisionSummary(1, 8.0, "split"),))
    folder.status.write(loop)
    assert (folder.status.pipeline(), folder.status.control()) == (batch, loop)


@pytest.mark.parametrize("damaged", ["", "{", "[]", "5", '{"batch": "one"}', '{"batch": 1}'])
def test_a_damaged_status_counts_as_none(folder, files, damaged):
    files.files[STATUS] = damaged
    assert folder.status.pipeline() is None


def test_changes_of_the_target_add_up_and_the_later_one_wins(folder):
    before = Target(2.0, 0.5, "p95", budget=4)
    assert folder.orders.target().apply(before) == before
    folder.orders.set_target(TargetOrder(latency=5.0))
    folder.orders.set_target(TargetOrder(quantile="p50", budget="none"))
    assert folder.orders.target().apply(before) == Target(5.0, 0.5, "p50", budget=None)
    folder.orders.set_target(TargetOrder(latency="none", budget=1))
    assert folder.orders.target().apply(before) == Target(None, 0.5, "p50", budget=1)


def test_a_value_that_does_not_fit_is_named_and_replaced_by_the_next_order(folder, files):
    files.files["target.json"] = '{"latency": "soon"}'
    with pytest.raises(CodecError, match="latency"):
        folder.orders.target()
    folder.orders.set_target(TargetOrder(budget=2))
    assert folder.orders.target() == TargetOrder(budget=2)


def test_orders_are_read_back_as_they_were_given(folder):
    assert folder.orders.restart() is None
    order = RestartOrder(50.0, "more tasks", 4, {"work": 6})
    folder.orders.request_restart(order)
    assert folder.orders.restart() == order
    assert folder.orders.drain("host") == {"host"} == folder.orders.drained()
    assert folder.orders.drain("host", release=True) == frozenset()
    assert not folder.orders.stop_requested()
    folder.orders.request_stop()
    assert folder.orders.stop_requested()


def test_a_stop_is_withdrawn_only_if_there_is_one(folder, files):
    folder.orders.request_stop(stop=False)
    assert files.writes == []
    folder.orders.request_stop()
    folder.orders.request_stop(stop=False)
    assert not folder.orders.stop_requested()


def test_a_folder_on_the_disk_can_be_read_by_another(tmp_path):
    ControlFolder(str(tmp_path)).change_routes(declare)
    assert ControlFolder(f"file://{tmp_path}").routes().edges["parse"].counts == (512, 512)
