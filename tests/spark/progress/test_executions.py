import pytest

from foretide.metrics.batch import EdgeFlow
from foretide.spark.progress.executions import Executions, SparkExecutions
from foretide.spark.progress.plan_graph import Exchange, PlanGraph, Scan, SparkStage
from foretide.spark.progress.tasks import attribute, read_task, with_tasks
from foretide.topology.shape import PlanShape

RUN = "0a1b-run"


def at(stage):
    return f"total (min, med, max (stageId: taskId))\n0 ms (0 ms, 0 ms, 0 ms (stage {stage}: task 26))"


def metrics(written, read, stage, by, pool):
    return [
        {"name": "shuffle records written", "value": written},
        {"name": "records read", "value": read},
        {"name": "fetch wait time", "value": "0 ms" if stage is None else at(stage)},
        {"name": "data size", "value": "0.0 B" if by is None else at(by)},
        {"name": "number of partitions", "value": str(pool)},
    ]


def exchange(node, desc, written="0", read="0", stage=None, by=None, pool=0):
    return {
        "nodeId": node,
        "nodeName": "Exchange",
        "desc": f"Exchange {desc}",
        "metrics": metrics(written, read, stage, by, pool),
    }


def by_id(column, pool):
    return (
        f"shufflepartitionidpassthrough(direct_shuffle_partition_id({column}), {pool}), REPARTITION_BY_NUM, [plan_id=1]"
    )


def node(number, desc, name="Project"):
    return {"nodeId": number, "nodeName": name, "desc": desc, "metrics": []}


def links(*pairs):
    return [{"fromId": source, "toId": target} for source, target in pairs]


# The graph of one batch as Spark 4.3 keeps it, cut down:
# s -> parse (3) -> parse.out -> p2 (2) and sum-up (global) -> sink; t and p2 -> window, of Spark's own (4) -> sink.
NODES = [
    node(0, "Union", "Union"),
    exchange(4, "SinglePartition, REPARTITION_BY_NUM, [plan_id=483]", "257", "257", "13.0", "11.0"),
    node(6, "Project [line#0, (SPARK_PARTITION_ID() * 0) AS _ft_sum-up#25]"),
    exchange(8, by_id("_ft_parse.out#24", 3), "257", "514", "10.0", "9.0"),
    exchange(13, by_id("_ft_parse#20", 3), "1,300", "1,300", "9.1", "8.0"),
    node(15, "MicroBatchScan[line#0]", "MicroBatchScan"),
    node(16, "Subquery scalar-subquery#23", "Subquery"),
    node(17, "Scan json", "Scan json"),
    exchange(20, "hashpartitioning(window#4, 4), ENSURE_REQUIREMENTS, [plan_id=9]", "5", "5", "13.0", "12.0", pool=4),
    node(22, "Union", "Union"),
    exchange(25, by_id("_ft_p2#30", 2), "257", "257", "12.0", "10.0"),
    node(28, "MicroBatchScan[line#9]", "MicroBatchScan"),
]
EDGES = links(
    (4, 0), (6, 4), (8, 6), (13, 8), (15, 13), (16, 13), (17, 16), (20, 0), (22, 20), (25, 22), (8, 25), (28, 22)
)  # fmt: skip
SHAPE = PlanShape({"parse": ("s",), None: ("t",)}, {"p2": "window", "t": "window"})


def test_every_exchange_is_found_with_its_counts_readers_and_stages():
    assert list(PlanGraph(NODES, EDGES).exchanges.values()) == [
        Exchange("sum-up", 1, 4, EdgeFlow(257, 257, 1), (11, 0), (13, 0)),
        Exchange("parse.out", 3, 8, EdgeFlow(257, 514, 2), (9, 0), (10, 0)),
        Exchange("parse", 3, 13, EdgeFlow(1300, 1300, 1), (8, 0), (9, 1)),
        Exchange(None, 4, 20, EdgeFlow(5, 5, 1), (12, 0), (13, 0), "shuffle"),
        Exchange("p2", 2, 25, EdgeFlow(257, 257, 1), (10, 0), (12, 0)),
    ]


