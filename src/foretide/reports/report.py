"""A report on one or several runs: one HTML file that needs no network and no scripts, and the same as values."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from foretide.control.decisions.explain import summary as describe_decision
from foretide.control.target_record import verdict
from foretide.dates import local_date
from foretide.errors import FileError
from foretide.files import atomic_write
from foretide.html import Html, tag
from foretide.reports import sections
from foretide.reports.charts import draw_chart
from foretide.reports.summary import Summary, shared_target, summarize
from foretide.reports.tables import comparison_table
from foretide.status.run_record import RunRecord
from foretide.status.runs import read_runs

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Whatever a name contains, the page loads nothing and runs nothing."""

_PRIVATE = 0o600
_HALF = 480
"""The width of a chart that has another one beside it."""


@dataclass(frozen=True)
class Report:
    """A report on runs, side by side. In a notebook it shows itself.

    Attributes:
        runs: What was recorded.
        made: When it was made, in seconds since 1970.
    """

    runs: tuple[RunRecord, ...]
    made: float

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """The figures of each run; one without a target is judged by that of the others."""
        target = shared_target(self.runs)
        return tuple(summarize(run, target) for run in self.runs)

    @property
    def html(self) -> str:
        """The page."""
        title = f"Foretide report: {', '.join(run.name for run in self.runs)}"
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            tag("title", title),
            tag("style", Html(_style())),
        )
        return f"<!doctype html>\n{tag('html', head, tag('body', *self._body()), lang='en')}\n"

    def save(self, path: str | Path) -> Path:
        """Write the page to a file that only the user can read: it names topics, hosts and settings of the runs.

        Raises:
            FileError: The file cannot be written.
        """
        path = Path(path)
        try:
            atomic_write(path, self.html, _PRIVATE)
        except OSError as error:
            raise FileError(path, f"cannot be written: {error.strerror or error}") from error
        return path

    def data(self) -> list[dict[str, Any]]:
        """The figures and decisions of each run as values for JSON."""
        return [_data(run, summary) for run, summary in zip(self.runs, self.summaries, strict=True)]

    def _repr_html_(self) -> str:
        """The page in a frame, so that its style and that of the notebook leave each other alone."""
        return tag("iframe", srcdoc=self.html, title="Foretide report", width="100%", height="800", sandbox=True)

    def _body(self) -> Iterator[Html]:
        summaries = self.summaries
        highest = max((each.worst_latency or 0.0 for each in summaries), default=0.0)
        names = [(run, f"run-{place}") for place, run in enumerate(self.runs, 1)]
        links = tag("ul", *(tag("li", tag("a", run.name, href=f"#{anchor}")) for run, anchor in names))
        heading = "Report on a run" if len(self.runs) == 1 else f"Report on {len(self.runs)} runs"
        made = tag("p", f"Made by Foretide on {local_date(self.made)}.", class_="soft")
        several = len(self.runs) > 1
        yield tag("header", tag("h1", heading), made, tag("nav", links, aria_label="Runs") if several else None)
        parts = [sections.section(run, summary, anchor, highest)
                 for (run, anchor), summary in zip(names, summaries, strict=True)]  # fmt: skip
        yield tag("main", self._side_by_side(summaries, highest) if several else None, *parts)
        yield _footer()

    def _side_by_side(self, summaries: Sequence[Summary], highest: float) -> Html:
        charts = [
            draw_chart(sections.latency_chart(run, summary, highest, run.name, _HALF))
            for run, summary in zip(self.runs, summaries, strict=True)
        ]
        verdicts = [
            tag("li", tag("strong", run.name), ": ", verdict(each.record))
            for run, summary in zip(self.runs, summaries, strict=True)
            for each in summary.targets[-1:]
        ]
        return tag(
            "section",
            tag("h2", "Side by side", class_="first", id="side-by-side"),
            tag("ul", *verdicts) if verdicts else None,
            tag("div", *charts, class_="pair"),
            comparison_table(self.runs, summaries),
            aria_labelledby="side-by-side",
        )


def report(*runs: str | Path, since: float | None = None, app: str | None = None) -> Report:
    """A report on runs.

    Args:
        runs: For each, the name of a running pipeline, its folder (control folder, checkpoint or output folder), or its
            store, a file or URL.
        since: Only what was recorded from this time on, in seconds since 1970.
        app: Only this pipeline, where a store has several.

    Raises:
        StoreError: Nothing is recorded there.
    """
    return report_on(read_runs([str(each) for each in runs], since=since, app=app))


def report_on(runs: Sequence[RunRecord]) -> Report:
    """A report on runs that were read already."""
    return Report(tuple(runs), time.time())


def _style() -> str:
    return files("foretide.reports").joinpath("report.css").read_text(encoding="utf-8")


def _data(run: RunRecord, summary: Summary) -> dict[str, Any]:
    decisions = [
        {"id": each.id, "at": each.at, "acted": each.acted, "summary": describe_decision(each), "effect": each.effect}
        for each in run.decisions
        if each.chosen
    ]
    return {
        "run": run.name,
        "began": run.began,
        "ended": run.ended,
        "batches": run.batches,
        "rows": run.rows,
        "summary": summary,
        "seconds_missed": None if summary.missed is None else summary.missed[0],
        "decisions": decisions,
        "alarms": run.alarms,
        "problems": run.problems,
    }


_TERMS = {
    "latency": "Seconds from a tuple's event time to the commit of its batch; in real time, to when it was worked on. "
    "p99 is what 99 % of the tuples of a batch, or of a moment, kept to.",
    "time above the target": "A measurement above the target counts for the time since the one before it. Workers that "
    "have just started are not judged.",
    "executor-seconds": "How long each executor was there, summed over the executors. Saved is what that is less than "
    "the largest number of executors for the whole run.",
    "forecast error": "The mean of the absolute differences between a forecast and the load that came, each divided by "
    "that load. Expecting the last value is what a forecast has to beat.",
    "achieved": "The median of the latency before a decision against that once it was in force.",
}


def _footer() -> Html:
    terms = [part for name, words in _TERMS.items() for part in (tag("dt", name), tag("dd", words))]
    return tag("footer", tag("h2", "How the figures are made", class_="first"), tag("dl", *terms))
