"""One HTML file about all experiments that were run: claims first, then each experiment with its plots and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.plots import plot
from benchmarks.experiments.show import (
    CLAIM_HEADS,
    SUMMARY_HEADS,
    claims,
    mark,
    reached,
    summary,
    table_texts,
)
from foretide.dates import local_date
from foretide.errors import FileError
from foretide.files import atomic_write
from foretide.html import Html, tag
from foretide.reports.tables import table

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_VERTICAL = (
    "An executor's cores and memory are fixed when its process starts (spark.executor.cores, spark.executor.memory), "
    "and the heap of a JVM cannot grow past its first limit. A larger executor is another process, to which tasks "
    "move. Foretide adds and removes executors and re-splits streams instead."
)
_ENLARGE = "The same: the step up is named in the decision, and another executor is asked for."

NOT_IN_SPARK = (
    ("aj-stream, vertical scaling of join instances", _VERTICAL),
    ("aj-stream, Algorithm 3: up before out", _ENLARGE),
)
"""Experiments of the papers that Spark cannot do live, and why."""

_REPETITIONS = (
    "Of the repetitions. The figure of a repetition is the median of its raw samples, which the JSON files keep."
)
_NOISE = (
    "The first side runs twice in each repetition, first and last; the largest difference between the two. A change "
    "that is not larger says nothing."
)
_TERMS = {
    "median, quartiles": _REPETITIONS,
    "change": "Against the first side, within each repetition; the median of these.",
    "noise": _NOISE,
    "simulator": "Not measured on Spark: a simulated cluster, or a model of queues, with Foretide's planners.",
    "quick form": "Fewer repetitions and less load, to see that it runs and in which direction it points.",
}


def report(outcomes: Sequence[Outcome], made: float) -> str:
    """The page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", "Foretide experiments"),
        tag("style", Html(files("foretide.reports").joinpath("report.css").read_text(encoding="utf-8"))),
    )
    body = tag("body", *_body(outcomes, made))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def save_report(outcomes: Sequence[Outcome], path: Path, made: float) -> Path:
    """Write the page."""
    try:
        atomic_write(path, report(outcomes, made))
    except OSError as error:
        raise FileError(path, f"cannot be written: {error.strerror or error}") from error
    return path


def _body(outcomes: Sequence[Outcome], made: float) -> Iterator[Html]:
    links = tag("ul", *(tag("li", tag("a", each.name, href=f"#{each.name}")) for each in outcomes))
    words = f"Made by foretide bench on {local_date(made)}: {len(outcomes)} experiments; {_score(outcomes)}."
    yield tag("header", tag("h1", "Experiments"), tag("p", words, class_="lead"), tag("nav", links))
    yield tag("main", _all_claims(outcomes), *(_section(each) for each in outcomes), _cannot())
    terms = [part for name, said in _TERMS.items() for part in (tag("dt", name), tag("dd", said))]
    yield tag("footer", tag("h2", "How the figures are made"), tag("dl", *terms))


def _score(outcomes: Sequence[Outcome]) -> str:
    found = Counter(reached(claim.reached) for each in outcomes for claim in each.claims)
    failed = sum(each.error is not None for each in outcomes)
    said = ", ".join(f"{count} claims {name}" for name, count in found.items()) or "no claims"
    return said + (f"; {failed} experiments failed" if failed else "")


def _all_claims(outcomes: Sequence[Outcome]) -> Html:
    rows = [
        (tag("a", each.name, href=f"#{each.name}"), each.paper, mark(each), *_claim(says, measured, word))
        for each in outcomes
        for says, measured, word in claims(each)
    ]
    heads = ("experiment", "paper", "how", *CLAIM_HEADS)
    return tag("section", tag("h2", "Claims of the papers", class_="first"), table(None, heads, rows))


def _claim(says: str, measured: str, word: str) -> tuple[str, str, Html]:
    look = {"reached": "good", "short of it": "bad"}.get(word)
    return says, measured, tag("strong", word, class_=look)


def _section(outcome: Outcome) -> Html:
    date = local_date(outcome.began)
    facts = f"{mark(outcome)}; begun {date}, {outcome.seconds:,.0f} s; {outcome.machine}"
    plots = [plot(outcome, measure) for measure in outcome.measures]
    return tag(
        "section",
        tag("h2", outcome.name, id=outcome.name),
        tag("p", outcome.title, class_="lead"),
        tag("p", facts, class_="soft"),
        tag("p", f"Scale: {outcome.scale}") if outcome.scale else None,
        tag("p", f"Failed: {outcome.error}", class_="note bad") if outcome.error else None,
        table(None, CLAIM_HEADS, [_claim(*each) for each in claims(outcome)]) if outcome.claims else None,
        *plots,
        table("Figures", SUMMARY_HEADS, summary(outcome), numbers=6) if outcome.repetitions else None,
        *(table(title, tuple(rows[0]), list(table_texts(rows))) for title, rows in outcome.tables.items() if rows),
        _raw(outcome),
    )


def _raw(outcome: Outcome) -> Html | None:
    """The figure of each repetition, in the order in which they ran."""
    if not outcome.repetitions:
        return None
    rows = [
        (side.name, measure.name, ", ".join(_short(each) for each in outcome.figures(side.name, measure.name)))
        for side in outcome.sides
        for measure in outcome.measures
    ]
    return tag(
        "details", tag("summary", "Figures of each repetition"), table(None, ("side", "measure", "figures"), rows)
    )


def _short(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _cannot() -> Html:
    rows = table(None, ("experiment", "why"), NOT_IN_SPARK)
    return tag("section", tag("h2", "What Spark cannot do live"), rows)