def test_every_stage_is_told_by_what_it_reads_and_what_it_feeds():
    graph = PlanGraph(NODES, EDGES)
    sum_up, out, parse, window, p2 = graph.exchanges.values()
    assert {stage.id: stage for stage in graph.stages((13, 0))} == {
        (8, 0): SparkStage((8, 0), ((Scan(15),),), "parse"),
        (9, 0): SparkStage((9, 0), ((parse,),), "parse.out"),
        (10, 0): SparkStage((10, 0), ((out,),), "p2"),
        (11, 0): SparkStage((11, 0), ((out,),), "sum-up"),
        (12, 0): SparkStage((12, 0), ((p2,), (Scan(28),)), None, own=True, reader="shuffle"),
        (13, 0): SparkStage((13, 0), ((sum_up,), (window,)), None),
    }


def test_a_stage_of_which_one_task_wrote_is_told_by_what_it_reads():
    nodes = [exchange(1, by_id("_ft_x#1", 2)), exchange(3, by_id("_ft_y#1", 2), stage="7.0")]
    (stage,) = PlanGraph(nodes, links((3, 1))).stages(None)
    assert (stage.id, stage.feeds) == ((7, 0), "x")


def test_a_stage_of_one_task_before_and_behind_is_told_by_elimination():
    nodes = [
        node(0, "Union", "Union"),
        exchange(2, "hashpartitioning(k#1, 4)", "5", "5", stage="9.0", pool=4),
        exchange(4, "SinglePartition, REPARTITION_BY_NUM", "30", "30", by="7.0"),
        node(6, "Project [(SPARK_PARTITION_ID() * 0) AS _ft_merge#25]"),
    ]
    edges = links((2, 0), (4, 2), (6, 4))
    assert [stage.id for stage in PlanGraph(nodes, edges).stages((9, 0))] == [(7, 0), (9, 0)]
    knowing = PlanGraph(nodes, edges, [7, 8, 9])
    assert {stage.id: stage.feeds for stage in knowing.stages((9, 0))} == {(8, 0): None, (7, 0): "merge", (9, 0): None}
    assert len(PlanGraph(nodes, edges, [6, 7, 8, 9]).stages((9, 0))) == 2  # one stage too many: nobody can tell


def test_what_a_join_reads_is_read_by_the_same_tasks():
    nodes = [
        exchange(1, by_id("_ft_x#1", 2), by="7.0"),
        node(2, "StreamingSymmetricHashJoin", "StreamingSymmetricHashJoin"),
        exchange(3, "hashpartitioning(k#1, 4)", pool=4),
        exchange(4, "hashpartitioning(k#2, 4)", pool=4),
    ]
    graph = PlanGraph(nodes, links((2, 1), (3, 2), (4, 2)))
    (stage,) = graph.stages(None)
    assert stage.parts == ((graph.exchanges[3], graph.exchanges[4]),)


def test_what_reads_an_exchange_of_sparks_own_is_called_by_what_it_does():
    nodes = [
        node(0, "HashAggregate(keys=[k#1])", "HashAggregate"),
        exchange(1, "hashpartitioning(k#1, 4)", pool=4),
        node(2, "HashAggregate(keys=[w#1])", "HashAggregate"),
        node(3, "StateStoreSave [w#1]", "StateStoreSave"),
        exchange(4, "hashpartitioning(w#1, 4)", pool=4),
        node(5, "StreamingSymmetricHashJoin", "StreamingSymmetricHashJoin"),
        exchange(6, "hashpartitioning(k#1, 4)", pool=4),
        exchange(7, "hashpartitioning(k#2, 4)", pool=4),
        exchange(8, "RoundRobinPartitioning(3)", pool=3),
    ]
    graph = PlanGraph(nodes, links((1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5), (7, 5), (8, 7)))
    assert {number: each.reader for number, each in graph.exchanges.items()} == {
        1: "aggregate-2",
        4: "aggregate",
        6: "join",
        7: "join",
        8: "shuffle",
    }


