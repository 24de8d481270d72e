"""The applications by name. An application's module is imported when the application is used."""

from __future__ import annotations

from importlib import import_module

from foretide.apps.app import App
from foretide.errors import PipelineNotFoundError

APPS = {
    "url-count": "windowed URL count of request lines (predictive-control)",
    "continuous-queries": "vehicles over the limit and their owners (predictive-control)",
    "unique-users": "unique users per event and second (storm-at-twitter)",
    "word-count": "words of tweets, counted in windows (Storm's first example)",
}
"""What each application does. Its module has the same name, with underscores."""


def find_app(name: str) -> App:
    """The application of that name, or an error that lists them."""
    if name not in APPS:
        raise PipelineNotFoundError(f"there is no application '{name}'; choose one of {', '.join(APPS)}")
    app: App = import_module(f"foretide.apps.{name.replace('-', '_')}").APP
    return app
