"""All joins of a running query: each with its keeper, fed by every batch, asked and told by the control loop."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from foretide.errors import JoinPlanError
from foretide.runtime.joins.publisher import JoinPlanPublisher, ReadMaxima, Wanted
from foretide.spark.joins.cells import hard_end_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.settings import WindowSettings
    from foretide.joins.view import Grids, JoinView
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport
    from foretide.runtime.forecasts.keys import LiveKeyForecast

log = logging.getLogger("foretide")


class Joins:
    """The keepers of a query's joins, by name."""

    def __init__(
        self,
        folder: ControlFolder,
        windows: WindowSettings,
        maxima: ReadMaxima | None = None,
        seer: Callable[[str], LiveKeyForecast] | None = None,
    ) -> None:
        names = folder.joins()
        self.seers = {} if seer is None else {name: seer(name) for name in names}
        self.keepers = {name: JoinPlanPublisher(folder, name, maxima, windows, self.seers.get(name)) for name in names}

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in."""
        for keeper in self.keepers.values():
            keeper.see(report)

    def adopt(self, join: str, wanted: Wanted) -> None:
        """Begin a change of plan."""
        if join not in self.keepers:
            raise JoinPlanError(f"there is no join '{join}'; there are {', '.join(self.keepers) or 'none'}")
        self.keepers[join].adopt(wanted)

    def died(self, message: str) -> bool:
        """Whether a query died at the hard end of a change, which has then been moved: it may be started again."""
        failure = hard_end_failure(message)
        if failure is None:
            return False
        for keeper in self.keepers.values():
            keeper.failed(failure.reached)
        log.warning("a batch ran ahead of an announced plan and is tried again; nothing was lost: %s", failure)
        return True

    def close(self) -> None:
        """Take back what is under way: nobody would go on with it, and the query would run into its hard end."""
        for keeper in self.keepers.values():
            keeper.cancel()
        for seer in self.seers.values():
            seer.close()

    def views(self) -> Mapping[str, JoinView]:
        """Every join as it is known now."""
        return {name: keeper.view() for name, keeper in self.keepers.items()}

    def in_force(self) -> dict[str, Grids]:
        """The plans, by join."""
        return {name: keeper.grids() for name, keeper in self.keepers.items()}

    @property
    def problems(self) -> list[str]:
        """What keeps plans from being changed, and keys from being foreseen, in sentences."""
        plans = [keeper.problem for keeper in self.keepers.values() if keeper.problem]
        return plans + [seer.problem for seer in self.seers.values() if seer.problem]
