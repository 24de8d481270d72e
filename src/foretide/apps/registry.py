"""All applications by name."""

from __future__ import annotations

from foretide.apps import continuous_queries, unique_users, url_count, word_count
from foretide.apps.app import App
from foretide.errors import PipelineNotFoundError

APPS: dict[str, App] = {
    module.APP.name: module.APP for module in (url_count, continuous_queries, unique_users, word_count)
}


def find_app(name: str) -> App:
    """The application of that name, or an error that lists them."""
    if name not in APPS:
        raise PipelineNotFoundError(f"there is no application '{name}'; choose one of {', '.join(APPS)}")
    return APPS[name]
