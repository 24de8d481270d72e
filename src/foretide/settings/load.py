"""Loads settings: flags go before the environment, that before the file, and all before the defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretide.errors import ForetideError, SettingsError
from foretide.settings.provenance import CONFIG, Given, from_environment, from_file, from_flags
from foretide.settings.reference import KEYS, SECTIONS
from foretide.settings.settings import Settings

DEFAULT_FILE = "foretide.toml"
"""Read from the working folder if it is there and no other file is named."""


def load_settings(
    config: Path | None = None, overrides: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Settings:
    """The settings in force.

    >>> load_settings(overrides=["guards.cooldown=30 s", "control.policies=replicas"], env={}).guards.cooldown
    30.0

    Args:
        config: The file; else the one that `FORETIDE_CONFIG` names, else `foretide.toml` in the working folder.
        overrides: Flags, each such as `guards.cooldown=30`.
        env: The environment; that of this process unless given.

    Raises:
        SettingsError: Something is unknown, of the wrong type or impossible; the sentence says where it was given.
    """
    variables = os.environ if env is None else env
    file = _file(config, variables)
    given = {
        **({} if file is None else from_file(file)),
        **from_environment(variables),
        **from_flags(overrides),
    }
    parts = {section: _section(section, given) for section in SECTIONS}
    return Settings(**parts, origins={path: each.source for path, each in given.items()})


def _file(config: Path | None, env: Mapping[str, str]) -> Path | None:
    named = config or env.get(CONFIG)
    if named:
        return Path(named)
    usual = Path(DEFAULT_FILE)
    return usual if usual.exists() else None


def _section(section: str, given: Mapping[str, Given]) -> Any:
    mine = [each for each in given.values() if each.key.section == section]
    wrong = _flaw(section, mine)
    if wrong is None:
        return _made(section, mine)
    blamed = [each for each in mine if _flaw(section, [other for other in mine if other is not each]) is None] or mine
    raise SettingsError("; ".join(each.source for each in blamed), str(wrong)) from wrong


def _made(section: str, given: Sequence[Given]) -> Any:
    return SECTIONS[section](**{each.key.name: each.value for each in given})


def _flaw(section: str, given: Sequence[Given]) -> ForetideError | None:
    """Why the values do not go together, if they do not."""
    try:
        _made(section, given)
    except ForetideError as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """A setting in force: its key, its value as it would be written, and where it came from."""

    key: str
    value: Any
    source: str


def in_force(settings: Settings) -> list[LoadedSettings]:
    """Every setting that can be written, without passwords."""
    return [
        LoadedSettings(path, _without_password(key.shown(settings)), settings.origins.get(path, "default"))
        for path, key in KEYS.items()
    ]


def _without_password(value: Any) -> Any:
    """Addresses of a store or webhook may carry one.

    >>> _without_password("postgresql://me:secret@host/db?password=secret&x=1")
    'postgresql://me:***@host/db?password=***&x=1'
    """
    if not isinstance(value, str):
        return value
    return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"(://[^:/@]*:).*@", r"\1***@", value))
