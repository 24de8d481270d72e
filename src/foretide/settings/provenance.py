"""What flags, environment and file give. Each setting keeps where it came from; nothing is passed over in silence."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretide.errors import ForetideError, SettingsError
from foretide.settings.kinds import checked, from_text
from foretide.settings.reference import KEYS, PREFIX, PYTHON_ONLY, SECTIONS, Key, names_in, suggestion

CONFIG = f"{PREFIX}CONFIG"
"""The variable that names the file."""

ELSEWHERE = frozenset({CONFIG, f"{PREFIX}HOME", f"{PREFIX}REQUIRE_POSTGRES", f"{PREFIX}POSTGRES_FOLDER"})
"""Variables that are no settings: they are read by other parts, or by the project's own tests and scripts."""

_NAMING = f"names are {PREFIX}SECTION__NAME, with a section of {', '.join(SECTIONS)}"


@dataclass(frozen=True)
class Given:
    """A setting that was given: its value, checked, and where."""

    key: Key
    value: Any
    source: str

    @classmethod
    def checking(cls, key: Key, value: Any, source: str, *, text: bool) -> Given:
        """Check what was given; `text` where it came as such, and numbers have to be read from it."""
        try:
            plain = from_text(key.form.hint, value) if text else value
            return cls(key, key.form.make(checked(key.form.hint, plain)), source)
        except (ValueError, ForetideError) as error:
            raise SettingsError(source, str(error)) from error


def from_flags(overrides: Sequence[str]) -> dict[str, Given]:
    """From flags such as `guards.cooldown=30`."""
    found: dict[str, Given] = {}
    for each in overrides:
        path, equals, text = each.partition("=")
        source = f"flag --set {path.strip()}"
        if not equals:
            raise SettingsError(source, "no value is given; write it as 'guards.cooldown=30'")
        key = _find(source, path.strip())
        if key.path in found:
            raise SettingsError(source, f"{key.path} is given twice by flags; give it once")
        found[key.path] = Given.checking(key, text, source, text=True)
    return found


def from_environment(env: Mapping[str, str]) -> dict[str, Given]:
    """From variables such as `FORETIDE_GUARDS__COOLDOWN`."""
    variables = {key.variable: key for key in KEYS.values()}
    found: dict[str, Given] = {}
    for name in sorted(env):
        if not name.startswith(PREFIX) or name in ELSEWHERE:
            continue
        source = f"environment variable {name}"
        if name not in variables:
            hint = suggestion(name, [*variables, *ELSEWHERE])
            raise SettingsError(source, f"there is no such setting; {hint}{_NAMING}")
        key = variables[name]
        found[key.path] = Given.checking(key, env[name], source, text=True)
    return found


def from_file(path: Path) -> dict[str, Given]:
    """From a TOML file with a table for each section."""
    found: dict[str, Given] = {}
    for section, table in _read(path).items():
        if section not in SECTIONS:
            raise SettingsError(f"{path}, {section}", _no_section(section))
        if not isinstance(table, dict):
            raise SettingsError(f"{path}, {section}", f"{table!r} is no section; give a table [{section}]")
        for name, value in table.items():
            source = f"{path}, {section}.{name}"
            key = _find(source, f"{section}.{name}")
            found[key.path] = Given.checking(key, value, source, text=False)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read ({error.strerror}); name a file that is there") from error
    except ValueError as error:
        raise SettingsError(str(path), f"is no TOML: {error}; give UTF-8 text with a table for each section") from error


def _find(source: str, path: str) -> Key:
    """The setting of that path; an error says what there is."""
    if path in KEYS:
        return KEYS[path]
    if path in PYTHON_ONLY:
        raise SettingsError(source, PYTHON_ONLY[path])
    section, dot, name = path.partition(".")
    if section not in SECTIONS:
        raise SettingsError(source, _no_section(section))
    names = names_in(section)
    if not dot:
        raise SettingsError(source, f"'{section}' is a section, not a setting; write it as '{section}.NAME=VALUE'")
    there = f"there are {', '.join(names)}" if names else "it has nothing to set"
    raise SettingsError(source, f"section '{section}' has no '{name}'; {suggestion(name, names)}{there}")


def _no_section(name: str) -> str:
    return f"there is no section '{name}'; {suggestion(name, SECTIONS)}there are {', '.join(SECTIONS)}"
