"""How a command ends: its exit code, and what it prints when it fails.

0    done
1    refused or failed; one sentence on stderr says why
2    wrong usage
130  interrupted (Ctrl-C)
143  terminated (SIGTERM)

With `--json`, the sentence is printed as `{"error": {"kind": ..., "message": ..., "command": ...}}` on stdout instead.
A failure that Foretide does not expect leaves its trace in a file; `FORETIDE_DEBUG=1` prints it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from foretide.errors import ForetideError
from foretide.secrets import masked
from foretide.text import printable

_CODES = frozenset({0, 1, 2, 130, 143})
_INTERRUPTED = 130
_MAX_COLUMNS = 400
_MAX_DIGITS = 9
_MAX_ERROR_LETTERS = 500
_MAX_LOG_BYTES = 1_000_000
_TRACES = "errors.log"
_WORDS = {"Input should be": "must be", "a valid integer": "a whole number", "a valid number": "a number"}
_WRITERS = ("rich.", "typer.", "click.", "foretide.cli.exits")


class CommandExit(SystemExit):
    """The end of a command that failed; its text is what was said, and its cause is the error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code)
        self.message = message

    def __str__(self) -> str:
        return self.message


class ScriptExit(SystemExit):
    """The end of a program that `foretide run` has run; its exit code is kept, whatever it is."""


def run_command(call: Callable[[], object], command: Callable[[], str], *, as_json: bool) -> NoReturn:
    """Run a command, print why it failed if it does, and exit. `command` says its name."""
    _prepare_terminal()
    cause: BaseException | None = None
    try:
        with _shown_warnings():
            result = call()
            sys.stdout.flush()
        failure, code = None, result if isinstance(result, int) else 0
    except ScriptExit:
        raise
    except BaseException as error:  # noqa: BLE001 - this is the end of the process
        cause = error.__cause__ if isinstance(error.__cause__, KeyboardInterrupt) else error
        described = _describe(cause, command())
        failure = described and replace(described, message=masked(described.message))
        code = _code_of(error) if failure is None else failure.code
    if failure is not None:
        _report(failure, cause, command(), as_json=as_json)
    raise CommandExit(code if code in _CODES else 1, failure.message if failure else "") from cause


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failure in one sentence; `usage` comes before it where a command was called wrongly."""

    kind: str
    message: str
    code: int = 1
    usage: str = ""


def _describe(error: BaseException, command: str) -> _Failure | None:  # noqa: PLR0911 - a table of errors
    """What to say of an error; None if there is nothing to say, or if it was said already."""
    name = f"foretide {command}".strip()
    match error:
        case SystemExit(code=str() as text):
            return _Failure("Failed", text)
        case SystemExit():
            return None
        case BrokenPipeError():  # whoever read the output has seen enough
            _drop_output()
            return None
        case KeyboardInterrupt():
            code = getattr(error, "exit_code", _INTERRUPTED)
            return _Failure("Interrupted", printable(error) or "interrupted", code)
        case ForetideError():
            return _Failure(type(error).__name__, printable(error))
        case _ if hasattr(error, "format_message"):
            return _describe_usage(error)
    if isinstance(error, OSError) and _is_of_output(error):
        _drop_output()
        return _Failure("OutputError", f"the output cannot be written: {error.strerror}")
    text = " ".join(printable(error).split())[:_MAX_ERROR_LETTERS]
    kind = type(error).__name__
    trace = "" if _debugging() else f"{_keep_trace(error)}; set FORETIDE_DEBUG=1 to see it here"
    return _Failure(kind, f"{name} failed unexpectedly: {kind}{': ' if text else ''}{text}{trace}")


def _describe_usage(error: Any) -> _Failure | None:
    """An error of the command line's parser."""
    if type(error).__name__ == "NoArgsIsHelpError":  # the help was printed
        error.show()
        return None
    context = getattr(error, "ctx", None)
    usage = f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n" if context else ""
    message = re.sub(r", unable to parse[^,;]*$", "", printable(error.format_message()))
    for words, own in _WORDS.items():
        message = message.replace(words, own)
    return _Failure("UsageError", message, error.exit_code, usage)


