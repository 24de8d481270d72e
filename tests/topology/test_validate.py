import pytest

from foretide.errors import TopologyError
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import (
    All,
    Custom,
    Direct,
    Dynamic,
    Fields,
    Global,
    LoadAware,
    LocalOrShuffle,
    PartialKey,
    Shuffle,
)
from foretide.topology.modes import ExecutionMode
from foretide.topology.sinks import Console, Json, KafkaSink, Memory, Parquet, Table
from foretide.topology.sources import Rate, Replay, Socket, Stream
from foretide.topology.validate import find_problems, find_run_problems
from foretide.workloads.curve import Curve
from foretide.workloads.requests import RequestLines


def work(frame):
    return frame


def bolt(name, *inputs, **options):
    return Bolt(name, work, [From(each) if isinstance(each, str) else each for each in inputs], **options)


def spout(name="lines", source=None):
    return Spout(name, source or Rate(10))


def replay(**options):
    return Replay(RequestLines(1), options.pop("curve", Curve.constant(10, 5)), **options)


def topology(*bolts, spouts=None, name="app"):
    return Topology(name, [spout()] if spouts is None else spouts, bolts)


CHAIN = topology(bolt("parse", "lines"), bolt("count", From("parse", Fields("url"))))
DIAMOND = topology(
    bolt("parse", "lines"),
    bolt("left", "parse"),
    bolt("right", "parse"),
    bolt("join", "left", From("right", Fields("k"))),
)
LOOP = topology(
    bolt("enter", "lines", From("decide", stream="again", feedback=True)),
    bolt("decide", "enter", streams=("default", "again")),
)
SELF_LOOP = topology(bolt("grow", "lines", From("grow", feedback=True)))
EVERY_GROUPING = topology(
    *(
        bolt(f"b{number}", From("lines", grouping))
        for number, grouping in enumerate(
            [
                Shuffle(),
                Dynamic(ratio=(1, 1, 1, 1)),
                LoadAware(),
                Fields("k"),
                All(),
                Global(),
                LocalOrShuffle(),
                Direct("task"),
                Custom("k % 3"),
            ]
        )
    ),
    bolt("partial", From("lines", PartialKey("k"))),
    bolt("merge", From("partial", Fields("k"))),
)
STEERED = topology(
    bolt("parse", From("lines", Dynamic(ratio=(7, 3, 2))), pool=3), bolt("n", "lines", pool=8, replicas=2)
)
MERGED_GLOBALLY = topology(bolt("part", From("lines", PartialKey("k"))), bolt("all", From("part", Global())))
STRETCHED = topology(bolt("parse", "lines"), spouts=[spout(source=replay(event_seconds=60, flush=0, max_rows=1))])


@pytest.mark.parametrize(
    "valid", [CHAIN, DIAMOND, LOOP, SELF_LOOP, EVERY_GROUPING, STEERED, MERGED_GLOBALLY, STRETCHED]
)
def test_a_topology_that_can_run_has_no_problem(valid):
    assert find_problems(valid) == []


def one(*bolts, **options):
    return topology(*bolts, **options)


