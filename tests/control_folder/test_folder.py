import pytest

from foretide.control.world.setup import Target
from foretide.control_folder.facts import FACTS
from foretide.control_folder.filesystem import LocalFilesystem
from foretide.control_folder.folder import (
    CONTROL,
    JOINS,
    ROUTES,
    ROUTES_COPY,
    STATUS,
    ControlFolder,
    ControlStatus,
    DecisionSummary,
    PipelineStatus,
)
from foretide.control_folder.orders import ADMISSION, DRAINED, STOP, TARGET, RestartOrder, TargetOrder, new_order_id
from foretide.errors import ControlFolderError, DamagedFileError, PlanFormatError, RouteError
from foretide.joins.placement.spec import JoinBound, JoinSpec
from foretide.metrics.batch import EdgeFlow
from foretide.routing.table import RouteTable


class InMemory:
    """A publication for tests: what was written, and how often."""

    def __init__(self):
        self.files, self.writes, self.locked, self.durable = {}, [], False, set()

    def read(self, name):
        return self.files.get(name)

    def write(self, name, text, *, durable=True):
        self.writes.append(name)
        self.files[name] = text
        self.durable |= {name} if durable else set()

    def lock(self, seconds=5.0):
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
    assert files.writes == [ROUTES, ROUTES_COPY]
    assert not files.locked


def test_a_change_that_changes_nothing_is_not_written_again(folder, files):
    folder.change_routes(declare)
    folder.change_routes(declare)
    assert files.writes == [ROUTES, ROUTES_COPY]


def test_routes_and_status_do_not_wait_for_the_disk_and_orders_and_plans_do(folder, files):
    folder.change_routes(declare)
    folder.status.write(PipelineStatus(1, 2.0, 3))
    assert not files.durable
    folder.orders.limit_admission("lines", 100)
    folder.declare_join("one", SPEC)
    assert files.durable == {ADMISSION, JOINS}


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
        '{"lines": 9223372036854775808}',
        "\x00\x01",
    ],
)
def test_garbage_for_limits_is_an_error_and_stays_where_it_is(folder, files, garbage):
    files.files[ADMISSION] = garbage
    with pytest.raises(DamagedFileError, match=r"admission\.json.*delete it, and give the orders again"):
        folder.orders.admission()
    with pytest.raises(DamagedFileError):
        folder.orders.limit_admission("events", 7)
    assert files.files[ADMISSION] == garbage


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
def test_a_damaged_status_is_not_taken_for_none(folder, files, damaged):
    files.files[STATUS] = files.files[CONTROL] = files.files[FACTS] = damaged
    for read in (folder.status.pipeline, folder.status.control, folder.status.facts):
        with pytest.raises(DamagedFileError, match=r"\.json' is damaged, or was written by another version"):
            read()


def test_changes_of_the_target_add_up_and_the_later_one_wins(folder):
    before = Target(2.0, 0.5, "p95", budget=4)
    assert folder.orders.target().apply(before) == before
    folder.orders.set_target(TargetOrder(latency=5.0))
    folder.orders.set_target(TargetOrder(quantile="p50", budget="none"))
    assert folder.orders.target().apply(before) == Target(5.0, 0.5, "p50", budget=None)
    folder.orders.set_target(TargetOrder(latency="none", budget=1))
    assert folder.orders.target().apply(before) == Target(None, 0.5, "p50", budget=1)


def test_orders_that_cannot_be_read_are_not_replaced_by_the_next_ones(folder, files):
    files.files[TARGET], files.files[DRAINED] = '{"latency": "soon"}', '{"places": ["h1"'
    with pytest.raises(DamagedFileError, match="latency"):
        folder.orders.set_target(TargetOrder(budget=2))
    for release in (False, True):
        with pytest.raises(DamagedFileError, match="delete it"):
            folder.orders.drain("h2", release=release)
    assert (files.files[TARGET], files.files[DRAINED]) == ('{"latency": "soon"}', '{"places": ["h1"')


def test_orders_are_read_back_as_they_were_given(folder):
    assert folder.orders.restart() is None
    order = RestartOrder(new_order_id(), "more tasks", 4, {"work": 6})
    assert order.id != new_order_id()
    folder.orders.request_restart(order)
    assert folder.orders.restart() == order
    assert folder.orders.last_restarted() is None
    folder.orders.note_restarted(order.id)
    assert folder.orders.last_restarted() == order.id
    assert folder.orders.drain("host") == {"host"} == folder.orders.drained()
    assert folder.orders.drain("host", release=True) == frozenset()
    assert not folder.orders.stop_requested()
    folder.orders.request_stop()
    assert folder.orders.stop_requested()


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"stop": 3}'])
def test_a_damaged_order_to_stop_stops_nothing_and_a_new_one_replaces_it(folder, files, damaged):
    files.files[STOP] = damaged
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


SPEC = JoinSpec(JoinBound(5, 5), 4)


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"one": {"before": Infinity}}'])
def test_joins_that_cannot_be_read_are_not_forgotten_by_the_next_one(folder, files, damaged):
    files.files[JOINS] = damaged
    with pytest.raises(PlanFormatError, match=r"joins\.json"):
        folder.declare_join("two", SPEC)
    assert files.files[JOINS] == damaged


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"next_batch": "x"}'])
def test_a_damaged_past_is_an_unknown_one(folder, files, damaged):
    files.files["past-one.json"] = damaged
    assert folder.join_past("one") is None


def test_a_folder_that_waits_less_for_a_lock_is_the_same_folder(tmp_path):
    folder = ControlFolder(str(tmp_path))
    hurried = folder.waiting(0.01)
    hurried.change_routes(declare)
    assert folder.routes() == hurried.routes()
    with LocalFilesystem(tmp_path).lock(), pytest.raises(ControlFolderError, match=r"locked it for more than 0\.01 s"):
        hurried.change_routes(lambda table: table.split("parse", [3, 1]))
    assert folder.in_use
    assert not ControlFolder(str(tmp_path / "other")).in_use