def _code_of(error: BaseException) -> int:
    code = error.code if isinstance(error, SystemExit) else getattr(error, "exit_code", 1)
    return code if isinstance(code, int) else 0 if code is None else 1


def _report(failure: _Failure, cause: BaseException | None, command: str, *, as_json: bool) -> None:
    from foretide.cli.console import print_json  # noqa: PLC0415 - only where something failed

    with contextlib.suppress(OSError):  # there is nowhere to say it
        if cause is not None and failure.code == 1 and _debugging():
            sys.stderr.write(printable(masked("".join(traceback.format_exception(cause)))))
        if as_json and failure.kind != "OutputError":
            error = {"kind": failure.kind, "message": failure.message, "command": command}
            print_json({"error": error})
            return
    with contextlib.suppress(OSError):
        prefix = "" if failure.message.startswith("foretide ") else "foretide: "
        sys.stderr.write(f"{failure.usage}{_red(f'{prefix}{failure.message}')}\n")
        sys.stderr.flush()


def _red(text: str) -> str:
    return f"\x1b[31m{text}\x1b[0m" if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else text


def _debugging() -> bool:
    return os.environ.get("FORETIDE_DEBUG", "0") not in {"", "0"}


def _is_of_output(error: BaseException) -> bool:
    """Whether stdout could not be written: what failed is Rich, Typer, or the last flush."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, OSError) and error.filename is None and modules[-1].startswith(_WRITERS)


def _drop_output() -> None:
    """Send what is not yet written nowhere, so that Python does not try again when it exits."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _keep_trace(error: BaseException) -> str:
    """Write the trace to a private file, and say where it is."""
    trace = masked("".join(traceback.format_exception(error))).encode("utf-8", "backslashreplace")
    try:
        from foretide.status.pipelines import private_home  # noqa: PLC0415 - only where something failed

        return _append(str(private_home() / _TRACES), trace)
    except (OSError, ForetideError):
        return _keep_in_temporary_file(trace)


def _keep_in_temporary_file(trace: bytes) -> str:
    import tempfile  # noqa: PLC0415 - only where something failed

    try:
        handle, file = tempfile.mkstemp(prefix="foretide-", suffix=".log")
        with os.fdopen(handle, "wb") as target:
            target.write(trace)
    except OSError:
        return ""
    return f"; the trace is in {file}"


def _append(file: str, content: bytes) -> str:
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "ab") as target:
        if target.tell() > _MAX_LOG_BYTES:
            target.truncate(0)
        target.write(content)
    return f"; the trace is in {file}"


# ---- terminal


def restore_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, now that the command is imported; see `foretide.__main__`."""
    if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "quit_at_once":
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _prepare_terminal() -> None:
    """Let no text fail to be printed, and no width be absurd."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started the command
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - for good
        with contextlib.suppress(AttributeError, ValueError, OSError):
            getattr(sys, name).reconfigure(errors="backslashreplace")
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        size = os.environ.get(name, "")
        if not (size.isascii() and size.isdecimal() and size.strip("0")):
            os.environ.pop(name, None)
        elif len(size) > _MAX_DIGITS or int(size) > _MAX_COLUMNS:
            os.environ[name] = str(_MAX_COLUMNS)


@contextlib.contextmanager
def _shown_warnings() -> Iterator[None]:
    """Print what `foretide.status` warns of on stderr, once each."""
    handler, logger = _Once(), logging.getLogger("foretide.status")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Once(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = printable(record.getMessage())
        if message not in self._said:
            self._said.add(message)
            with contextlib.suppress(OSError):
                sys.stderr.write(f"foretide: {message}\n")
