"""Workers are foreseen by a net in a process of its own: replaced only by a better one, kept, and never needed."""

import math
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.generators.colocated import colocated_steps

from foretide.forecasting.settings import TrainingBudget, WorkerNetSettings
from foretide.forecasting.worker_frames import MachineFrame
from foretide.metrics.metric import Sample
from foretide.runtime.forecasts.service import ForecastService
from foretide.runtime.forecasts.worker_process import WorkerNetProcess, WorkerNetRequest, relative_errors
from foretide.runtime.forecasts.workers import LiveWorkerForecast, WorkerFrames
from foretide.settings.forecasts import ForecastSettings

WORKER = {
    "cpu": "worker_cpu_user_percent",
    "sending_time": "worker_outbound_batch_sending_time_ms",
    "queuing_time": "worker_inbound_queuing_time_ms",
    "arrivals": "worker_inbound_tuples_per_second",
    "backlog": "worker_active_tasks",
}
MACHINE = {"cpu": "machine_cpu_busy_percent", "disk": "machine_cpu_iowait_percent", "memory": "machine_cores"}
TARGETS = (WORKER["cpu"], WORKER["sending_time"], WORKER["queuing_time"])
HELD, TRAINED = 75, 300  # what is trained on has one size, so that everything compiles once
GOOD, POOR = TrainingBudget(seeds=1, epochs=8), TrainingBudget(seeds=1, epochs=1, steps=1)
NET = WorkerNetSettings(
    net="plain",
    targets=TARGETS,
    process_features=frozenset({TARGETS[0]}),
    horizon=2,
    hidden=8,
    keep=HELD + TRAINED,
    budget=POOR,
)
STEP = 5.0
SETTINGS = ForecastSettings(net=NET, worker_step=STEP, workers_min_history=STEP * (HELD + TRAINED), niceness=0)


def samples_of(step, at):
    found = [Sample(MACHINE[name], "host", at, value) for name, value in step.machine.items()]
    for worker, features in step.workers.items():
        found += [Sample(WORKER[name], worker, at, value) for name, value in features.items()]
    return found


STEPS = colocated_steps(2, 420, workers=4)


def frames_of(steps):
    frames = WorkerFrames(STEP, 1000)
    for number, step in enumerate(steps):
        for sample in samples_of(step, number * STEP + 1.0):
            frames.add(sample)
    frames.pass_time(1e9)
    return list(frames.whole)


FRAMES = frames_of(STEPS)


@pytest.fixture(scope="module", name="saved")
def of_three_trainings(tmp_path_factory):
    """Poor, good, poor: what was said of each, the last messages, and the folder that is left."""
    folder = tmp_path_factory.mktemp("models") / "workers"
    process = WorkerNetProcess(WorkerNetRequest(NET, 1, HELD + TRAINED, 1 << 29, 0.2, folder=folder))
    news = []

    def heard(frames, start):
        for number, frame in enumerate(frames, start=start):
            for message in process.learn(number, frame):
                if "log" in message or message.get("problem"):
                    news.append(message)
                last.update(message)

    last = {}
    heard(FRAMES[: HELD + TRAINED], 0)
    for place, budget in enumerate((GOOD, POOR, POOR)):
        process.wait()
        heard(FRAMES[HELD + TRAINED + place : HELD + TRAINED + place + 1], HELD + TRAINED + place)
        if place < 2:
            process.net = replace(process.net, budget=budget)
            process.train()
    return news, last, folder


def test_a_net_is_replaced_only_by_one_that_does_better(saved):
    first, second, third = (message["log"] for message in saved[0])
    assert first.endswith("of the last value's, replaced")
    assert "->" in second
    assert second.endswith(", replaced")
    assert third.endswith(", kept")
    assert all(message["problem"] is None for message in saved[0])


def test_every_worker_is_forecast(saved):
    assert set(saved[1]["workers"]) == {"w0", "w1", "w2", "w3"}
    assert all(set(targets) == set(TARGETS) for targets in saved[1]["workers"].values())


def test_a_saved_net_answers_from_its_own_process_and_its_end_is_survived(saved):
    class Clock:
        now = STEP * 380

        def __call__(self):
            return self.now

    clock = Clock()
    live = ForecastService(SETTINGS, None, saved[2].parent, clock=clock)
    for number in range(378, 420):
        clock.now = number * STEP + 1.0
        live.see([*samples_of(STEPS[number], clock.now), Sample("arrival_rate", "requests", clock.now, 5.0)])
        live.turn()
    forecasts = {}
    for _ in range(6000):
        forecasts = live.forecasts(clock.now).by_series
        if (TARGETS[2], "w1") in forecasts:
            break
        time.sleep(0.02)
    else:
        raise AssertionError(live.problems)
    forecast = forecasts[TARGETS[2], "w1"]
    assert forecast.by == "plain net"
    assert [point.seconds for point in forecast.points] == [5.0, 10.0]
    assert forecast.points[0].quantiles[0.05] <= forecast.points[0].quantiles[0.95]
    assert ("arrival_rate", "requests") in forecasts
    assert (TARGETS[2], "w1") not in live.forecasts(clock.now + 60).by_series  # too old
    (workers,) = (each for each in live.forecasters if hasattr(each, "process"))
    process = workers.process._child
    process.kill()
    process.wait()
    live.turn()
    assert "has ended" in live.problems[0]
    assert ("arrival_rate", "requests") in live.forecasts(clock.now).by_series
    live.close()


def test_a_damaged_net_is_said_and_trained_anew(tmp_path):
    (tmp_path / "model.json").write_text("{")
    process = WorkerNetProcess(WorkerNetRequest(NET, 1, 10, 10, 0.2, folder=tmp_path))
    assert "a new one is used" in next(iter(process.restore()))["problem"]
    assert process.model is None


