"""Which processes of this host are executors. Real processes stand in, with the command line of an executor."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, contextmanager

from foretide.probes.workers import ExecutorProcess, WorkerProbe, executor_of, find_executors

MAIN = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"


@contextmanager
def process(*arguments, name="java"):
    words = [name, "-c", WAIT, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, executable=sys.executable, stdin=pipe, stdout=pipe, text=True) as started:
        try:
            started.stdout.readline()
            yield started
        finally:
            started.kill()


def options(executor, app, host="b"):
    url = "spark://CoarseGrainedScheduler@b:1"
    return ["--driver-url", url, "--executor-id", executor, "--hostname", host, "--cores", "1", "--app-id", app]


def test_executors_of_an_application_are_found_by_their_command_lines():
    with ExitStack() as stack:
        first = stack.enter_context(process(MAIN, *options("0", "probe-app-1")))
        second = stack.enter_context(process(MAIN, *options("1", "probe-app-1", "c")))
        other = stack.enter_context(process(MAIN, *options("0", "probe-app-2")))
        stack.enter_context(process("org.apache.spark.deploy.worker.Worker", *options("5", "probe-app-1")))
        stack.enter_context(process("java", MAIN, *options("6", "probe-app-1"), name="tini"))
        stack.enter_context(process(f"java {MAIN} --executor-id 7 --app-id probe-app-1", name="bash"))
        assert find_executors("probe-app-1") == [
            ExecutorProcess("0", "probe-app-1", first.pid, "b"),
            ExecutorProcess("1", "probe-app-1", second.pid, "c"),
        ]
        assert {first.pid, second.pid, other.pid} <= {executor.pid for executor in find_executors()}
    assert find_executors("probe-app-1") == []


def test_a_child_that_still_looks_like_its_executor_is_not_a_second_one():
    with process(MAIN, *options("0", "probe-app-3")) as executor, process(MAIN, *options("0", "probe-app-3")):
        assert [found.pid for found in find_executors("probe-app-3")] == [executor.pid]


def test_executors_of_yarn_and_kubernetes_are_executors_too():
    for main in ("org.apache.spark.executor.YarnCoarseGrainedExecutorBackend", "k8s.KubernetesExecutorBackend"):
        assert executor_of(4, ["/opt/bin/java", main, *options("2", "a")]) == ExecutorProcess("2", "a", 4, "b")


def test_a_command_line_without_ids_or_of_nothing_is_no_executor():
    assert executor_of(4, []) is None
    assert executor_of(4, [""]) is None
    assert executor_of(4, ["java", MAIN, "--hostname", "b"]) is None
    assert executor_of(4, ["java", MAIN, "--executor-id"]) is None


def test_an_executor_that_is_lost_gives_no_samples_and_no_error():
    with process(MAIN, *options("0", "probe-app-4")) as executor:
        worker = WorkerProbe("0", executor.pid)
        assert worker.sample()
        executor.kill()
        executor.wait()
        assert worker.gone
        assert worker.sample() == []
        assert worker.sample() == []
