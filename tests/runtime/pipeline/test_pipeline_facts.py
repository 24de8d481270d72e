"""What a running pipeline says of itself."""

import foretide as ft
from foretide.control_folder.facts import PipelineFacts
from foretide.control_folder.folder import ControlFolder
from foretide.runtime.pipeline.facts import facts_of, publish_facts

SPOUTS = [ft.Spout("lines", ft.Rate(1)), ft.Spout("clicks", ft.Stream(lambda spark: None))]


def work(frame):
    return frame


def bolt(name, grouping, **options):
    return ft.Bolt(name, work, [ft.From("lines", grouping)], **options)


def test_a_pipeline_names_its_spouts_and_the_pools_that_a_restart_can_change():
    bolts = [
        bolt("split", ft.Dynamic(), pool=3),
        bolt("keyed", ft.Fields("key"), replicas=2),
        bolt("fixed", ft.Dynamic(ratio=(2.0, 1.0)), pool=2),
        bolt("one", ft.Global()),
        bolt("local", ft.LocalOrShuffle()),
        ft.Bolt("last", work, [ft.From("clicks", ft.Shuffle())], pool=4),
    ]
    facts = facts_of(ft.Topology("shop", SPOUTS, bolts), "it keeps no state")
    assert facts.pools == {"split": 3, "keyed": 2, "last": 4}
    assert facts_of(ft.Topology("shop", SPOUTS, bolts), None, {"keyed"}).pools == {"split": 3, "last": 4}
    assert facts.spouts == {spout.id: spout.source.live_admission for spout in SPOUTS}
    assert (facts.name, facts.no_restart, facts.state_repartition) == ("shop", None, "it keeps no state")


def test_facts_are_read_back_as_they_were_written(tmp_path):
    folder, facts = ControlFolder(str(tmp_path)), PipelineFacts("shop", {"lines": True}, {"work": 2}, None, "no state")
    assert folder.status.facts() is None
    publish_facts(folder, facts)
    assert folder.status.facts() == facts


def test_facts_that_cannot_be_written_stop_nothing(tmp_path, caplog):
    (tmp_path / "file").touch()
    publish_facts(ControlFolder(str(tmp_path / "file")), PipelineFacts("shop", {}, {}))
    assert "describing 'shop' in its control folder failed" in caplog.text
