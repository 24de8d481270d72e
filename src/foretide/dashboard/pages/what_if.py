"""The page *What if*: what another rate, latency target or budget would need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup
from nicegui import ui

from foretide.dashboard.pages.frame import Page, Part, Update, read
from foretide.dashboard.pages.markup import duration, html, join, note, number, table
from foretide.errors import ForetideError
from foretide.status.views.what_if import Answer, Question

LEAD = (
    "The planner's answer for another load, target or budget, by what was measured in the last minutes. "
    "Nothing is changed here; `foretide plan` does the same in a terminal."
)
_SHARES = tuple(round(0.1 * step, 1) for step in range(1, 51))
_TARGETS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0)
_MAX_BUDGET = 64
_NOW = _SHARES.index(1.0)


@dataclass
class _Asked:
    """Where the sliders are; 0 stands for no budget."""

    share: int = _NOW
    target: int = _TARGETS.index(2.0)
    budget: int = 0

    def question(self, rate_now: float | None) -> Question:
        share = _SHARES[self.share]
        rate = None if rate_now is None or self.share == _NOW else rate_now * share
        return Question(rate, _TARGETS[self.target], self.budget or None)


async def build(page: Page) -> Update | None:
    """Three sliders, and the answer, which follows them at once."""
    asked = _Asked()
    if page.found.target_seconds is not None:
        wanted = page.found.target_seconds
        asked.target = min(range(len(_TARGETS)), key=lambda place: abs(_TARGETS[place] - wanted))
    found: Answer = await read(page.reader.what_if, page.id, asked.question(None))
    rate_now = found.rate_now
    answer = Part("answer-what-if")

    async def ask() -> None:
        try:
            answer.show(render(await read(page.reader.what_if, page.id, asked.question(rate_now))))
        except ForetideError as error:
            answer.show(note("error", str(error)))

    with ui.element("div").classes("columns"):
        with ui.element("section").classes("panel sliders"):
            _slider("rate", "Load", asked, "share", len(_SHARES) - 1, lambda place: _rate_words(rate_now, place), ask)
            _slider("target", "Latency target", asked, "target", len(_TARGETS) - 1, _target_words, ask)
            _slider("budget", "Budget", asked, "budget", _MAX_BUDGET, _budget_words, ask)
        with ui.element("section").classes("panel").props('aria-live="polite"'):
            answer.create(render(found))
    return ask


def _rate_words(rate_now: float | None, place: int) -> str:
    share = _SHARES[place]
    rows = "" if rate_now is None else f", {number(rate_now * share)} rows/s"
    return f"{'as now' if place == _NOW else f'{share:g} times'}{rows}"


def _target_words(place: int) -> str:
    return duration(_TARGETS[place])


def _budget_words(processors: int) -> str:
    return f"{processors} processors" if processors else "no limit"


def _slider(
    name: str, label: str, asked: _Asked, field: str, most: int, words: Callable[[int], str], ask: Update
) -> None:
    place = getattr(asked, field)
    text = Part(f"{name}-words")
    with ui.element("div"):
        text.create(html('<label for="{}">{}<output>{}</output></label>', name, label, words(place)))
        slider = ui.element("input").props(f'type="range" id="{name}" min="0" max="{most}" step="1" value="{place}"')

    async def moved(event: object) -> None:
        value = int(getattr(event, "args", place))
        setattr(asked, field, min(max(value, 0), most))
        text.show(html('<label for="{}">{}<output>{}</output></label>', name, label, words(getattr(asked, field))))
        await ask()

    slider.on("input", moved, js_handler="(event) => emit(event.target.value)", throttle=0.1)


def render(answer: Answer) -> Markup:
    """The answer, or why there is none."""
    now = html(
        '<p class="soft">Now: {} rows/s on {} processors.</p>', number(answer.rate_now), number(answer.processors_now)
    )
    if answer.problem is not None:
        return html("<h2>No answer</h2>{}{}", note("warning", answer.problem), now)
    rows = [(each.operator, number(each.now), number(each.wanted)) for each in answer.operators]
    return html(
        '<h2>{} processors</h2><p class="soft">for {} rows/s: a latency of about {}</p>{}{}{}',
        number(answer.processors),
        number(answer.rate),
        duration(answer.latency),
        table(("operator", "replicas now", "wanted"), rows, (1, 2)),
        join(html("<p>{}</p>", each) for each in answer.sentences),
        now,
    )
