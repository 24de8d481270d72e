"""The page *Act*: orders of people. They are sent to the REST API, which asks for the token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import get_args

from markupsafe import Markup
from nicegui import ui

from foretide.control.world.setup import Quantile, Target
from foretide.dashboard.access import token_file
from foretide.dashboard.pages.frame import Page, Part, Update, read
from foretide.dashboard.pages.markup import empty, html, join, number, pill
from foretide.status.views.seen import Seen
from foretide.status.views.topology import OperatorView, WorkerView, topology

LEAD = (
    "What you set here is held against the control loop until you release it, and kept as a decision by hand. "
    "Every change is confirmed first."
)
_DIALOG = (
    '<dialog id="confirm" aria-labelledby="confirm-title"><form method="dialog"><h2 id="confirm-title">'
    "Send this order?</h2>"
    '<p data-words></p><p><code></code></p><div class="row"><button class="main" value="yes">Send</button>'
    '<button value="no">Cancel</button></div></form></dialog>'
)
_HOLD = (
    '<label>for seconds (empty: until released)<input name="hold_seconds" data-kind="number" type="number" min="1" '
    'inputmode="numeric"></label>'
)


async def build(page: Page) -> Update | None:
    """The forms, and what is held."""
    seen = await read(page.reader.seen, page.id)
    if not seen.running or seen.state is None:
        ui.html(empty("This pipeline takes no orders", "It does not run on this machine."), sanitize=False)
        return None
    ui.html(html(_DIALOG), sanitize=False)
    ui.html(_token(), sanitize=False)
    held, forms = Part("held"), Part("forms")
    held.create(render_held(seen))
    forms.create(render_forms(seen))
    ui.run_javascript("foretide.keptToken()")

    known = _known(seen)

    async def update() -> None:
        nonlocal known
        seen = await read(page.reader.seen, page.id)
        held.show(render_held(seen))
        if _known(seen) != known:  # not each second: what somebody types stays
            known = _known(seen)
            forms.show(render_forms(seen))

    return update


def _known(seen: Seen) -> tuple[object, ...]:
    """What can be steered."""
    view = topology(seen)
    places = tuple((each.id, each.host) for each in view.workers if each.state != "gone")
    return tuple(each.edge for each in view.operators), tuple(_spouts(seen)), places


def _token() -> Markup:
    return html(
        '<section class="panel"><label for="token">Token, from the file {} on the machine of this dashboard'
        '<input id="token" type="password" autocomplete="off" spellcheck="false"></label></section>'
        '<p id="answer" class="note" role="status" hidden></p>',
        token_file(),
    )


def render_held(seen: Seen) -> Markup:
    """The mode of the loop, and what people hold, each with a button that releases it."""
    control = None if seen.state is None else seen.state.control
    mode = "not attached" if control is None or control.ended else "paused" if control.paused else control.mode
    orders = {} if seen.state is None else seen.state.held
    held = [
        html(
            '<div class="row" style="justify-content:space-between"><span>{}: {}</span>{}</div>',
            subject,
            order.describe(),
            _button(seen.id, _release(subject), f"Release {subject}", "Release"),
        )
        for subject, order in orders.items()
        if order.holds(seen.at)
    ]
    nothing = html('<p class="soft">Nothing is held by a person.</p>')
    return html(
        '<section class="panel"><div class="head"><h2>Control loop</h2>{}<span class="row end">{}</span>'
        "</div>{}</section>",
        pill(mode, "good" if mode == "act" else "slow"),
        join(
            _button(seen.id, {"action": "mode", "mode": each}, words, label)
            for each, label, words in (
                ("act", "Act", "Let the control loop act"),
                ("advise", "Only advise", "Let the control loop only advise"),
                ("pause", "Pause", "Pause the control loop"),
            )
        ),
        join(held) or nothing,
    )


def _release(subject: str) -> dict[str, object]:
    kind, _, name = subject.partition(" ")
    if kind == "drained":
        return {"action": "drain", "place": name, "release": True}
    return {"action": "release", "subject": subject}


def _button(pipeline: str, order: dict[str, object], words: str, label: str) -> Markup:
    return html(
        '<button type="button" data-pipeline="{}" data-order="{}" data-words="{}">{}</button>',
        pipeline,
        json.dumps(order),
        f"{words}?",
        label,
    )


def render_forms(seen: Seen) -> Markup:
    """A form for each order, filled with what is in force."""
    view = topology(seen)
    edges = [each for each in view.operators if each.edge is not None and each.shares]
    forms = []
    for each in edges:
        ratio = ":".join(f"{share:.3g}" for share in _counts(each.shares))
        fields = _hidden("edge", each.edge or "") + html(
            '<label>ratio, a weight for each of {} tasks<input name="weights" data-kind="ratio" value="{}" '
            "required></label>",
            each.pool,
            ratio,
        )
        forms.append(_form(seen.id, "split", f"Split {each.edge}", "Split", fields))
        fields = _hidden("edge", each.edge or "") + html(
            '<label>replicas, of {}<input name="replicas" data-kind="number" type="number" min="1" max="{}" value="{}" '
            "required></label>",
            each.pool,
            each.pool,
            each.active,
        )
        forms.append(_form(seen.id, "replicas", f"Replicas of {each.edge}", "Set", fields))
    forms.append(_target_form(seen))
    forms += [_admission_form(seen, name) for name in _spouts(seen)]
    forms.append(_restart_form(seen, edges))
    return html(
        '<div class="columns">{}</div><section class="panel" style="margin-top:18px"><h2>'
        "Workers and hosts</h2>{}</section>",
        join(forms),
        _places(seen, view.workers),
    )


def _counts(shares: tuple[float, ...]) -> list[float]:
    least = min((share for share in shares if share > 0), default=1.0)
    return [round(share / least, 2) for share in shares]


def _spouts(seen: Seen) -> list[str]:
    return sorted(seen.world.setup.can_admit) if seen.world is not None else []


def _hidden(name: str, value: str) -> Markup:
    return html('<input type="hidden" name="{}" value="{}">', name, value)


def _form(pipeline: str, action: str, title: str, label: str, fields: Markup, *, holds: bool = True) -> Markup:
    return html(
        '<section class="panel" data-key="{title}"><h2>{title}</h2><form class="order" data-action="{action}" '
        'data-pipeline="{pipeline}" data-words="{title}?" aria-label="{title}">{fields}{hold}'
        '<div><button class="main">{label}</button></div></form></section>',
        title=title,
        action=action,
        pipeline=pipeline,
        fields=fields,
        hold=html(_HOLD) if holds else Markup(""),
        label=label,
    )


def _target_form(seen: Seen) -> Markup:
    control = None if seen.state is None else seen.state.control
    target = Target() if control is None else control.target
    options = join(
        html("<option{}>{}</option>", Markup(" selected") if each == target.quantile else "", each)
        for each in get_args(Quantile)
    )
    fields = html(
        '<div class="pair"><label>latency in seconds, or none<input name="latency" data-kind="number-or-none" '
        'value="{}"></label><label>of<select name="quantile">{}</select></label>'
        '<label>give back below, in seconds<input name="relaxed" data-kind="number" type="number" min="0" step="any" '
        'value="{}"></label><label>budget of processors, or none<input name="budget" data-kind="number-or-none" '
        'value="{}"></label></div>',
        "" if target.latency is None else f"{target.latency:g}",
        options,
        f"{target.relaxed:g}" if target.relaxed else "",
        "" if target.budget is None else str(target.budget),
    )
    return _form(seen.id, "target", "Target", "Change", fields)


def _restart_form(seen: Seen, edges: Sequence[OperatorView]) -> Markup:
    pools = join(
        html(
            '<label>tasks behind {} (now {})<input name="{}" data-kind="pool" type="number" min="1" '
            'inputmode="numeric"></label>',
            each.edge,
            each.pool,
            each.edge,
        )
        for each in edges
    )
    fields = html(
        '<p class="soft small">From its checkpoint, for what cannot be changed while it runs. Empty: as it is.</p>'
        '<label>reason<input name="reason" maxlength="200"></label><div class="pair"><label>partitions of the state'
        '<input name="state_partitions" data-kind="number" type="number" min="1" inputmode="numeric"></label>{}</div>',
        pools,
    )
    return _form(seen.id, "restart", "Restart the query", "Restart", fields, holds=False)


def _admission_form(seen: Seen, spout: str) -> Markup:
    limits = {} if seen.state is None else seen.state.admission
    fields = _hidden("spout", spout) + html(
        '<label>rows per batch, or none (now: {})<input name="rows" data-kind="rows" value="{}" required></label>',
        number(limits.get(spout)) if spout in limits else "no limit",
        limits.get(spout, "none"),
    )
    return _form(seen.id, "admission", f"Admission of {spout}", "Limit", fields)


def _places(seen: Seen, workers: tuple[WorkerView, ...]) -> Markup:
    if not workers:
        return html('<p class="soft">No worker is known yet.</p>')
    places = [(each.id, f"executor {each.id} on {each.host}") for each in workers if each.state != "gone"]
    places += [(host, f"all of host {host}") for host in sorted({each.host for each in workers if each.host})]
    options = join(html('<option value="{}">{}</option>', place, words) for place, words in places)
    return html(
        '<p class="soft">A drained executor or host gets no more tasks, as one that the control loop quarantines: '
        "this is quarantine by hand, and only you end it.</p>"
        '<form class="order" data-action="drain" data-pipeline="{}" data-words="Take this place out of service?" '
        'aria-label="Drain"><label>executor or host<select name="place">{}</select></label>{}'
        '<div><button class="main">Drain</button></div></form>',
        seen.id,
        options,
        html(_HOLD),
    )