@pytest.mark.parametrize(
    ("column", "edge"),
    [
        ("_ft_parse#20", "parse"),
        ("`_ft_sum-up`#20L", "sum-up"),
        ("_ft_sum-up#3", "sum-up"),
        ("_ft_a.out#20", "a.out"),
        ("_ft__ft_x#1", "_ft_x"),
    ],
)
def test_an_edge_is_known_by_its_column_however_spark_writes_it(column, edge):
    (found,) = PlanGraph([exchange(1, by_id(column, 7))], links((1, 0))).edges
    assert (found.edge, found.pool) == (edge, 7)


@pytest.mark.parametrize(
    "foreign",
    ["hashpartitioning(word#1, 4), ENSURE_REQUIREMENTS", "SinglePartition, ENSURE_REQUIREMENTS", by_id("other#20", 3)],
)
def test_exchanges_of_sparks_own_are_no_edges(foreign):
    below = node(2, "Project [(SPARK_PARTITION_ID() * 0) AS _ft_parse#25]")
    assert PlanGraph([exchange(1, foreign), below], links((1, 0), (2, 1))).edges == []


def test_an_exchange_to_one_task_that_nobody_named_is_no_edge():
    nodes = [exchange(1, "SinglePartition, REPARTITION_BY_NUM"), node(2, "Project [a#1]")]
    assert PlanGraph(nodes, links((2, 1))).edges == []


# ---- tasks


def task(index, rows, busy=5, status="SUCCESS", source=0):
    read = {
        "shuffleReadMetrics": {"recordsRead": rows},
        "inputMetrics": {"recordsRead": source},
        "executorRunTime": busy,
    }
    return {
        "index": index,
        "status": status,
        "taskMetrics": read,
        "executorId": "1",
        "host": "h",
        "launchTime": "2026-11-15T12:22:48.218GMT",
    }


def runs(*rows, source=0):
    return [read_task(task(index, count, source=source), None) for index, count in enumerate(rows)]


def edge(name, pool, read, readers=1):
    return Exchange(name, pool, 1, EdgeFlow(read, read, readers), (1, 0), (2, 0))


def told(parts, given, feeds=None, shape=SHAPE):
    done = attribute([(SparkStage((2, 0), tuple((part,) for part in parts), feeds), given)], shape)
    return [(run.operator, run.task) for run in done]


def test_tasks_go_to_the_replicas_of_the_bolt_that_the_edge_names():
    assert told([edge("parse", 3, 60)], runs(10, 20, 30)) == [("parse", 0), ("parse", 1), ("parse", 2)]


def test_streams_that_one_stage_unites_take_their_tasks_in_the_order_of_the_plan():
    found = told([edge("first", 2, 3), edge("second", 3, 12)], runs(1, 2, 3, 4, 5))
    assert found == [("first", 0), ("first", 1), ("second", 0), ("second", 1), ("second", 2)]


def test_tasks_of_a_scan_are_those_that_are_left_and_belong_to_the_spout_that_feeds_the_edge():
    found = told([edge("other", 1, 7), Scan(9)], runs(7, 0, 0), feeds="parse")
    assert found == [("other", 0), ("s", 0), ("s", 1)]


def test_two_scans_in_one_stage_cannot_be_told_apart():
    assert told([Scan(8), Scan(9)], runs(0, 0, 0)) == [(None, None)] * 3


def test_what_reads_a_shared_exchange_only_passes_on_what_its_component_made():
    (run,) = attribute([(SparkStage((2, 0), ((edge("parse.out", 1, 9, readers=2),),), "p2"), runs(4))], SHAPE)
    assert (run.operator, run.passing, run.feeds) == ("parse", True, "p2")


def test_behind_an_exchange_of_sparks_own_works_the_stateful_bolt_after_its_writer():
    graph = PlanGraph(NODES, EDGES)
    found = {stage.id: stage for stage in graph.stages((13, 0))}
    done = attribute([(found[12, 0], runs(100, 157, 3, 4)), (found[13, 0], runs(257, 1, 2, 2, 0))], SHAPE)
    assert [run.operator for run in done] == ["p2", "p2", "t", "t", "sum-up", *["window"] * 4]
    assert [run.feeds for run in done] == [*["window"] * 4, *[None] * 5]
    assert not any(run.inner or run.later for run in done)


