"""A controller in a notebook, and the line that is kept up to date while a query runs."""

import io
from threading import Event

import pytest

from foretide.control.target_record import TargetRecord
from foretide.control.world.setup import Target
from foretide.control_folder.folder import ControlFolder, ControlStatus, DecisionSummary, PipelineStatus
from foretide.runtime.loop.display import controller_html, progress_text, show_progress

RECORD = TargetRecord(Target(2.0)).with_measured(3.5, at=10.0)
STATUS = ControlStatus(
    20.0,
    "act",
    ("bypass",),
    Target(2.0),
    decisions=(DecisionSummary(7, 15.0, "give worker <1> no more tasks"),),
    problems=("the disk is full",),
    record=RECORD,
)


@pytest.fixture
def folder(tmp_path):
    return ControlFolder(str(tmp_path / "control"))


def test_a_notebook_shows_target_batch_decisions_and_problems(folder):
    assert "none has finished yet" in controller_html("shop", STATUS, folder)
    folder.status.write(PipelineStatus(12, 19.0, 5000, duration=1.5))
    html = controller_html("shop <b>", STATUS, folder)
    shown = ("shop &lt;b&gt;", "p99 latency below 2 s", "MISSED", "batch 12: 5,000 rows in 1.5 s", "the disk is full")
    assert [text for text in shown if text not in html] == []
    assert "give worker &lt;1&gt; no more tasks" in html


def test_a_line_says_how_the_query_is(folder):
    waiting = "shop: waiting for the first batch; target p99 below 2 s: MISSED"
    assert progress_text("shop", STATUS, folder).startswith(waiting)
    folder.status.write(PipelineStatus(0, 19.0, 0))
    assert progress_text("shop", STATUS, folder).startswith("shop: idle, waiting for rows; ")
    folder.status.write(PipelineStatus(12, 19.0, 5000, duration=1.5))
    text = progress_text("shop\n", STATUS, folder)
    assert text.startswith("shop : batch 12: 5,000 rows in 1.5 s; ")
    assert text.endswith("decision 7: give worker <1> no more tasks; problem: the disk is full")
    assert "\n" not in text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def texts(ended, *found):
    """Texts one after another; the end comes with the last one."""
    left = list(found)

    def text():
        if len(left) == 1:
            ended.set()
        return left.pop(0) if len(left) > 1 else left[0]

    return text


def test_a_terminal_has_one_line_that_is_written_over_until_the_end():
    ended, terminal = Event(), Terminal()
    show_progress(texts(ended, "first one", "next"), ended, stream=terminal)
    assert terminal.getvalue() == "\rfirst one\rnext     \n"


def test_other_output_has_a_line_for_each_new_text():
    ended, output = Event(), io.StringIO()
    show_progress(texts(ended, "one", "one", "two"), ended, stream=output)
    assert output.getvalue() == "one\ntwo\n"


def test_it_ends_in_time_though_the_query_runs_on():
    ended, output = Event(), io.StringIO()
    show_progress(lambda: "still there", ended, seconds=0.01, stream=output)
    assert output.getvalue() == "still there\n"
    assert not ended.is_set()
