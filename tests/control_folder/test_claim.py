"""A control folder belongs to one query, and its plans to the state in that query's checkpoint."""

from __future__ import annotations

import json
import shutil

import pytest

from foretide.control_folder.claim import Claim, admit, check_plans, check_query
from foretide.control_folder.filesystem import LocalFilesystem
from foretide.control_folder.folder import ControlFolder
from foretide.errors import ControlFolderError, JoinPlanError
from foretide.joins.placement.plan_change import BatchHistory, Maxima
from foretide.joins.placement.spec import JoinBound, JoinSpec
from foretide.joins.placement.timeline import Timeline

HOT = 7


class Home:
    """A control folder beside a checkpoint."""

    def __init__(self, path, query="query-a"):
        self.path, self.query = path, query
        self.checkpoint = path / "checkpoint"
        self.folder = ControlFolder(str(path / "control"))
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": query}))

    def build(self):
        """What `ft.join` does."""
        self.folder.change_join_plan("j", lambda plan: Timeline() if plan is None else plan.without_hard_ends())
        self.folder.declare_join("j", JoinSpec(JoinBound(5, 5), 4))

    def start(self, token="token", fresh=False):
        self.build()
        admit(self.folder, Claim(self.query, str(self.checkpoint), {"j": token}), fresh=fresh)

    def split(self, start):
        """A change of plan, in its two steps."""
        self.folder.change_join_plan("j", lambda plan: plan.with_hard_end({HOT}, start))
        self.folder.change_join_plan("j", lambda plan: plan.continued({HOT: ((start, start + 1),)}, start))

    @property
    def token(self):
        return json.loads((self.path / "control" / "join-j.json").read_text()).get("query")

    def copy(self, to):
        shutil.copytree(self.path, to)
        return Home(to, self.query)


@pytest.fixture
def home(tmp_path):
    """A query that has placed rows by a plan that changed twice; a backup was made after the first change."""
    made = Home(tmp_path / "home")
    made.start(fresh=True)
    made.split(100)
    shutil.copytree(made.path / "control", tmp_path / "backup")
    made.split(200)
    return made


def remove(*names):
    return lambda control, _: [(control / name).unlink() for name in names]


