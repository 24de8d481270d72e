"""Finding the control folder that a command means."""

from __future__ import annotations

from typing import Annotated

import typer

from foretide.control_folder.folder import ControlFolder
from foretide.errors import ControlFolderError
from foretide.status.running import find_running

AppOption = Annotated[str | None, typer.Option("--app", help="The running pipeline; needed only if there are several.")]
ControlOption = Annotated[str | None, typer.Option("--control", help="Its control folder, instead of its name.")]
JsonOption = Annotated[bool, typer.Option("--json", help="For programs.")]


def find_folder(app: str | None, control: str | None) -> ControlFolder:
    """The control folder given, or that of the running pipeline; an error when no pipeline was ever there."""
    folder = ControlFolder(control or find_running(app).control)
    if not folder.routes().edges and not folder.status():
        raise ControlFolderError(f"'{folder.location}' is no control folder: no pipeline has published routes there")
    return folder
