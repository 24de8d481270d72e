"""How commands end: one sentence, one exit code, and JSON where JSON was asked for."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli.exits import run_command
from foretide.cli.main import app
from foretide.errors import ControlFolderError
from helpers import environment

FORETIDE = [sys.executable, "-m", "foretide"]
MODEL = '[[operator]]\nname = "caf\u00e9"\nservice_rate = 2.0\narrivals = 1.0\nprocessors = 2\n'


class Terminated(KeyboardInterrupt):
    exit_code = 143


class UnprintableError(Exception):
    def __str__(self):
        raise ValueError


@pytest.fixture
def end(capsys):
    """Runs something as a command; says its exit code, and what it wrote to stdout and stderr."""

    def call(error, as_json=False):
        with pytest.raises(SystemExit) as ended:
            run_command(
                lambda: throw(error) if isinstance(error, BaseException) else error, lambda: "plan", as_json=as_json
            )
        out, err = capsys.readouterr()
        assert as_json or str(ended.value) in err
        return ended.value.code, out, err

    return call


def throw(error):
    raise error


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (ControlFolderError("no folder 'x'"), 1, "foretide: no folder 'x'\n"),
        (ControlFolderError("no folder '\x1b[2J\udcff'"), 1, "foretide: no folder '\\x1b[2J\\udcff'\n"),
        (KeyboardInterrupt(), 130, "foretide: interrupted\n"),
        (Terminated("interrupted by SIGTERM"), 143, "foretide: interrupted by SIGTERM\n"),
        (SystemExit(143), 143, ""),
        (SystemExit(None), 0, ""),
        (SystemExit(77), 1, ""),
        (SystemExit("no more"), 1, "foretide: no more\n"),
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
        (None, 0, ""),
        (2, 2, ""),
    ],
)
def test_a_command_ends_with_a_code_and_a_sentence(end, error, code, sentence):
    assert end(error) == (code, "", sentence)


@pytest.mark.parametrize("error", [OverflowError("too\nlarge"), RecursionError(), UnprintableError(), MemoryError()])
def test_an_unexpected_error_is_a_sentence_and_its_trace_is_in_a_private_file(end, error):
    code, out, err = end(error)
    kind = type(error).__name__
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"foretide plan failed unexpectedly: {kind}")
    file = Path(re.search("the trace is in (.*); set FORETIDE_DEBUG=1 to see it here", err)[1])
    assert file == Path(os.environ["FORETIDE_HOME"]) / "errors.log"
    assert "Traceback" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_file_of_traces_does_not_grow_without_end(end):
    file = Path(os.environ["FORETIDE_HOME"]) / "errors.log"
    file.write_bytes(b"x" * 2_000_000)
    end(OverflowError())
    assert 0 < file.stat().st_size < 100_000


def test_a_trace_that_fits_nowhere_else_is_in_a_temporary_file(end, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", "/dev/null")
    file = Path(re.search("the trace is in (.*); set", end(OverflowError())[2])[1])
    assert "OverflowError" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    file.unlink()


def test_a_trace_that_fits_nowhere_is_shown_on_request(end, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", "/dev/null")
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    sentence = "foretide plan failed unexpectedly: OverflowError; set FORETIDE_DEBUG=1 to see it here\n"
    assert end(OverflowError()) == (1, "", sentence)


@pytest.mark.parametrize("error", [OverflowError("too large"), ControlFolderError("no folder")])
def test_the_trace_is_shown_on_request(end, monkeypatch, error):
    monkeypatch.setenv("FORETIDE_DEBUG", "1")
    _, _, err = end(error)
    assert err.startswith("Traceback")
    assert err.endswith(f"{error}\n")
    assert not (Path(os.environ["FORETIDE_HOME"]) / "errors.log").exists()


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [(ControlFolderError("no folder"), 1, "ControlFolderError"), (OverflowError("x"), 1, "OverflowError"),
     (KeyboardInterrupt(), 130, "Interrupted")],
)  # fmt: skip
def test_with_json_an_error_is_json(end, error, code, kind):
    found, out, err = end(error, as_json=True)
    assert (found, err) == (code, "")
    told = json.loads(out)["error"]
    assert (told["kind"], told["command"]) == (kind, "plan")
    assert str(error) in told["message"]


@pytest.mark.parametrize(
    ("arguments", "kind", "command", "code"),
    [
        (("nothing", "--json"), "UsageError", "", 2),
        (("plan", "--json", "--odd"), "UsageError", "plan", 2),
        (("plan", "--json"), "PipelineNotFoundError", "plan", 1),
        (("stop", "--json", "--odd"), "UsageError", "stop", 2),
        (("route", "set", "work", "1:2", "--json"), "PipelineNotFoundError", "route set", 1),
        (("demo", "url-count", "--json", "--duration", "1s"), "UsageError", "demo url-count", 2),
    ],
)
def test_refusals_of_commands_are_json_too(arguments, kind, command, code):
    result = CliRunner().invoke(app, arguments)
    told = json.loads(result.stdout)["error"]
    assert (result.exit_code, told["kind"], told["command"], result.stderr) == (code, kind, command, "")


def test_json_after_two_dashes_is_an_argument():
    result = CliRunner().invoke(app, ["drain", "--", "--json"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert isinstance(result.exception, SystemExit)


def test_wrong_usage_shows_how_the_command_is_called():
    result = CliRunner().invoke(app, ["plan", "--budget", "\x1b[2J"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: foretide plan ")
    assert "Try 'foretide plan --help' for help.\nforetide: " in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("columns", ["99999999", "9" * 5000, "\u00b2", "-1", "nan", "", "0", "00"])
def test_no_width_of_a_terminal_is_absurd(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    result = CliRunner().invoke(app, ["settings"])
    assert result.exit_code == 0
    assert 40 <= max(len(line) for line in result.stdout.splitlines()) <= 400


# ---- real processes


def run(*arguments, code, **options):
    done = subprocess.run(
        [*FORETIDE, *arguments], stderr=subprocess.PIPE, text=True, check=False, **{"env": environment()} | options
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("arguments", [("settings",), ("settings", "--json"), ("--help",)])
def test_output_that_cannot_be_written_is_one_sentence(arguments):
    with Path("/dev/full").open("w") as full:
        done = run(*arguments, code=1, stdout=full)
    assert done.stderr == "foretide: the output cannot be written: No space left on device\n"


def test_a_reader_that_has_seen_enough_is_no_error():
    script = f"{sys.executable} -m foretide settings --all --json | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode in {0, 1}, done.stderr) == (True, "")


def test_names_are_printed_where_the_terminal_knows_ascii_only(tmp_path):
    (tmp_path / "model.toml").write_text(MODEL, encoding="utf-8")
    ascii_only = environment() | {"PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    done = run("plan", str(tmp_path / "model.toml"), "--budget", "3", code=0, stdout=subprocess.PIPE, env=ascii_only)
    assert "caf" in done.stdout
    assert done.stderr == ""


def test_closed_streams_are_no_error():
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m foretide apps >&- 2>&-"], env=environment(), check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("module", ["foretide.cli", "typer", "rich", "foretide.cli.pipelines"])
def test_ctrl_c_while_modules_are_imported_is_one_line(module):
    code = f"""
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["foretide", "list"]
from foretide.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "foretide: interrupted\n")


def test_ctrl_c_while_a_command_runs_lets_it_clean_up():
    code = """
import os, signal, sys
import foretide.cli.pipelines as pipelines
def interrupted():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        print("cleaned up")
pipelines.read_pipelines = interrupted
sys.argv = ["foretide", "list"]
from foretide.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "cleaned up\n", "foretide: interrupted\n")


def test_commands_print_with_the_console_of_foretide_only():
    """What others wrote is printed with its markup and control characters escaped; JSON has no NaN."""
    for file in Path(sys.modules["foretide.cli"].__file__).parent.rglob("*.py"):
        if file.name not in {"console.py", "main.py"}:
            found = re.findall(
                r"typer\.s?echo|echo\((?:json\.dumps|to_json)|from rich\.(?:console import .*\bConsole\b|text import)",
                file.read_text(),
            )
            assert not found, file.name


@pytest.mark.parametrize("number", ["99999", "9223372036854775808"])
def test_a_dashboard_takes_no_number_that_is_not_a_socket(number):
    result = CliRunner().invoke(app, ["dashboard", "--socket", number])
    assert result.exit_code == 2
    assert "must be the number of an open socket" in " ".join(result.output.split())
