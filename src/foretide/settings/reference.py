"""Every setting by its key, such as `guards.cooldown`: type, default, meaning, and the name of its variable."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, get_type_hints

from foretide.durations import Seconds, interval_text
from foretide.settings.kinds import plain
from foretide.settings.monitoring import MonitorSettings
from foretide.settings.settings import Settings

PREFIX = "FORETIDE_"
PYTHON_ONLY: Mapping[str, str] = {
    "monitoring.smoothing": "it names functions, so it can be set in Python only",
    "forecasts.net": "it has settings of its own, and can be set in Python only",
}
"""What has no form in a file, and why."""


@dataclass(frozen=True)
class Form:
    """How a setting is written where that is not how Python has it."""

    hint: Any
    make: Callable[[Any], Any]
    show: Callable[[Any], Any]
    meaning: str | None = None


_FORMS: Mapping[str, Form] = {
    "run.trigger": Form(Seconds | None, lambda value: None if value is None else interval_text(value), plain),
    "run.monitoring": Form(
        bool,
        lambda on: MonitorSettings() if on else None,
        lambda value: value is not None,
        "Whether anything but the audit is measured; the section `monitoring` says what and how.",
    ),
}


@dataclass(frozen=True)
class Key:
    """One setting: where it belongs, its type as written, its default as written, and what it means."""

    section: str
    name: str
    form: Form
    default: Any
    meaning: str

    @property
    def path(self) -> str:
        """How files and flags call it."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """How the environment calls it."""
        return f"{PREFIX}{self.section}__{self.name}".upper()

    def shown(self, settings: Settings) -> Any:
        """What is in force, as it would be written."""
        return self.form.show(getattr(getattr(settings, self.section), self.name))


def attributes(kind: type) -> dict[str, str]:
    """What the "Attributes:" part of a docstring says, by name."""
    _, _, listed = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", listed, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


SECTIONS: Mapping[str, Any] = {name: kind for name, kind in get_type_hints(Settings).items() if name != "origins"}
"""The class of each section, by its name."""


def _keys_of(section: str, defaults: object) -> list[Key]:
    kind = SECTIONS[section]
    hints, meanings = get_type_hints(kind, include_extras=True), attributes(kind)
    found = []
    for name in (each.name for each in fields(kind)):
        path = f"{section}.{name}"
        if path not in PYTHON_ONLY:
            form = _FORMS.get(path) or Form(hints[name], lambda value: value, plain)
            default = form.show(getattr(defaults, name))
            found.append(Key(section, name, form, default, form.meaning or meanings[name]))
    return found


_DEFAULTS = Settings()
KEYS: Mapping[str, Key] = {
    key.path: key for section in SECTIONS for key in _keys_of(section, getattr(_DEFAULTS, section))
}
"""Every setting that can be written, by its path."""


def names_in(section: str) -> list[str]:
    """The settings of a section."""
    return [key.name for key in KEYS.values() if key.section == section]


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean ...` where something known is close, else nothing."""
    close = get_close_matches(name, known, n=1, cutoff=0.75)
    return f"did you mean '{close[0]}'? " if close else ""