PROBLEMS = {
    "a topology without a usable name": (one(bolt("a", "lines"), name="my app"), "my app", "usable name"),
    "a topology without a name": (one(bolt("a", "lines"), name=""), "(empty)", "usable name"),
    "a bolt with a dot in its id": (one(bolt("a.out", "lines")), "a.out", "usable name"),
    "two components of one id": (one(bolt("a", "lines"), bolt("a", "lines")), "a", "2 components have this id"),
    "no spout": (one(bolt("a", From("b", feedback=True), "b"), spouts=[]), "app", "no spout"),
    "no bolt": (one(), "app", "no bolt"),
    "a spout nobody reads": (one(bolt("a", "lines"), spouts=[spout(), spout("idle")]), "idle", "no bolt reads"),
    "a bolt without input": (one(bolt("a", "lines"), bolt("b")), "b", "no input"),
    "a bolt behind feedback alone": (
        one(bolt("a", "lines"), bolt("b", From("b", feedback=True))),
        "b",
        "nothing but feedback",
    ),
    "negative retries": (one(bolt("a", "lines", retries=-1)), "a", "retries is -1"),
    "an unknown on_error": (one(bolt("a", "lines", on_error="ignore")), "a", "on_error is 'ignore'"),
    "local-or-shuffle among others": (
        one(bolt("a", From("lines", LocalOrShuffle()), "b"), bolt("b", "lines")),
        "a",
        "mixes local-or-shuffle",
    ),
    "an empty pool": (one(bolt("a", "lines", pool=0)), "a", "pool of 0"),
    "a pool without an exchange": (one(bolt("a", From("lines", LocalOrShuffle()), pool=2)), "a", "no exchange"),
    "replicas that nothing steers": (one(bolt("a", From("lines", All()), replicas=2)), "a", "cannot be controlled"),
    "more replicas than the pool": (one(bolt("a", "lines", pool=2, replicas=3)), "a", "3 active replicas"),
    "no active replica": (one(bolt("a", "lines", pool=2, replicas=0)), "a", "0 active replicas"),
    "no output stream": (one(bolt("a", "lines", streams=())), "a", "no output stream"),
    "a stream declared twice": (one(bolt("a", "lines", streams=("x", "x"))), "a", "'x' 2 times"),
    "a stream of Foretide's own": (one(bolt("a", "lines", streams=("dead_letters",))), "a", "'dead_letters'"),
    "a stream without a usable name": (one(bolt("a", "lines", streams=("no way",))), "a", "'no way'"),
    "an input from nowhere": (one(bolt("a", "lines", "moon")), "moon -> a", "no component 'moon'"),
    "a stream that a bolt has not": (
        one(bolt("a", "lines"), bolt("b", From("a", stream="late"))),
        "a -> b",
        "'a' has no stream 'late'",
    ),
    "a stream that a spout has not": (
        one(bolt("a", "lines", From("lines", stream="x"))),
        "lines -> a",
        "no stream 'x'",
    ),
    "a stream read twice": (one(bolt("a", "lines", From("lines", Fields("k")))), "lines -> a", "read twice"),
    "fields without a field": (one(bolt("a", From("lines", Fields()))), "lines -> a", "fields names no field"),
    "partial-key without a field": (
        one(bolt("a", From("lines", PartialKey())), bolt("b", From("a", Global()))),
        "lines -> a",
        "partial-key names no field",
    ),
    "a ratio of the wrong length": (
        one(bolt("a", From("lines", Dynamic(ratio=(1, 2))), pool=3)),
        "lines -> a",
        "ratio 1:2 does not fit a pool of 3",
    ),
    "a ratio of zeros": (one(bolt("a", From("lines", Dynamic(ratio=(0, 0))), pool=2)), "lines -> a", "splits nothing"),
    "a negative ratio": (one(bolt("a", From("lines", Dynamic(ratio=(2, -1))), pool=2)), "lines -> a", "2:-1 splits"),
    "a ratio that is no number": (
        one(bolt("a", From("lines", Dynamic(ratio=(1, float("nan")))), pool=2)),
        "lines -> a",
        "1:nan splits nothing",
    ),
    "global into a pool": (one(bolt("a", From("lines", Global()), pool=3)), "lines -> a", "global sends to one task"),
    "partial-key that nobody merges": (one(bolt("a", From("lines", PartialKey("k")))), "lines -> a", "nobody merges"),
    "one choice": (
        one(bolt("a", From("lines", PartialKey("k", choices=1))), bolt("b", From("a", Global()))),
        "lines -> a",
        "has 1 choices",
    ),
    "feedback that closes no loop": (
        one(bolt("a", "lines"), bolt("b", "lines", From("a", feedback=True))),
        "a -> b",
        "closes no loop",
    ),
    "a cycle without feedback": (one(bolt("a", "lines", "b"), bolt("b", "a")), "a, b", "in a cycle"),
    "a replay without partitions": (
        one(bolt("a", "lines"), spouts=[spout(source=replay(partitions=0))]),
        "lines",
        "0 partitions",
    ),
    "a replay that never moves on": (
        one(bolt("a", "lines"), spouts=[spout(source=replay(max_rows=0))]),
        "lines",
        "max_rows is 0",
    ),
    "a flush into the past": (one(bolt("a", "lines"), spouts=[spout(source=replay(flush=-1))]), "lines", "flush is -1"),
    "event time that stands still": (
        one(bolt("a", "lines"), spouts=[spout(source=replay(event_seconds=0))]),
        "lines",
        "event_seconds is 0",
    ),
    "a stretched curve without an end": (
        one(bolt("a", "lines"), spouts=[spout(source=replay(event_seconds=60, curve=Curve.constant(10)))]),
        "lines",
        "never ends",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_each_problem_is_found_by_its_id_and_comes_with_a_remedy(case):
    wrong, where, what = PROBLEMS[case]
    found = [problem for problem in find_problems(wrong) if problem.where == where and what in problem.what]
    assert len(found) == (2 if "twice" in case and "read" in case else 1)
    assert all(problem.remedy for problem in found)


@pytest.mark.parametrize(
    "case", [case for case in PROBLEMS if case not in {"no spout", "no bolt", "a stream read twice"}]
)
def test_one_mistake_is_one_problem(case):
    wrong, _, _ = PROBLEMS[case]
    assert len(find_problems(wrong)) == 1


def test_an_empty_pool_with_an_empty_ratio_is_reported_and_not_an_accident():
    found = find_problems(one(bolt("a", From("lines", Dynamic(ratio=())), pool=0)))
    assert "has a pool of 0" in [problem.what for problem in found]


def test_a_cycle_names_the_bolts_on_it_and_none_behind_it():
    wrong = one(bolt("before", "lines"), bolt("a", "before", "b"), bolt("b", "a"), bolt("after", "b"))
    (problem,) = find_problems(wrong)
    assert problem.where == "a, b"
    assert "feedback=True" in problem.remedy


def test_many_problems_are_all_reported_at_once():
    wrong = one(
        bolt("a b", "lines", pool=0),
        bolt("twin", "moon", retries=-1),
        bolt("twin", From("lines", Dynamic(ratio=(1,))), pool=2, streams=("x", "x")),
        bolt("lost"),
        bolt("round", From("about")),
        bolt("about", From("round")),
        spouts=[spout(), spout("idle")],
    )
    assert {(problem.where, problem.what) for problem in find_problems(wrong)} == {
        ("a b", "is not a usable name"),
        ("a b", "has a pool of 0"),
        ("twin", "2 components have this id"),
        ("twin", "retries is -1"),
        ("twin", "declares stream 'x' 2 times"),
        ("moon -> twin", "there is no component 'moon'"),
        ("lines -> twin", "ratio 1 does not fit a pool of 2"),
        ("lost", "has no input"),
        ("idle", "no bolt reads this spout"),
        ("round, about", "read each other in a cycle"),
    }


def test_the_error_lists_every_problem_with_where_what_and_remedy():
    problems = find_problems(one(bolt("a", "moon", retries=-1)))
    error = TopologyError("app", problems)
    assert error.problems == tuple(problems)
    assert f"'app' has {len(problems)} problems" in str(error)
    for problem in problems:
        assert f"{problem.where}: {problem.what}. {problem.remedy}" in str(error)


def test_a_problem_with_an_unknown_component_names_the_known_ones():
    (problem,) = find_problems(one(bolt("a", "lines", "moon")))
    assert problem.remedy == "Components are: lines, a"


# ---- how it is run


def run(source, sink, guarantee):
    return find_run_problems(topology(bolt("a", "lines"), spouts=[spout(source=source)]), sink, guarantee)


REPLAYABLE = [replay(), Rate(1), Stream(work)]
UNREPEATABLE = [Socket("localhost", 1), Stream(work, replayable=False)]


@pytest.mark.parametrize("sink", [Parquet("out"), Json("out"), Table("out")])
@pytest.mark.parametrize("source", REPLAYABLE)
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "none"])
def test_a_source_that_can_be_read_again_and_a_sink_that_commits_keep_every_guarantee(source, sink, guarantee):
    assert run(source, sink, guarantee) == []


