import pytest

from foretide.metrics.batch import EdgeFlow
from foretide.spark.executions import Exchange, Executions, Flows, attribute_tasks, find_exchanges

RUN = "0a1b-run"


def metrics(written, read, stage=None):
    wait = (
        "0 ms"
        if stage is None
        else f"total (min, med, max (stageId: taskId))\n0 ms (0 ms, 0 ms, 0 ms (stage {stage}: task 26))"
    )
    size = "27.0 KiB (8.3 KiB, 8.4 KiB, 10.3 KiB (stage 99.0: task 20))"
    return [
        {"name": "shuffle records written", "value": written},
        {"name": "records read", "value": read},
        {"name": "fetch wait time", "value": wait},
        {"name": "data size", "value": f"total (min, med, max (stageId: taskId))\n{size}"},
    ]


def exchange(node, desc, written="0", read="0", stage=None):
    return {
        "nodeId": node,
        "nodeName": "Exchange",
        "desc": f"Exchange {desc}",
        "metrics": metrics(written, read, stage),
    }


def by_id(column, pool):
    return (
        f"shufflepartitionidpassthrough(direct_shuffle_partition_id({column}), {pool}), REPARTITION_BY_NUM, [plan_id=1]"
    )


def node(number, desc, name="Project"):
    return {"nodeId": number, "nodeName": name, "desc": desc, "metrics": []}


def links(*pairs):
    return [{"fromId": source, "toId": target} for source, target in pairs]


# The graph of one batch as Spark 4.3 keeps it, cut down: s -> parse (3) -> parse.out -> p2 (2) and sum-up (global).
NODES = [
    node(0, "Union", "Union"),
    exchange(4, "SinglePartition, REPARTITION_BY_NUM, [plan_id=483]", "257", "257"),
    node(6, "Project [line#0, (SPARK_PARTITION_ID() * 0) AS _ft_sum-up#25]"),
    exchange(8, by_id("_ft_parse.out#24", 3), "257", "514", "10.0"),
    exchange(13, by_id("_ft_parse#20", 3), "1,300", "1,300", "8.1"),
    exchange(25, by_id("_ft_p2#30", 2), "257", "257", "11.0"),
    exchange(30, "hashpartitioning(window#4, 4), ENSURE_REQUIREMENTS, [plan_id=9]", "5", "5", "12.0"),
]
EDGES = links((4, 0), (6, 4), (8, 6), (13, 8), (25, 0), (8, 25), (30, 0))


def test_exchanges_of_edges_are_found_with_their_counts_readers_and_stages():
    assert find_exchanges(NODES, EDGES) == [
        Exchange("sum-up", 1, 4, EdgeFlow(257, 257, 1), None),
        Exchange("parse.out", 3, 8, EdgeFlow(257, 514, 2), (10, 0)),
        Exchange("parse", 3, 13, EdgeFlow(1300, 1300, 1), (8, 1)),
        Exchange("p2", 2, 25, EdgeFlow(257, 257, 1), (11, 0)),
    ]


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
    (found,) = find_exchanges([exchange(1, by_id(column, 7))], links((1, 0)))
    assert (found.edge, found.pool) == (edge, 7)


@pytest.mark.parametrize(
    "foreign",
    ["hashpartitioning(word#1, 4), ENSURE_REQUIREMENTS", "SinglePartition, ENSURE_REQUIREMENTS", by_id("other#20", 3)],
)
def test_exchanges_of_sparks_own_are_passed_over(foreign):
    below = node(2, "Project [(SPARK_PARTITION_ID() * 0) AS _ft_parse#25]")
    assert find_exchanges([exchange(1, foreign), below], links((1, 0), (2, 1))) == []


def test_an_exchange_to_one_task_that_nobody_named_is_passed_over():
    nodes = [exchange(1, "SinglePartition, REPARTITION_BY_NUM"), node(2, "Project [a#1]")]
    assert find_exchanges(nodes, links((2, 1))) == []


# ---- tasks


def task(index, rows, busy=5, status="SUCCESS"):
    read = {"shuffleReadMetrics": {"recordsRead": rows}, "executorRunTime": busy}
    return {"index": index, "status": status, "taskMetrics": read}


def edge(name, pool, read, at=1):
    return Exchange(name, pool, at, EdgeFlow(read, read), (1, 0))


def test_rows_and_busy_time_go_to_each_task_in_order_of_its_number():
    tasks = [task(2, 30, 3), task(0, 10, 1), task(1, 20, 2)]
    assert attribute_tasks([edge("parse", 3, 60)], tasks) == {"parse": EdgeFlow(60, 60, 1, (10, 20, 30), (1, 2, 3))}


def test_edges_that_one_stage_unites_take_their_tasks_in_the_order_of_the_plan():
    tasks = [task(0, 1), task(1, 2), task(2, 3), task(3, 4), task(4, 5)]
    flows = attribute_tasks([edge("second", 3, 12, at=9), edge("first", 2, 3, at=4)], tasks)
    assert flows["first"].per_task == (1, 2)
    assert flows["second"].per_task == (3, 4, 5)


def test_failed_attempts_of_a_task_are_not_counted():
    tasks = [task(0, 3, status="FAILED"), task(0, 10), task(1, 20), task(1, 20, status="KILLED")]
    assert attribute_tasks([edge("parse", 2, 30)], tasks)["parse"].per_task == (10, 20)


