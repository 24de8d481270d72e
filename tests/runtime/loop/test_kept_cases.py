"""Bad workers are remembered over a restart of the driver, by host and place."""

from control.worlds import world
from foretide.control.actions.registry import Quarantine
from foretide.control.policies.bypass import Bypass
from foretide.control.policies.worker_cases import MAX_CASES, WorkerCase, kept_cases, recalled_records
from foretide.control.policies.worker_records import WorkerRecord
from foretide.control.step import Control, step
from foretide.control.world.setup import Observed
from foretide.control_folder.folder import WORKER_CASES, ControlFolder
from foretide.runtime.loop.kept_cases import KeptCases
from helpers import NO_SPACE, FullDisk

HOSTS = {"0": "a", "1": "a", "2": "b", "3": "b"}
SLOW = {"0": 1.0, "1": 1.0, "2": 2.0, "3": 1.0}


class Driver:
    """A loop with a control folder; its executors have the ids that are given."""

    def __init__(self, folder, executors):
        self.control, self.cases, self.executors = Control((Bypass(),)), KeptCases(folder), executors
        self.state = self.control.start()

    def cycle(self, at, slowness, quarantined=frozenset()):
        seen = world(at, worker_slowness=slowness)
        seen = type(seen)(seen.setup, seen.snapshot, Observed(executors=self.executors, quarantined=quarantined))
        self.state, decision = step(self.control, self.cases.recall(self.control, self.state, seen), seen)
        self.cases.keep(self.control, self.state, seen)
        return decision.actions


def test_a_worker_in_the_place_of_a_bad_one_is_on_probation_with_its_failed_probes(tmp_path):
    folder = ControlFolder(str(tmp_path))
    first = Driver(folder, HOSTS)
    first.cycle(1000.0, SLOW)
    assert first.cycle(1010.0, SLOW) == (Quarantine("2"),)
    first.cycle(1020.0, {**SLOW, "2": 0.0}, frozenset({"2"}))
    first.cycle(1400.0, SLOW)  # let in on probation, and slow again
    first.cycle(1410.0, SLOW, frozenset({"2"}))
    assert [(case.place, case.failures) for case in folder.worker_cases()] == [(("b", 0), 1)]
    again = Driver(folder, {"5": "a", "6": "a", "7": "b", "8": "b"})
    assert again.cycle(2000.0, {"5": 1.0, "6": 1.0, "7": 2.0, "8": 1.0}) == ()
    assert again.state.policies["bypass"]["7"] == WorkerRecord("probation", 2000.0, 2000.0, failures=1)
    assert again.cycle(2010.0, {"5": 1.0, "6": 1.0, "7": 2.0, "8": 1.0}) == (Quarantine("7"),), (
        "after one cycle, not two"
    )


def test_a_worker_that_is_well_again_is_forgotten(tmp_path):
    folder = ControlFolder(str(tmp_path))
    folder.keep_worker_cases((WorkerCase("b", 0, 900.0),))
    well = dict.fromkeys(HOSTS, 1.0)
    driver = Driver(folder, HOSTS)
    for at in (1000.0, 1010.0, 1050.0):
        assert driver.cycle(at, well) == ()
    assert folder.worker_cases() == ()


def test_cases_are_written_only_when_they_change_and_a_full_disk_is_survived(tmp_path):
    disk = FullDisk(tmp_path)
    folder = ControlFolder(str(tmp_path), disk)
    driver = Driver(folder, HOSTS)
    driver.cycle(1000.0, SLOW)
    assert not (tmp_path / WORKER_CASES).exists()
    disk.error = NO_SPACE
    driver.cycle(1020.0, SLOW, frozenset({"2"}))
    disk.error = None
    driver.cycle(1030.0, SLOW, frozenset({"2"}))
    written = (tmp_path / WORKER_CASES).stat().st_mtime_ns
    driver.cycle(1040.0, SLOW, frozenset({"2"}))
    assert (tmp_path / WORKER_CASES).stat().st_mtime_ns == written
    (tmp_path / WORKER_CASES).write_text("{")
    assert Driver(folder, HOSTS).cycle(1100.0, SLOW) == ()


def test_cases_are_bounded_and_expire():
    many = tuple(WorkerCase("gone", slot, 1000.0) for slot in range(2 * MAX_CASES))
    kept = kept_cases(many, {}, Observed(executors=HOSTS), 2000.0)
    assert len(kept) == MAX_CASES
    assert kept_cases(kept, {}, Observed(executors=HOSTS), 90_000.0) == ()
    assert recalled_records([WorkerCase("a", 1, 0.0, 2)], Observed(executors=HOSTS), 90_000.0) == {}
