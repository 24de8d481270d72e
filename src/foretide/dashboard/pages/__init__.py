"""The pages of the dashboard, one module a page: they show what `reading` reads, and give orders over the API."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from nicegui import app as nicegui_app
from nicegui import ui

from foretide.dashboard.pages import (
    act,
    advice,
    decisions,
    forecast,
    joins,
    latency,
    overview,
    topology,
    what_if,
    workers,
)
from foretide.dashboard.pages.frame import add_page

if TYPE_CHECKING:
    from fastapi import FastAPI

    from foretide.dashboard.reading import Reader

_STATIC = Path(__file__).parents[1] / "static"
_MODULES = {
    "topology": topology, "latency": latency, "forecast": forecast, "decisions": decisions, "workers": workers,
    "joins": joins, "what-if": what_if, "advice": advice, "act": act,
}  # fmt: skip


def add_pages(app: FastAPI, reader: Reader) -> None:
    """Add all pages to the application."""
    logging.getLogger("nicegui").setLevel(logging.ERROR)
    nicegui_app.add_static_files("/static", _STATIC, max_cache_age=3600)
    nicegui_app.config.quasar_config["loadingBar"]["skipHijack"] = True  # a bar without a name, at each request
    overview.add(reader)
    for name, module in _MODULES.items():
        add_page(reader, name, module.LEAD, module.build)
    ui.run_with(
        app,
        title="Foretide",
        language="en-US",
        dark=None,
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=10.0,
    )