def test_with_tasks_too_few_or_too_many_nothing_is_known():
    assert attribute_tasks([edge("parse", 3, 30)], [task(0, 10), task(1, 20)]) == {}
    assert attribute_tasks([edge("parse", 1, 30)], [task(0, 10), task(1, 20)]) == {}


def test_sums_that_disagree_with_the_edge_leave_that_edge_unknown():
    flows = attribute_tasks([edge("a", 1, 11, at=1), edge("b", 1, 20, at=2)], [task(0, 10), task(1, 20)])
    assert set(flows) == {"b"}


# ---- the walk through Spark's list


class FakeRest:
    """Spark's answers by path; a path that was not put there is a 404."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def get(self, path):
        self.asked.append(path)
        return self.answers.get(path)


def rest_with(*executions, **more):
    rest = FakeRest(**more)
    listed = [{"id": made["id"], "description": made["description"]} for made in executions]
    rest.answers["sql?details=false&planDescription=false&offset=0&length=100000"] = listed
    for made in executions:
        rest.answers[f"sql/{made['id']}?details=true&planDescription=false"] = made
    return rest


def execution(number, batch, run=RUN, status="COMPLETED", read="60", jobs=(5,), root=None):
    return {
        "id": number,
        "rootExecutionId": number if root is None else root,
        "description": f"app\nid = 77\nrunId = {run}\nbatch = {batch}",
        "status": status,
        "nodes": [exchange(1, by_id("_ft_parse#1", 2), "60", read, "3.0")],
        "edges": links((1, 0)),
        "successJobIds": list(jobs),
    }


TASKS = {"stages/3/0/taskList?length=100000": [task(0, 20), task(1, 40)]}


def stage(**changes):
    return [{"attemptId": 0, "numFailedTasks": 0, "numKilledTasks": 0} | changes]


def test_a_batch_is_read_back_with_the_rows_of_each_task():
    found = Executions(rest_with(execution(4, 0), **TASKS), RUN).flows(0)
    assert found == Flows({"parse": EdgeFlow(60, 60, 1, (20, 40), (5, 5))})


def test_an_edge_to_one_task_needs_no_list_of_tasks():
    alone = execution(4, 0) | {"nodes": [exchange(1, by_id("_ft_parse#1", 1), "60", "60", "3.0")]}
    rest = rest_with(alone)
    assert Executions(rest, RUN).flows(0) == Flows({"parse": EdgeFlow(60, 60, 1, (60,))})
    assert not any("taskList" in path for path in rest.asked)


def test_rows_per_task_are_asked_for_only_when_wanted():
    rest = rest_with(execution(4, 0), **TASKS)
    assert Executions(rest, RUN).flows(0, per_task=False) == Flows({"parse": EdgeFlow(60, 60)})
    assert not any("taskList" in path for path in rest.asked)


def test_the_counts_are_those_of_the_execution_that_did_the_work():
    outer, inner = execution(4, 0, read="0", jobs=()), execution(5, 0, root=4)
    found = Executions(rest_with(outer, inner, **TASKS), RUN).flows(0)
    assert found.edges["parse"].per_task == (20, 40)


def test_a_batch_whose_exchanges_did_not_count_has_no_edges_rather_than_empty_ones():
    assert Executions(rest_with(execution(4, 0, jobs=())), RUN).flows(0) == Flows(None)


def test_a_batch_that_spark_has_not_listed_or_still_runs_is_not_there_yet():
    rest = rest_with(execution(4, 0, status="RUNNING"), **TASKS)
    executions = Executions(rest, RUN)
    assert executions.flows(0) is None
    rest.answers["sql/4?details=true&planDescription=false"]["status"] = "COMPLETED"
    assert executions.flows(0) is not None
    assert executions.flows(1) is None


def test_executions_of_others_are_passed_over_and_none_of_ours_is_read_twice():
    others = [execution(number, 0, run="other", status="RUNNING") for number in (3, 5)]
    rest = rest_with(others[0], execution(4, 0), others[1], execution(6, 1, read="61"), **TASKS)
    executions = Executions(rest, RUN)
    assert [executions.flows(batch).edges["parse"].read for batch in (0, 1)] == [60, 61]
    read = [path.partition("?")[0] for path in rest.asked if path.startswith("sql/")]
    assert "sql/3" not in read
    assert [read.count(f"sql/{number}") for number in (4, 5, 6)] == [1, 1, 1]


def test_counts_that_differ_without_a_retry_are_told_as_they_are():
    rest = rest_with(execution(4, 0, read="59"), **{"jobs/5": {"stageIds": [3]}, "stages/3": stage()})
    found = Executions(rest, RUN).flows(0)
    assert found.edges["parse"].read == 59
    assert not found.retried


@pytest.mark.parametrize("sign", [{"attemptId": 1}, {"numFailedTasks": 2}, {"numKilledTasks": 1}])
def test_counts_that_differ_after_a_retry_are_told_to_be_of_a_retried_batch(sign):
    rest = rest_with(execution(4, 0, read="90"), **{"jobs/5": {"stageIds": [3]}, "stages/3": stage(**sign)})
    found = Executions(rest, RUN).flows(0)
    assert found.retried
    assert found.edges["parse"].per_task is None
