"""Options of commands that take settings, and the settings that they give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from foretide.control.policies.registry import POLICIES
from foretide.settings.load import load_settings
from foretide.settings.settings import Settings

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="The settings file; by default FORETIDE_CONFIG, or foretide.toml in this folder."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as guards.cooldown=30; may be repeated."),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"One of {', '.join(POLICIES)}; may be repeated, the first one ranks highest.",
    ),
]


def chosen_settings(
    config: Path | None = None, sets: Sequence[str] | None = None, policies: Sequence[str] | None = None
) -> Settings:
    """The settings in force; `--policy a --policy b` is `--set control.policies=a,b`.

    >>> chosen_settings(policies=["hot_keys", "prediction_error"]).control.policies
    ('hot_keys', 'prediction_error')
    """
    ranked = [f"control.policies={','.join(policies)}"] if policies else []
    return load_settings(config, [*(sets or ()), *ranked])
