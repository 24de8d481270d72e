"""`foretide soak` refuses what cannot work before anything is started."""

import json

import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.cli.soak import outcome_data
from foretide.soak.outcome import Comparison, Outcome


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--minutes", "nan"], "--minutes"),
        (["--minutes", "-1"], "--minutes"),
        (["--minutes", "1441"], "--minutes"),
        (["--seed", "-1"], "--seed"),
        (["--rows", "0"], "--rows"),
        (["--master", "local[2]"], "must give executors"),
        (["--master", "nonsense"], "--master"),
        (["--replay", "missing"], "'missing' cannot be read"),
        (["--replay", "text"], "is no schedule of a campaign"),
        (["--replay", "binary"], "is no schedule of a campaign"),
        (["--replay", "negative"], "is no schedule of a campaign: steps[0]"),
        (["--output", "full"], "is not empty"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    (tmp_path / "text").write_text("no schedule")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "negative").write_text(json.dumps({"seed": 1, "steps": [{"kind": "split", "after": -1.0}]}))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = CliRunner().invoke(app, ["soak", *arguments])
    assert done.exit_code in {1, 2}
    assert said in done.stderr


def test_a_campaign_that_failed_names_its_schedule(tmp_path):
    lost = Outcome(4, 2.0, {"kill-jvm": 2}, {}, 3, 7, Comparison({"work": 9}, 1, 0, 0))
    told = outcome_data(lost, tmp_path)
    assert (told["passed"], told["seed"], told["schedule"]) == (False, 4, tmp_path / "schedule.json")
    fine = Outcome(4, 2.0, {}, {}, 3, 7, Comparison({"work": 9}, 0, 0, 0))
    assert outcome_data(fine, tmp_path)["schedule"] is None