@pytest.mark.parametrize("sink", [Console(), Memory("out")])
def test_only_a_sink_that_commits_can_promise_exactly_once(sink):
    (problem,) = run(Rate(1), sink, "exactly-once")
    assert problem.where == "sink"
    assert "exactly once" in problem.what
    assert "at-least-once" in problem.remedy
    assert run(Rate(1), sink, "at-least-once") == run(Rate(1), sink, "none") == []


@pytest.mark.parametrize("source", UNREPEATABLE)
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_source_that_cannot_be_read_again_promises_nothing(source, guarantee):
    (problem,) = run(source, Parquet("out"), guarantee)
    assert problem.where == "lines"
    assert f"{guarantee} cannot be kept" in problem.what


@pytest.mark.parametrize("source", UNREPEATABLE)
@pytest.mark.parametrize("sink", [Parquet("out"), Console()])
def test_without_a_guarantee_any_source_and_sink_will_do(source, sink):
    assert run(source, sink, "none") == []


@pytest.mark.parametrize("source", [Rate(1), *UNREPEATABLE])
def test_at_most_once_is_for_replays_alone(source):
    (problem,) = run(source, Parquet("out"), "at-most-once")
    assert problem.where == "lines"
    assert "Use Replay" in problem.remedy
    assert run(replay(), Parquet("out"), "at-most-once") == []