def test_an_exchange_of_sparks_own_inside_a_bolt_hides_no_tuple_and_counts_none_twice():
    inside = Exchange(None, 2, 5, EdgeFlow(9, 9), (2, 0), (3, 0))
    first = SparkStage((2, 0), ((edge("parse", 1, 30),),), None, own=True)
    done = attribute([(first, runs(30)), (SparkStage((3, 0), ((inside,),), None), runs(4, 5))], PlanShape())
    assert [(run.operator, run.feeds, run.inner, run.later) for run in done] == [
        ("parse", None, True, False),
        ("parse", None, False, True),
        ("parse", None, False, True),
    ]


def test_with_tasks_too_few_or_too_many_nothing_is_known():
    assert told([edge("parse", 3, 30)], runs(10, 20)) == [(None, None)] * 2
    assert told([edge("parse", 1, 30)], runs(10, 20)) == [(None, None)] * 2


def test_sums_that_disagree_with_the_edge_leave_that_edge_unknown():
    assert told([edge("a", 1, 11), edge("b", 1, 20)], runs(10, 20)) == [(None, None), ("b", 0)]


def test_rows_and_busy_time_of_an_edge_are_those_of_its_tasks():
    given = [read_task(task(index, rows, busy), None) for index, (rows, busy) in enumerate([(10, 1), (20, 2)])]
    done = attribute([(SparkStage((2, 0), ((edge("parse", 2, 30),),), None), given)], SHAPE)
    assert with_tasks(EdgeFlow(30, 30), "parse", 2, done) == EdgeFlow(30, 30, 1, (10, 20), (1, 2))
    assert with_tasks(EdgeFlow(30, 30), "parse", 3, done) == EdgeFlow(30, 30)


def test_a_task_waits_from_the_moment_its_stage_could_run():
    submitted = read_task(task(0, 1), None)
    assert submitted.waited_ms == 0
    assert read_task(task(0, 1), 1794745368.0).waited_ms == pytest.approx(218, abs=0.01)
    assert read_task(task(0, 1), 1e12).waited_ms == 0  # a clock that jumped back


# ---- the walk through Spark's list


