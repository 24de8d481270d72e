"""The entry point of the `foretide` command, and of `python -m foretide`."""

import os
import sys

if os.path.realpath(sys.path[0] or ".") == os.path.realpath(f"{__file__}/.."):
    del sys.path[0]  # as a file of spark-submit: modules in here have names of Python's own


def quit_at_once(*_: object) -> None:
    """Answer Ctrl-C in one line: while modules are imported there is nothing to clean up, and Python may lose it."""
    sys.stderr.write("foretide: interrupted\n")
    sys.stderr.flush()
    os._exit(130)


def main() -> None:
    """Run the command line."""
    try:
        import signal  # noqa: PLC0415 - Ctrl-C may come here already

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, quit_at_once)  # until the command is imported
        import warnings  # noqa: PLC0415 - not before Ctrl-C is answered

        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        from foretide.cli import app  # noqa: PLC0415 - not before Ctrl-C is answered

        app()
    except KeyboardInterrupt:
        quit_at_once()


if __name__ == "__main__":
    main()
