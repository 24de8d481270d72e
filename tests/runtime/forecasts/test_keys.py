"""The keys of a join are foreseen by a net in a process of its own: in time, kept, and never needed."""

from __future__ import annotations

import time

import pytest
from benchmarks.generators.hot_keys import zipf_windows

from foretide.forecasting.settings import TrainingBudget
from foretide.joins.settings import WindowSettings
from foretide.metrics.batch import BatchReport, JoinSide
from foretide.runtime.forecasts.keys import LiveKeyForecast
from foretide.runtime.live_joins import KeyWindows
from foretide.settings.forecasts import ForecastSettings

SETTINGS = ForecastSettings(keys_min_windows=20, niceness=0, pretrained=False)
WINDOWS = zipf_windows(seed=4, windows=40, keys=60, zipf=1.0, rows=4_000)
BUDGET = TrainingBudget(seeds=1, epochs=2, steps=5)
LIMIT = 240.0


def wait_for(found, what):
    deadline = time.monotonic() + LIMIT
    while not found():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.02)


def fed(live, windows):
    for number, window in windows:
        live.learn(number, [{key: float(rows) for key, rows in window.items()}] * 2)


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(tmp_path_factory):
    """What one process compiles, the next ones find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
        yield


@pytest.fixture(scope="module", name="kept")
def _kept(tmp_path_factory):
    """A folder with nets that were trained on the first windows, and what they shares of the next one."""
    folder = tmp_path_factory.mktemp("models") / "keys-j"
    live = LiveKeyForecast(SETTINGS, folder, BUDGET)
    fed(live, enumerate(WINDOWS[:20], start=1))
    wait_for(lambda: live.expected(20) is not None, "an answer")
    shares = live.expected(20)
    live.close()
    return folder, shares


def test_once_there_are_enough_windows_the_net_says_what_comes_next_on_both_sides(kept):
    _, shares = kept
    assert len(shares) == 2
    for side in shares:
        assert sum(side.values()) == pytest.approx(1.0, abs=0.01)
        assert len({*sorted(side, key=side.get)[-10:]} & {*sorted(WINDOWS[20], key=WINDOWS[20].get)[-10:]}) >= 6


def test_before_that_no_process_is_started_and_nothing_is_said(tmp_path):
    live = LiveKeyForecast(SETTINGS, tmp_path, BUDGET)
    fed(live, enumerate(WINDOWS[:19], start=1))
    assert not live.process.started
    assert live.expected(19) is None
    assert not live.is_awaited(19)


def test_kept_nets_answer_from_the_first_window_on_and_a_dead_process_is_told_and_replaced(kept):
    folder, _ = kept
    live = LiveKeyForecast(SETTINGS, folder, BUDGET)
    fed(live, enumerate(WINDOWS[20:22], start=1))
    wait_for(lambda: live.expected(2) is not None, "an answer by kept nets")
    assert live.expected(1) is None, "what is shares of another window is not shares of this one"
    assert live.is_awaited(3)
    assert not live.is_awaited(4), "who has missed a window is not waited for"
    live.process._child.kill()
    live.process._child.wait()
    fed(live, enumerate(WINDOWS[22:25], start=3))
    assert "has ended" in live.problem
    fed(live, enumerate(WINDOWS[:22], start=6))
    wait_for(lambda: live.expected(27) is not None, "an answer by the next process")
    assert live.problem is None
    live.close()


def test_a_damaged_folder_is_told_and_the_net_begins_anew(tmp_path):
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "model.json").write_text("{}", encoding="utf-8")
    live = LiveKeyForecast(SETTINGS, tmp_path, BUDGET)
    messages = []
    live.process._on_message = messages.append
    fed(live, [(1, WINDOWS[0])])
    wait_for(lambda: len(messages) >= 2, "two messages")
    assert "new ones are trained" in messages[0]["problem"]
    live.close()


def test_windows_of_a_join_wait_for_a_net_that_keeps_up_and_go_on_without_one_that_does_not(kept):
    folder, _ = kept
    live = LiveKeyForecast(SETTINGS, folder, BUDGET)
    windows = KeyWindows(WindowSettings(0.5, 0.5), live)
    for batch, counts in enumerate(WINDOWS[20:28]):
        side = JoinSide(sum(counts.values()), 0, counts, {0: "centre"})
        windows.see(BatchReport(batch, 1000.0 + batch, 1.0, 8_000, None, None), side, side)
        wait_for(lambda: live.expected(windows.count) is not None, "an answer")
        assert windows.complete == windows.count == batch + 1
        assert windows.forecast(4)[0]
    assert {"last-window", "key-ewma", "key-net"} == windows._votes[0].errors.keys()
    assert {*windows.forecast_by.split(" and ")} <= {"last-window", "key-ewma", "key-net"}
    assert windows.names == {0: "centre"}
    live.close()


def test_without_the_setting_there_is_no_process(tmp_path):
    live = LiveKeyForecast(ForecastSettings(keys=False, keys_min_windows=20), tmp_path)
    fed(live, enumerate(WINDOWS[:25], start=1))
    assert not live.process.started
    assert live.problem is None


def test_the_net_that_comes_along_answers_after_the_first_window():
    live = LiveKeyForecast(ForecastSettings(niceness=0), None)
    fed(live, [(1, WINDOWS[0])])
    wait_for(lambda: live.expected(1) is not None, "an answer")
    left, right = live.expected(1)
    live.close()
    assert left == right
    assert sum(left.values()) == pytest.approx(1.0, abs=0.01)