class FakeRest:
    """Spark's answers by path; a path that was not put there is a 404."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def get(self, path):
        self.asked.append(path)
        return self.answers.get(path)

    def close(self):
        self.asked.append("close")

    def has(self, *executions):
        """From now on Spark has these executions, and no others."""
        self.answers = {path: answer for path, answer in self.answers.items() if not path.startswith("sql")}
        self.answers[ALL] = [{name: made[name] for name in LISTED_FIELDS} for made in executions]
        self.answers |= {f"sql/{made['id']}?details=true&planDescription=false": made for made in executions}

    @property
    def read(self):
        """The numbers of the executions that were read."""
        return [int(path.partition("?")[0][4:]) for path in self.asked if path.startswith("sql/")]


ALL = "sql?details=false&planDescription=false&offset=0&length=100000"
LISTED_FIELDS = ("id", "description", "submissionTime")


def rest_with(*executions, **more):
    rest = FakeRest(**more)
    rest.has(*executions)
    return rest


def executions_of(rest, run=RUN):
    return Executions(SparkExecutions(rest), run)


def execution(number, batch, run=RUN, status="COMPLETED", read="60", jobs=(5,), root=None, at=0):
    return {
        "submissionTime": f"1970-01-01T00:00:{at:02}.000GMT",
        "id": number,
        "rootExecutionId": number if root is None else root,
        "description": "select" if batch is None else f"app\nid = 77\nrunId = {run}\nbatch = {batch}",
        "status": status,
        "nodes": [node(0, "Project [a#1]"), exchange(1, by_id("_ft_parse#1", 2), "60", read, "3.0")],
        "edges": links((1, 0)),
        "successJobIds": list(jobs),
    }


DETAILS = "stages/3/0?details=true&withSummaries=false"
SUBMITTED = "2026-11-15T12:22:48.018GMT"
LISTED = {"9": task(1, 40), "7": task(0, 20), "8": task(1, 40, status="FAILED"), "6": task(0, 1, status="KILLED")}
TASKS = {"jobs/5": {"stageIds": [2, 3]}, DETAILS: {"submissionTime": SUBMITTED, "tasks": LISTED}}


def stage(**changes):
    return [{"attemptId": 0, "numFailedTasks": 0, "numKilledTasks": 0} | changes]


def test_a_batch_is_read_back_with_the_rows_of_each_task_failed_attempts_aside():
    found = executions_of(rest_with(execution(4, 0), **TASKS)).flows(0)
    assert found.edges == {"parse": EdgeFlow(60, 60, 1, (20, 40), (5, 5))}
    assert [(run.operator, run.task, run.rows_in, run.failed) for run in found.tasks] == [
        ("parse", 0, 20, False),
        ("parse", 1, 40, False),
        ("parse", 1, 40, True),
    ]
    assert found.tasks[0].waited_ms == pytest.approx(200, abs=0.01)


def test_tasks_are_asked_for_only_when_wanted():
    rest = rest_with(execution(4, 0), **TASKS)
    found = executions_of(rest).flows(0, per_task=False)
    assert (found.edges, found.tasks) == ({"parse": EdgeFlow(60, 60)}, None)
    assert not any("stages" in path for path in rest.asked)


def test_the_counts_are_those_of_the_execution_that_did_the_work():
    outer, inner = execution(4, 0, read="0", jobs=()), execution(5, 0, root=4)
    found = executions_of(rest_with(outer, inner, **TASKS)).flows(0)
    assert found.edges["parse"].per_task == (20, 40)


def test_an_inner_execution_is_found_though_the_outer_one_has_the_lower_number_and_has_ended():
    rest = rest_with(execution(4, 0), **TASKS)
    executions = executions_of(rest)
    assert executions.flows(0).counted
    outer, first, inner = execution(5, 1, jobs=()), execution(6, 1, read="1", root=5), execution(7, 1, root=5)
    rest.has(outer, first, inner)
    assert executions.flows(1).edges["parse"].read == 60
    rest.has(execution(8, 2), execution(9, 3, status="RUNNING"))
    assert executions.flows(2).counted
    assert 9 not in rest.read  # one that did the work itself says it all


def test_a_batch_whose_exchanges_did_not_count_has_no_edges_rather_than_empty_ones():
    assert executions_of(rest_with(execution(4, 0, jobs=()))).flows(0).edges is None


def test_a_batch_that_spark_has_not_listed_or_still_runs_is_not_there_yet():
    rest = rest_with(execution(4, 0, status="RUNNING"), **TASKS)
    executions = executions_of(rest)
    assert executions.flows(0) is None
    rest.has(execution(4, 0))
    assert executions.flows(0) is not None
    assert executions.flows(1) is None


def test_executions_of_others_are_passed_over_and_none_of_ours_is_read_twice():
    others = [execution(number, 0, run="other", status="RUNNING") for number in (3, 5)]
    rest = rest_with(others[0], execution(4, 0), others[1], execution(6, 1, read="61"), **TASKS)
    executions = executions_of(rest)
    assert [executions.flows(batch).edges["parse"].read for batch in (0, 1)] == [60, 61]
    assert rest.read == [4, 6]


def test_counts_that_differ_without_a_retry_are_told_as_they_are():
    rest = rest_with(execution(4, 0, read="59"), **{"jobs/5": {"stageIds": [3]}, "stages/3": stage()})
    found = executions_of(rest).flows(0)
    assert found.edges["parse"].read == 59
    assert not found.retried


@pytest.mark.parametrize("sign", [{"attemptId": 1}, {"numFailedTasks": 2}, {"numKilledTasks": 1}])
def test_counts_that_differ_after_a_retry_are_told_to_be_of_a_retried_batch(sign):
    rest = rest_with(execution(4, 0, read="90"), **{"jobs/5": {"stageIds": [3]}, "stages/3": stage(**sign)})
    found = executions_of(rest).flows(0)
    assert found.retried
    assert found.edges["parse"].per_task is None


def test_a_batch_whose_ids_differ_is_looked_at_for_retries_even_if_its_counts_agree():
    rest = rest_with(execution(4, 0), **{"jobs/5": {"stageIds": [3]}, "stages/3": stage(attemptId=1)})
    assert executions_of(rest).flows(0, suspicious=True).retried
    assert not executions_of(rest).flows(0).retried


# ---- executions that Spark has dropped


class Clock:
    """Seconds that the test counts."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def followed(rest, *runs):
    clock = Clock()
    shared = SparkExecutions(rest, clock)
    return clock, *(Executions(shared, run) for run in runs or (RUN,))


