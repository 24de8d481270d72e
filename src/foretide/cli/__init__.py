"""The command line: a file for each command, or for a few that belong together."""

from foretide.cli.main import app

__all__ = ["app"]