DAMAGE = {
    "folder lost": lambda control, _: shutil.rmtree(control),
    "plan lost": remove("join-j.json", "joins.json"),
    "folder lost, but for the claim": remove("join-j.json", "joins.json", "past-j.json"),
    "emptied": lambda control, _: (control / "join-j.json").write_text('{"format": 1, "version": 9, "plan": []}'),
    "older": lambda control, backup: shutil.copy(backup / "join-j.json", control),
    "older folder": lambda control, backup: shutil.copytree(backup, control, dirs_exist_ok=True),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_plan_that_is_lost_emptied_or_older_than_the_state_is_refused_again_and_again(home, tmp_path, name):
    DAMAGE[name](home.path / "control", tmp_path / "backup")
    for _ in range(2):
        with pytest.raises(JoinPlanError, match="was not placed by the plan"):
            home.start("next")
        with pytest.raises(JoinPlanError, match="was not placed by the plan"):
            check_plans(home.folder, str(home.checkpoint))
    assert home.token != "next", "its batches fail"


def test_an_older_plan_with_an_announced_end_is_not_taken_for_the_last_one(home, tmp_path):
    """Building the join takes the end back, which writes the plan: that must not make the checkpoint accept it."""
    older = ControlFolder(str(tmp_path / "backup"))
    older.change_join_plan("j", lambda plan: plan.with_hard_end({HOT}, 900))
    shutil.copy(tmp_path / "backup" / "join-j.json", home.path / "control")
    with pytest.raises(JoinPlanError, match="an older one"):
        home.start("next")


def test_the_last_plan_is_accepted_by_every_start_wherever_both_were_moved_to(home, tmp_path):
    home.start("second")
    assert home.token == "second"
    moved = home.copy(tmp_path / "moved")
    moved.start("third")
    moved.split(300)
    moved.start("fourth")
    assert moved.token == "fourth"
    assert moved.folder.claim().checkpoint == str(moved.checkpoint)
    check_plans(home.folder, str(home.checkpoint))
    home.start("fifth")


def test_an_unfinished_change_and_forgotten_versions_do_not_keep_a_query_from_its_plan(home):
    home.folder.change_join_plan("j", lambda plan: plan.with_hard_end({HOT}, 900))
    home.start("second")
    assert home.folder.join_plan("j").hard_ends == {}
    home.folder.change_join_plan("j", lambda plan: plan.without_before(150))
    home.start("third")


@pytest.mark.parametrize("published", [False, True])
def test_a_crash_while_a_plan_is_published_leaves_a_plan_that_is_accepted(home, published):
    class Crashing(LocalFilesystem):
        def write(self, name, text):
            if name == "join-j.json" and not published:
                raise KeyboardInterrupt
            super().write(name, text)
            if name == "join-j.json":
                raise KeyboardInterrupt

    before = home.folder.join_plan("j")
    crashing = ControlFolder(home.folder.location, Crashing(home.path / "control"))
    with pytest.raises(KeyboardInterrupt):
        crashing.change_join_plan("j", lambda plan: plan.continued({HOT: ((5, 6),)}, 300))
    assert (home.folder.join_plan("j") == before) != published
    home.start("second")
    older = Timeline().continued({HOT: ((9, 10),)}, 1)
    home.folder.put_join_plan("j", older)
    with pytest.raises(JoinPlanError):
        home.start("third")


def test_a_plan_that_was_replaced_while_the_query_ran_is_not_changed_any_more(home, tmp_path):
    shutil.copy(tmp_path / "backup" / "join-j.json", home.path / "control")
    with pytest.raises(JoinPlanError, match="was replaced by another one"):
        home.split(300)
    with pytest.raises(JoinPlanError, match="was not placed by the plan"):
        home.start("next")


def test_a_plan_is_not_changed_while_its_checkpoint_is_not_known_and_may_be_after_the_next_start(home):
    (home.path / "control" / "query.json").write_text("{")
    with pytest.raises(JoinPlanError, match=r"query\.json is gone or damaged"):
        home.split(300)
    assert home.token == "token", "the query runs on"
    home.start("second")
    home.split(400)
    home.start("third")


def test_plans_that_are_changed_or_put_back_keep_the_token_of_the_query(home):
    assert home.token == "token"
    (home.path / "control" / "join-j.json").write_text("{")
    home.folder.put_join_plan("j", Timeline())
    assert home.token == "token"


# ---- other queries


def test_a_folder_whose_plan_placed_rows_of_another_query_is_refused(home, tmp_path):
    other = Home(tmp_path / "other", "query-b")
    other.folder = home.folder
    for fresh in (True, False):
        with pytest.raises(ControlFolderError, match=r"belongs to .* id query-a .*folder of its own"):
            other.start("stolen", fresh=fresh)
    home.start("second")


def test_a_folder_with_an_empty_plan_may_be_taken_over_but_not_what_was_known_of_its_batches(tmp_path):
    first, second = Home(tmp_path / "first"), Home(tmp_path / "second", "query-b")
    first.start(fresh=True)
    first.folder.keep_join_past("j", BatchHistory(5, Maxima(1, 1)))
    first.start()
    assert first.folder.join_past("j").next_batch == 5
    second.folder = first.folder
    second.start(fresh=True)
    assert first.folder.join_past("j") == BatchHistory()
    assert first.folder.claim().query == "query-b"


def test_a_plan_without_a_record_fits_a_query_without_batches_and_no_other(home, tmp_path):
    shutil.rmtree(home.checkpoint / "foretide-joins")
    with pytest.raises(JoinPlanError, match="nothing in checkpoint"):
        home.start("next")
    (home.path / "control" / "query.json").unlink()
    with pytest.raises(JoinPlanError, match="nothing in checkpoint"):
        home.start("next")
    home.start("next", fresh=True)
    home.start("again")


@pytest.mark.parametrize("text", ['{"format": 2}', "[" * 100_000])
def test_a_record_that_cannot_be_read_is_refused(home, text):
    (home.checkpoint / "foretide-joins" / "j.json").write_text(text)
    with pytest.raises(JoinPlanError, match="cannot be read"):
        home.start("next")


def test_a_loop_is_not_attached_to_a_query_with_the_plans_of_another(home):
    check_query(home.folder, "query-a")
    with pytest.raises(ControlFolderError, match="belongs to the query with id query-a"):
        check_query(home.folder, "query-b")


def test_a_pipeline_that_never_ran_has_nothing_to_check(tmp_path):
    home = Home(tmp_path)
    home.build()
    (home.checkpoint / "metadata").write_text("[" * 100_000)
    check_plans(home.folder, str(home.checkpoint))
    (home.checkpoint / "metadata").unlink()
    check_plans(home.folder, str(home.checkpoint))
