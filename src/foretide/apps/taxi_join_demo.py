"""The join of `taxi_join` as a query of its own, under control: what `foretide demo join` shows.

Few cells are hot, and the hot spots move. The rate of the orders is that of real taxi rides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.apps.taxi_join import DELAY, NAME, WITHIN
from foretide.control.actions.registry import SetJoinPlan
from foretide.control.policies.hot_keys import HotKeySettings
from foretide.control_folder.folder import ControlFolder
from foretide.errors import PipelineFailedError
from foretide.joins.plan import imbalance as imbalance_of
from foretide.joins.settings import WindowSettings
from foretide.runtime.loop.attach import control
from foretide.runtime.shutdown import within
from foretide.settings.settings import Settings
from foretide.spark.joins.join import join
from foretide.spark.sources.port import LoadContext
from foretide.spark.sources.registry import source_port
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.taxi import TaxiOrders, VehiclePositions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from foretide.control.decisions.decision import Decision
    from foretide.runtime.loop.controller import Controller

_LINE_SECONDS, _GRACE_SECONDS = 5.0, 60.0
_STOP_SECONDS = 20.0
_MAX_CELLS = 6


@dataclass(frozen=True)
class City:
    """The workload: seconds of replay, orders and positions a second, cells, skew, seconds until hot spots move."""

    seconds: float = 60.0
    orders: float = 800.0
    positions: float = 1600.0
    cells: int = 500
    zipf: float = 1.6
    move_every: float = 60.0
    seed: int = 7

    def replays(self) -> tuple[Replay, Replay]:
        """Orders and positions, along the counts of real taxi rides."""
        orders = TaxiOrders(self.seed, self.cells, self.zipf, round(self.orders * self.move_every))
        vehicles = VehiclePositions(self.seed, self.cells, self.zipf, round(self.positions * self.move_every))
        return (
            Replay(orders, self._curve(self.orders), partitions=1, flush=30.0),
            Replay(vehicles, self._curve(self.positions), partitions=1, flush=30.0),
        )

    def _curve(self, rate: float) -> Curve:
        return Curve.from_trace("taxi", seconds=self.seconds, mean_rate=rate, first=0, samples=48)


def build(spark: Any, city: City, folder: ControlFolder, *, adaptive: bool = True) -> DataFrame:
    """The join: Foretide's, or Spark's own with the same rows."""
    left, right = (
        source_port(replay).load(LoadContext(spark, name, folder))
        for name, replay in zip(("orders", "positions"), city.replays(), strict=True)
    )
    orders = left.selectExpr("cell", "order_id", "event_time AS ordered").withWatermark("ordered", DELAY)
    seen = right.where("free").selectExpr("cell AS where", "vehicle_id", "event_time AS seen")
    positions = seen.withWatermark("seen", DELAY)
    if adaptive:
        return join(orders, positions, [("cell", "where")], WITHIN, control_folder=folder.location)
    bound = f"seen >= ordered - INTERVAL {WITHIN} AND seen <= ordered + INTERVAL {WITHIN}"
    return orders.join(positions, orders["cell"] == positions["where"]).where(bound)


@dataclass(frozen=True)
class JoinOutcome:
    """A join that was controlled for a while.

    Attributes:
        imbalance: Seconds, and LI of the rows that partitions took until then.
        decisions: What the control loop changed, in a few words each.
        rows: Joined rows.
        placed: The cells that are placed by the plan at the end.
        loads: Share of the load of each partition in the last window of keys, under the plan.
        hash_loads: The same for the same rows, had all cells gone where the hash sends them.
    """

    imbalance: list[tuple[float, float]]
    decisions: list[str]
    rows: int
    placed: tuple[str, ...] = ()
    loads: tuple[float, ...] = ()
    hash_loads: tuple[float, ...] = ()

    def same_rows(self) -> list[str]:
        """The last window with and without the plan, in lines: both speak of the same rows.

        >>> for line in JoinOutcome([], [], 0, ("17",), (0.5, 0.5), (0.9, 0.1)).same_rows():
        ...     print(line)
        Load of each partition for the same rows, those of the last window of keys:
          by the hash alone   90%   10%   LI 0.80
          by the plan         50%   50%   LI 0.00   (placed: cell 17)
        """
        if not self.loads or not self.hash_loads:
            return []
        named = ", ".join(self.placed[:_MAX_CELLS]) + (" and more" if len(self.placed) > _MAX_CELLS else "")
        placed = f"   (placed: cell{'' if len(self.placed) == 1 else 's'} {named})" if self.placed else ""
        return [
            "Load of each partition for the same rows, those of the last window of keys:",
            f"  by the hash alone  {_shares(self.hash_loads)}   LI {imbalance_of(self.hash_loads):.2f}",
            f"  by the plan        {_shares(self.loads)}   LI {imbalance_of(self.loads):.2f}{placed}",
        ]

    def conclusion(self) -> str:
        """The imbalance that was measured first and last.

        >>> JoinOutcome([(10.0, 2.65), (20.0, 2.5), (30.0, 1.31)], ["2 hot cells placed"], 700).conclusion()
        'LI of the rows was 2.65 at first and 1.31 at the end, with 1 change by the control loop; 700 rows were joined.'
        """
        count = len(self.decisions)
        changes = f"{count} change{'' if count == 1 else 's'} by the control loop; {self.rows:,} rows were joined."
        if not self.imbalance:
            return f"No window of keys was complete; use a longer --duration. There were {changes}"
        first, last = self.imbalance[0][1], self.imbalance[-1][1]
        return f"LI of the rows was {first:.2f} at first and {last:.2f} at the end, with {changes}"


def _shares(loads: tuple[float, ...]) -> str:
    return "  ".join(f"{load:4.0%}" for load in loads)


def run(spark: Any, city: City, place: Path, say: Callable[[str], None]) -> JoinOutcome:
    """Run the join under control. `say` is called with a line every few seconds, and with each decision."""
    folder = ControlFolder(str(place / "checkpoint" / "foretide"))
    joined = build(spark, city, folder)
    output = place / "output"
    writer = joined.writeStream.queryName(NAME).format("parquet").option("path", str(output))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(processingTime="1 second").start()
    decisions: list[str] = []

    def show(decision: Decision) -> None:
        if decision.chosen:
            decisions.append("; ".join(_short(each.action) for each in decision.chosen))
            say(f">> decision {decision.id}: {decisions[-1]}")

    hot_keys = HotKeySettings(windows=WindowSettings(5.0), min_saving=0.0)  # few rows: balance is what is shown
    settings = Settings(policies={"hot_keys": hot_keys})
    controller = control(query, ["hot_keys"], settings=settings, control_folder=folder.location)
    controller.on_decision(show)
    try:
        imbalance = _watch(query, controller, city.seconds, say)
        view = controller.joins.get("join")
    except BaseException as error:
        stopped = within(_STOP_SECONDS, query.stop, "stopping the join")
        error.add_note("the join was stopped" if stopped else "the join did not stop in time")
        raise
    finally:
        within(_STOP_SECONDS, controller.stop, "stopping the control loop")
    query.stop()
    if query.exception() is not None:
        cause = str(query.exception()).strip().partition("\n")[0]
        raise PipelineFailedError(NAME, query.lastProgress.batchId if query.lastProgress else -1, cause)
    rows = spark.read.schema(joined.schema).parquet(str(output)).count() if output.exists() else 0
    if view is None:
        return JoinOutcome(imbalance, decisions, rows)
    placed = tuple(view.names.get(key, str(key)) for key in view.plan.grids)
    return JoinOutcome(imbalance, decisions, rows, placed, _parts(view.loads), _parts(view.hash_loads))


def _parts(loads: tuple[float, ...]) -> tuple[float, ...]:
    total = sum(loads)
    return tuple(load / total for load in loads) if total > 0 else ()


def _short(action: Any) -> str:
    if not isinstance(action, SetJoinPlan):
        return str(action.describe())
    names = [action.names.get(key, str(key)) for key in action.plan.grids]
    more = f" and {len(names) - _MAX_CELLS} more" if len(names) > _MAX_CELLS else ""
    cells = f"{len(names)} hot cell{'' if len(names) == 1 else 's'} placed: {', '.join(names[:_MAX_CELLS])}{more}"
    return cells if names else "no cell is hot any more"


def _watch(query: Any, controller: Controller, seconds: float, say: Callable[[str], None]) -> list[tuple[float, float]]:
    """A line every few seconds; the imbalance that was measured by the rows of the partitions.

    It takes longer on a slow machine, until something was measured.
    """
    found: list[tuple[float, float]] = []
    start, elapsed = time.monotonic(), 0.0
    while query.isActive and elapsed < seconds + (_LINE_SECONDS if found else _GRACE_SECONDS):
        time.sleep(_LINE_SECONDS)
        elapsed = time.monotonic() - start
        view, batch = controller.joins.get("join"), query.lastProgress
        at = f"t={elapsed:5.1f} s  batch {'-' if batch is None else batch.batchId:>3}"
        if view is None or view.measured_imbalance is None:
            say(f"{at}  counting keys; no window of them is complete yet")
            continue
        found.append((round(elapsed, 1), round(view.measured_imbalance, 3)))
        planned = "" if view.imbalance is None else f" (expected by the plan: {view.imbalance:.2f})"
        say(f"{at}  LI of the rows {view.measured_imbalance:5.2f}{planned}  {len(view.plan.grids)} cells placed")
    return found