def test_batches_that_spark_has_dropped_are_given_up_at_once_and_those_that_follow_are_read():
    rest = rest_with(execution(4, 0), **TASKS)
    clock, executions = followed(rest)
    assert executions.flows(0, clock.now, 5).counted
    rest.has(execution(30, 3, at=30), execution(31, None, run="other", at=31))  # 5 to 29 came and went meanwhile
    since = clock.now = 200.0
    assert executions.flows(1, since, 20) is None
    clock.now += 1
    assert [executions.flows(batch, since, 20 + batch).counted for batch in (1, 2, 3)] == [False, False, True]
    rest.has(execution(30, 3), execution(31, None, run="other"), execution(32, 4))
    assert executions.flows(4, clock.now, 40).counted
    assert rest.asked.count(ALL) == 2


def test_a_batch_is_not_given_up_while_spark_may_only_be_late():
    rest = rest_with(execution(4, 0, at=1), execution(5, None, run="other", at=2), **TASKS)
    clock, executions = followed(rest)
    executions.flows(0, clock.now, 5)
    since = clock.now
    for _ in range(5):
        clock.now += 1
        assert executions.flows(1, since, 6) is None  # nothing that Spark lists began after the batch
    rest.has(execution(6, 1, at=6, status="RUNNING"), execution(7, 2, at=9))
    clock.now += 1
    assert executions.flows(1, since, 6) is None  # it is listed, but its end is not
    rest.has(execution(6, 1, at=6), execution(7, 2, at=9))
    assert executions.flows(1, since, 6).counted


def test_an_execution_that_spark_lists_after_later_ones_is_found_all_the_same():
    rest = rest_with(execution(3, None, run="other"), execution(5, None, run="other", at=1), **TASKS)
    clock, executions = followed(rest)  # 4 has its number, but Spark was not told of it yet
    since = clock.now
    assert executions.flows(0, since, 10) is None
    rest.has(execution(4, 0, at=2), execution(5, None, run="other", at=1))
    clock.now += 1
    assert executions.flows(0, since, 10).counted


def test_the_inner_execution_of_a_batch_counts_when_the_outer_one_was_dropped_before_it():
    rest = rest_with(execution(5, 0, root=4), execution(9, 1, at=20), **TASKS)
    clock, executions = followed(rest)
    clock.now += 1
    assert executions.flows(0, clock.now - 1, 10).edges["parse"].written == 60


def test_without_the_stages_of_a_batch_nothing_is_claimed_of_its_tasks_or_of_lost_rows():
    found = executions_of(rest_with(execution(4, 0, read="59"))).flows(0)
    assert (found.tasks, found.retried) == (None, True)


def test_the_queries_of_a_session_share_one_reading():
    """Four queries, twenty batches each, executions of all mixed: each execution is read once."""
    names = [f"run-{number}" for number in range(4)]
    rest = rest_with(**TASKS)
    clock, *queries = followed(rest, *names)
    known = []
    for batch in range(20):
        known += [execution(4 * batch + place, batch, run=name, at=batch) for place, name in enumerate(names)]
        rest.has(*known)
        for query in reversed(queries):
            assert query.flows(batch, clock.now, batch).counted
    assert sorted(rest.read) == list(range(80))
    assert rest.asked.count(ALL) == len(names)  # once for each that joins
    for query in queries:
        assert "close" not in rest.asked
        query.close()
    assert rest.asked[-1] == "close"


def test_an_execution_of_another_query_that_still_runs_holds_nobody_up():
    rest = rest_with(execution(1, 0, run="slow", status="RUNNING"), execution(2, 0, run="quick"), **TASKS)
    clock, slow, quick = followed(rest, "slow", "quick")
    assert quick.flows(0, clock.now, 5).counted
    assert slow.flows(0, clock.now, 5) is None
    rest.has(execution(1, 0, run="slow"), execution(3, 1, run="quick"))
    assert slow.flows(0, clock.now, 5).counted
    assert quick.flows(1, clock.now, 5).counted
