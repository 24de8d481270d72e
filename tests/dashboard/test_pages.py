"""What pages show, as functions from views to HTML; and that each page is served."""

import re
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from dashboard.pipelines import SETUP, announce_pipeline
from docs.test_dashboard import dashboard_process
from foretide.control.world.setup import OperatorSetup
from foretide.dashboard.pages import advice, decisions, forecast, joins, latency, overview, topology, what_if, workers
from foretide.dashboard.pages.charts import forecast_chart
from foretide.dashboard.pages.frame import PAGES
from foretide.dashboard.pages.graph import _HEIGHT, _WIDTH, _plan, draw
from foretide.dashboard.reading import Reader
from foretide.metrics.metric import Level
from foretide.status.sources import Sources
from foretide.status.views.topology import topology as topology_of
from foretide.status.views.what_if import Question
from helpers import wait_for

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def reader(tmp_path):
    announce_pipeline(tmp_path)
    sources = Sources()
    yield Reader(sources)
    sources.close()


def hostile(seen):
    """The same pipeline, with names that are HTML."""
    parts = tuple(replace(part, name=HOSTILE) if part.name == "work" else part for part in SETUP.operators)
    flows = tuple(tuple(HOSTILE if end == "work" else end for end in ends) for ends in SETUP.flows)
    return replace(seen, name=HOSTILE, world=replace(seen.world, setup=replace(SETUP, operators=parts, flows=flows)))


def test_names_from_pipelines_are_escaped(reader):
    seen = hostile(reader.seen("shop"))
    for shown in (topology.render(topology_of(seen)), draw(topology_of(seen), down=True)):
        assert "<img" not in shown
        assert "&lt;img" in shown
    card = overview.render([(replace(reader.overview("shop"), name=HOSTILE, why=HOSTILE, problems=(HOSTILE,)), ())])
    assert "<img" not in card
    assert "<img" not in workers.render(replace(reader.heat("shop", Level.WORKER), subjects=(HOSTILE, HOSTILE)))
    line = replace(reader.decisions("shop", 5)[0], summary=HOSTILE)
    assert "<img" not in decisions.render([line], HOSTILE, None)


def test_pages_show_what_the_views_say(reader):
    assert '<b data-p99="0.9">900 ms</b>' in overview.render([(reader.overview("shop"), ())])
    assert 'data-rate="work">120<' in topology.render(reader.topology("shop"))
    assert "900 ms" in latency.render_newest(reader.latency("shop", 900))
    shown = forecast.render_trust(reader.forecast("shop", None, None, None, 900))
    assert '<td class="n">130</td><td>90 to 170</td>' in shown
    assert "worker 1 is slow" in decisions.render_detail(reader.decision("shop", 5))
    assert "set spark.sql.shuffle.partitions=4" in advice.render(reader.advice("shop"))
    assert "processors</h2>" in what_if.render(reader.what_if("shop", Question(latency=1.0)))
    assert "No answer" in what_if.render(reader.what_if("shop", Question(latency=1e-6)))


def test_intervals_that_are_much_wider_than_the_load_is_high_do_not_make_a_line_of_it(reader):
    view = reader.forecast("shop", None, None, None, 900)
    assert forecast_chart(view)["yAxis"]["max"] is None
    wide = replace(view, ahead=tuple(replace(each, high=5000.0) for each in view.ahead))
    assert forecast_chart(wide)["yAxis"]["max"] == 300.0


def test_workers_are_grouped_by_machine_with_what_stands_out_of_it(reader):
    found, machines = (reader.heat("shop", level) for level in (Level.WORKER, Level.MACHINE))
    assert found.hosts == ("host-a", "host-b")
    shown = workers.render(found, machines)
    first, second = shown.split('<tr class="machine">')[1:]
    assert ("host-a" in first, 'class="pill slow"' in first, '<th scope="row">0</th>' in first) == (True, True, True)
    assert ("host-b" in second, 'class="pill' in second, '<th scope="row">1</th>' in second) == (True, False, True)
    unknown = replace(found, hosts=(HOSTILE, ""))
    assert "<img" not in workers.render(unknown, machines)


def test_where_there_is_nothing_a_page_says_what_would_change_that():
    assert "foretide run url-count" in overview.render([])
    assert "foretide demo join" in joins.render([])
    assert "No advice" in advice.render([])
    assert "No decision yet" in decisions.render([], "shop", None)


@pytest.mark.parametrize("down", [True, False])
def test_no_two_operators_of_a_graph_overlap(reader, down):
    names = [f"bolt{number}" for number in range(9)]
    setup = replace(
        SETUP,
        operators=(OperatorSetup("read", spout=True), *(OperatorSetup(name, 40, name) for name in names)),
        flows=(
            *(("read", name) for name in names[:5]),
            *((names[0], name) for name in names[5:]),
            (names[8], names[0]),
        ),
    )
    seen = reader.seen("shop")
    view = topology_of(replace(seen, world=replace(seen.world, setup=setup)))
    boxes = list(_plan(view, down=down).boxes.values())
    assert len(boxes) == 10
    for place, one in enumerate(boxes):
        assert all(abs(one.x - other.x) >= _WIDTH or abs(one.y - other.y) >= _HEIGHT for other in boxes[place + 1 :])
    assert len(re.findall("<circle", draw(view, down=down))) == 9 * 12 + 1


def test_every_page_is_served_and_one_of_an_unknown_pipeline_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    announce_pipeline(tmp_path)
    with dashboard_process() as address:
        for path in ("/", "/static/style.css", "/static/foretide.js", *(f"/p/shop/{name}" for name in PAGES)):
            with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
                text = answer.read().decode()
                assert answer.status == 200
                assert "cannot be read" not in text
                assert answer.headers["x-frame-options"] == "DENY"
        polling = f"{address}/_nicegui_ws/socket.io/?EIO=4&transport=polling"
        assert fetch(polling)[0] == 403
        status, text = wait_for(lambda: (found := fetch(f"{address}/p/nobody/latency"))[0] == 404 and found)
        assert (status, "there is no pipeline" in text) == (404, True)


def fetch(address):
    """The status and the text of a page, whatever they are."""
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
