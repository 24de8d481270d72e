"""Options of commands that take settings, and the settings that they give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from foretide.runtime.settings.load import load_settings
from foretide.runtime.settings.model import Settings

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="The settings file; else FORETIDE_CONFIG, else foretide.toml in this folder."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as guards.cooldown=30; may be repeated."),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option("--policy", metavar="NAME", help="A policy; may be repeated, the first one ranks highest."),
]


def chosen_settings(
    config: Path | None = None, sets: Sequence[str] | None = None, policies: Sequence[str] | None = None
) -> Settings:
    """The settings in force; `--policy a --policy b` is `--set control.policies=a,b`."""
    ranked = [f"control.policies={','.join(policies)}"] if policies else []
    return load_settings(config, [*(sets or ()), *ranked])
