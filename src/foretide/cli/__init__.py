"""The command line: one file a command."""

from foretide.cli.main import app

__all__ = ["app"]