def test_a_training_without_anything_to_learn_from_is_said():
    process = WorkerNetProcess(WorkerNetRequest(NET, 1, 60, 100, 0.2))
    still = {"host": MachineFrame({"m": 1.0}, {"w": dict.fromkeys(TARGETS, 1.0)})}
    news = [message for number in range(60) for message in process.learn(number, still)]
    process.wait()
    news += process.outcome()
    assert "no net of the workers was trained" in news[0]["problem"]


def test_no_process_is_started_before_there_is_enough_history():
    live = LiveWorkerForecast(SETTINGS, None, command=["/no/such/thing"])
    for number in range(100):
        live.see(samples_of(STEPS[number], number * STEP))
        live.turn(number * STEP)
    assert not live.process.started
    assert live.problems == []


def test_no_process_is_started_for_a_lone_worker():
    live = LiveWorkerForecast(replace(SETTINGS, workers_min_history=STEP), None, command=["/no/such/thing"])
    for number in range(100):
        live.see([Sample("worker_slowness", "driver", number * STEP, 1.0)])
        live.turn(number * STEP)
    assert not live.process.started


def test_a_process_that_says_nothing_and_takes_nothing_stops_nobody():
    hanging = [sys.executable, "-c", "import time; time.sleep(600)"]
    live = LiveWorkerForecast(replace(SETTINGS, workers_min_history=STEP), None, command=hanging)
    for number in range(400):
        live.see(samples_of(STEPS[number], number * STEP))
        live.turn(number * STEP)
    assert live.process.started
    assert live.forecasts(2000.0) == {}
    live.close()


def test_errors_are_shares_of_those_of_the_last_value():
    values = np.random.default_rng(1).uniform(1, 9, 40)
    frames = [{"host": MachineFrame({}, {"w": {"t": value}})} for value in values]
    perfect = [{"w": np.array([[value]])} for value in [*values[1:], 0.0]]
    last = [{"w": np.array([[value]])} for value in values]
    assert relative_errors(frames, perfect, ["t"]) == pytest.approx([0.0])
    assert relative_errors(frames, last, ["t"]) == pytest.approx([1.0])
    assert relative_errors(frames[:5], last[:5], ["t"]) is None
    gaps = [None if place % 10 == 0 else frame for place, frame in enumerate(frames)]
    told = [None if frame is None else said for frame, said in zip(gaps, last, strict=True)]
    assert relative_errors(gaps, told, ["t"]) == pytest.approx([1.0])


# ---- frames


def worker(at, value, metric="worker_slowness", name="1"):
    return Sample(metric, name, at, value)


def test_a_frame_holds_all_of_a_step_and_silence_is_a_gap():
    frames = WorkerFrames(5.0, keep=100)
    assert frames.add(worker(1.0, 1.5)) == []
    assert frames.add(Sample("machine_cpu_busy_percent", "host", 4.0, 80.0)) == []
    assert frames.add(Sample("machine_cpu_busy_percent", "host/core1", 4.0, 99.0)) == []
    for sample in (worker(4.0, math.nan), worker(4.0, -1.0), Sample("latency_p99_ms", "q", 4.0, 7.0)):
        assert frames.add(sample) == []
    first, gap = frames.add(worker(11.0, 2.0))
    assert gap is None
    assert first == {"host": MachineFrame({"machine_cpu_busy_percent": 80.0}, {"1": {"worker_slowness": 1.5}})}
    assert frames.last == 1
    assert frames.pass_time(16.0) == []
    (second,) = frames.pass_time(16.5)
    assert second == {"": MachineFrame({}, {"1": {"worker_slowness": 2.0}})}
    assert frames.add(worker(14.9, 9.0)) == []
    assert frames.add(worker(22.0, 3.0)) == []
    gap, third = frames.pass_time(27.0)
    assert gap is None
    assert third[""].workers == {"1": {"worker_slowness": 3.0}}
    assert len(frames.whole) == 5


def test_each_machine_has_a_frame_of_its_own():
    asked = []

    def hosts():
        asked.append(True)
        return {"1": "a", "2": "a", "3": "b"}

    frames = WorkerFrames(5.0, keep=100, hosts=hosts)
    for at in (1.0, 6.0, 11.0):
        for name in ("1", "2", "3"):
            frames.add(worker(at, float(name), name=name))
        for host in ("a", "b", "c"):
            frames.add(Sample("machine_cpu_busy_percent", host, at, float(ord(host))))
    first, second = frames.whole
    assert first == second
    assert {name: (set(frame.workers), frame.machine) for name, frame in first.items()} == {
        "a": ({"1", "2"}, {"machine_cpu_busy_percent": 97.0}),
        "b": ({"3"}, {"machine_cpu_busy_percent": 98.0}),
    }
    assert len(asked) == 1


def test_one_host_under_two_names_is_one_machine():
    frames = WorkerFrames(5.0, keep=100, hosts=lambda: {"1": "10.0.0.7"})
    frames.add(worker(1.0, 1.0))
    frames.add(Sample("machine_cpu_busy_percent", "host", 1.0, 50.0))
    (frame,) = frames.pass_time(20.0)[:1]
    assert frame == {"host": MachineFrame({"machine_cpu_busy_percent": 50.0}, {"1": {"worker_slowness": 1.0}})}


def test_frames_survive_a_clock_that_jumps():
    frames = WorkerFrames(5.0, keep=1000)
    frames.add(worker(1.0, 1.0))
    assert len(frames.add(worker(1e9, 1.0))) == 61
    assert frames.add(worker(5.0, 1.0)) == []  # set back
    assert len(frames.add(worker(10.0, 1.0))) == 1