def test_each_spout_that_breaks_the_guarantee_is_named():
    wrong = topology(bolt("a", "one", "two"), spouts=[spout("one", Socket("h", 1)), spout("two", Socket("h", 2))])
    found = find_run_problems(wrong, Memory("out"), "exactly-once")
    assert [problem.where for problem in found] == ["sink", "one", "two"]


@pytest.mark.parametrize("sink", [Table("out"), Console(), Memory("out")])
def test_feedback_needs_a_sink_of_files(sink):
    assert "feedback cannot pass" in find_run_problems(LOOP, sink, "none")[0].what
    assert find_run_problems(LOOP, Json("out"), "none") == []


def test_feedback_through_kafka_needs_a_topic_of_its_own():
    assert find_run_problems(LOOP, KafkaSink("host:9092", "app-{stream}"), "none") == []
    (problem,) = find_run_problems(LOOP, KafkaSink("host:9092", "app"), "none")
    assert "which all streams share" in problem.what


@pytest.mark.parametrize("sink", [[Parquet("a"), Json("b")], None, "out"])
def test_one_query_takes_one_sink(sink):
    (problem,) = find_run_problems(CHAIN, sink, "none")
    assert "is not one sink" in problem.what
    assert "second pipeline" in problem.remedy


def test_an_unknown_guarantee_is_answered_with_the_known_ones():
    (problem,) = find_run_problems(CHAIN, Parquet("out"), "twice")
    assert problem.where == "guarantee"
    assert problem.remedy == "Choose one of exactly-once, at-least-once, at-most-once, none"


def test_a_mode_says_which_sources_sinks_and_guarantees_it_can_run():
    mode = ExecutionMode("picky", sources=(Rate,), sinks=(Console,), guarantees=("none",))
    app = Topology("app", [spout("lines"), spout("more", Socket("host", 1))], [bolt("parse", "lines", "more")])
    found = find_run_problems(app, Json("out"), "at-least-once", mode)
    assert [(each.where, each.remedy) for each in found if "picky" in each.what] == [
        ("more", "Use Rate"),
        ("sink", "Use Console"),
        ("guarantee", "Use none"),
    ]
