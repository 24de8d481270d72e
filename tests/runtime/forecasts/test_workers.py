"""Workers are foreseen by a net in a process of its own: replaced only by a better one, kept, and never needed."""

import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.generators.colocated import colocated_steps

from foretide.forecasting.budget import TrainingBudget
from foretide.forecasting.workers.frames import MachineFrame, WorkerNetSettings
from foretide.metrics.metric import Sample
from foretide.runtime.forecasts.service import ForecastService
from foretide.runtime.forecasts.worker_frames import Frames
from foretide.runtime.forecasts.worker_process import WorkerNetProcess, shares_of_naive
from foretide.runtime.forecasts.workers import LiveWorkerForecast
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
    targets=TARGETS, process_features=frozenset({TARGETS[0]}), horizon=2, hidden=8, keep=HELD + TRAINED, budget=POOR
)
STEP = 5.0
SETTINGS = ForecastSettings(net=NET, worker_step=STEP, workers_min_history=STEP * (HELD + TRAINED))


def samples_of(step, at):
    found = [Sample(MACHINE[name], "host", at, value) for name, value in step.machine.items()]
    for worker, features in step.workers.items():
        found += [Sample(WORKER[name], worker, at, value) for name, value in features.items()]
    return found


STEPS = colocated_steps(2, 420, workers=4)


def frames_of(steps):
    frames = Frames(STEP, 1000)
    for number, step in enumerate(steps):
        for sample in samples_of(step, number * STEP + 1.0):
            frames.add(sample)
    frames.pass_time(1e9)
    return list(frames.whole)


FRAMES = frames_of(STEPS)


@pytest.fixture(scope="module", name="saved")
def of_three_trainings(tmp_path_factory):
    """Poor, good, poor: what was said of each, the votes after the good one, and the folder that is left."""
    folder = tmp_path_factory.mktemp("models") / "workers"
    oracle = WorkerNetProcess(NET, 1, HELD + TRAINED, 1 << 29, 0.2, folder)
    news, votes = [], []

    def heard(frames, start):
        for number, frame in enumerate(frames, start=start):
            for message in oracle.take(number, frame):
                if "log" in message or message.get("problem"):
                    news.append(message)
                last.update(message)

    last = {}
    heard(FRAMES[: HELD + TRAINED], 0)
    for place, budget in enumerate((GOOD, POOR, POOR)):
        oracle.wait()
        heard(FRAMES[HELD + TRAINED + place : HELD + TRAINED + place + 1], HELD + TRAINED + place)
        votes.append(oracle.votes.tolist())
        if place < 2:
            oracle.net = replace(oracle.net, budget=budget)
            oracle.train()
    return news, votes, last, folder


def test_a_net_is_replaced_only_by_one_that_does_better(saved):
    first, second, third = (message["log"] for message in saved[0])
    assert first.endswith("of the last value's, replaced")
    assert "->" in second
    assert second.endswith(", replaced")
    assert third.endswith(", kept")
    assert all(message["problem"] is None for message in saved[0])


def test_a_net_that_beats_the_last_value_has_votes(saved):
    assert sum(saved[1][1]) >= 2
    assert set(saved[2]["workers"]) == {"w0", "w1", "w2", "w3"}
    assert set(saved[2]["votes"]) == set(TARGETS)


def test_a_saved_net_answers_from_its_own_process_and_its_end_is_survived(saved):
    class Clock:
        now = STEP * 380

        def __call__(self):
            return self.now

    clock = Clock()
    seer = ForecastService(SETTINGS, None, saved[3].parent, clock=clock)
    for number in range(378, 420):
        clock.now = number * STEP + 1.0
        seer.see([*samples_of(STEPS[number], clock.now), Sample("arrival_rate", "requests", clock.now, 5.0)])
        seer.turn()
    looks = {}
    for _ in range(6000):
        looks = seer.foresight(clock.now).by_series
        if (TARGETS[2], "w1") in looks:
            break
        time.sleep(0.02)
    else:
        raise AssertionError(seer.problems)
    look = looks[TARGETS[2], "w1"]
    assert look.by == "interference net"
    assert [point.seconds for point in look.points] == [5.0, 10.0]
    assert look.points[0].quantiles[0.05] <= look.points[0].quantiles[0.95]
    assert ("arrival_rate", "requests") in looks
    assert seer.foresight(clock.now + 60).trusted(TARGETS[2], "w1") is None  # too old
    process = seer._workers._line._process
    process.kill()
    process.wait()
    seer.turn()
    assert "has ended" in seer.problems[0]
    assert ("arrival_rate", "requests") in seer.foresight(clock.now).by_series
    seer.close()


def test_a_damaged_net_is_said_and_trained_anew(tmp_path):
    (tmp_path / "model.json").write_text("{")
    oracle = WorkerNetProcess(NET, 1, 10, 10, 0.2, tmp_path)
    assert "trained anew" in oracle.restore()
    assert oracle.model is None


def test_a_training_without_anything_to_learn_from_is_said():
    oracle = WorkerNetProcess(NET, 1, 60, 100, 0.2, None)
    still = MachineFrame({"m": 1.0}, {"w": dict.fromkeys(TARGETS, 1.0)})
    news = [message for number in range(60) for message in oracle.take(number, still)]
    oracle.wait()
    news += oracle.news()
    assert "no net of the workers was trained" in news[0]["problem"]


def test_no_process_is_started_before_there_is_enough_history():
    seer = LiveWorkerForecast(SETTINGS, None, ["/no/such/thing"])
    for number in range(100):
        seer.take(samples_of(STEPS[number], number * STEP))
        seer.turn(number * STEP)
    assert seer._line is None
    assert seer.problem is None


def test_no_process_is_started_for_a_lone_worker():
    seer = LiveWorkerForecast(replace(SETTINGS, workers_min_history=STEP), None, ["/no/such/thing"])
    for number in range(100):
        seer.take([Sample("worker_slowness", "driver", number * STEP, 1.0)])
        seer.turn(number * STEP)
    assert seer._line is None


def test_a_process_that_says_nothing_and_takes_nothing_stops_nobody():
    hanging = [sys.executable, "-c", "import time; time.sleep(600)"]
    seer = LiveWorkerForecast(replace(SETTINGS, workers_min_history=STEP), None, hanging)
    for number in range(400):
        seer.take(samples_of(STEPS[number], number * STEP))
        seer.turn(number * STEP)
    assert seer._line is not None
    assert seer.outlooks(2000.0) == {}
    seer.close()


def test_errors_are_shares_of_those_of_the_last_value():
    values = np.random.default_rng(1).uniform(1, 9, 40)
    frames = [MachineFrame({}, {"w": {"t": value}}) for value in values]
    perfect = [{"w": np.array([[value]])} for value in [*values[1:], 0.0]]
    last = [{"w": np.array([[value]])} for value in values]
    assert shares_of_naive(frames, perfect, ["t"]) == pytest.approx([0.0])
    assert shares_of_naive(frames, last, ["t"]) == pytest.approx([1.0])
    assert shares_of_naive(frames[:5], last[:5], ["t"]) is None
    gaps = [None if place % 10 == 0 else frame for place, frame in enumerate(frames)]
    told = [None if frame is None else said for frame, said in zip(gaps, last, strict=True)]
    assert shares_of_naive(gaps, told, ["t"]) == pytest.approx([1.0])
