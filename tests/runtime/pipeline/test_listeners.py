import pytest

from foretide.errors import FeedbackGrowthError
from foretide.metrics.batch import BatchReport, SourceRange
from foretide.runtime.pipeline.listeners import FeedbackGuard
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.sinks import Json, Memory
from foretide.topology.sources import Rate


def work(frame):
    return frame


SPOUT = Spout("lines", Rate(1))
LOOP = Topology("app", [SPOUT], [Bolt("grow", work, [From("lines"), From("grow", feedback=True)])])
CHAIN = Topology("app", [SPOUT], [Bolt("pass", work, [From("lines")])])
CAME_BACK = "FileStreamSource[file:/data/out]"


def report(returned, fresh=100, description=CAME_BACK):
    sources = (SourceRange(fresh, "RateStreamV2"), SourceRange(returned, description))
    return BatchReport(0, 0.0, 0.0, fresh + returned, 1, None, sources)


def feed(guard, gain, batches, **options):
    returned = 0
    for _ in range(batches):
        guard.see(report(returned, **options), [])
        returned = int(gain * (returned + 100))


def test_a_loop_that_grows_past_its_patience_is_an_error_with_its_figures():
    with pytest.raises(FeedbackGrowthError) as raised:
        feed(FeedbackGuard(LOOP, Json("/data/out"), patience=5), 1.0, 100)
    error = raised.value
    assert (error.pipeline, error.feedback, error.gain, error.batches, error.rows) == (
        "app",
        "grow -> grow",
        1.0,
        5,
        500,
    )
    assert "feedback 'grow -> grow' of 'app' keeps growing" in str(error)


def test_a_loop_that_loses_tuples_is_left_alone():
    feed(FeedbackGuard(LOOP, Json("/data/out"), patience=5), 0.8, 100)


@pytest.mark.parametrize(
    ("path", "description"),
    [
        ("/data/out", "FileStreamSource[file:/data/out]"),
        ("/data/out/", "FileStreamSource[file:/data/out]"),
        ("file:///data/out", "FileStreamSource[file:/data/out]"),
        ("file:/data/out", "FileStreamSource[file:/data/out]"),
        ("out", "FileStreamSource[file:/home/me/out]"),
        ("../runs/out", "FileStreamSource[file:/home/runs/out]"),
        ("/data/out", "FileStreamSource[hdfs://name:8020/data/out]"),
        ("s3a://bucket/data/out", "FileStreamSource[s3a://bucket/data/out]"),
    ],
)
def test_what_comes_back_is_known_by_the_sinks_folder_however_it_was_written(path, description):
    with pytest.raises(FeedbackGrowthError):
        feed(FeedbackGuard(LOOP, Json(path), patience=5), 1.2, 100, description=description)


@pytest.mark.parametrize(
    "description", ["FileStreamSource[file:/data/out-of-town]", "FileStreamSource[file:/data/out/in]"]
)
def test_a_folder_that_only_looks_like_the_sinks_is_not_taken_for_the_loop(description):
    feed(FeedbackGuard(LOOP, Json("/data/out"), patience=5), 1.2, 50, description=description)


def test_without_feedback_or_without_files_there_is_no_loop_to_guard():
    feed(FeedbackGuard(CHAIN, Json("/data/out"), patience=5), 1.2, 50)
    feed(FeedbackGuard(LOOP, Memory("out"), patience=5), 1.2, 50)
