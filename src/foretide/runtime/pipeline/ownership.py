"""A control folder belongs to the query that a control loop is attached to, as long as that query runs.

Routes are tied to no state, so another query may use the folder afterwards, also one with a new checkpoint. Plans of
joins are: `foretide.control_folder.claim` keeps them for the query that they belong to.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from foretide.control_folder.holds import Run, end_run, take_for_run

if TYPE_CHECKING:
    from foretide.runtime.pipeline.follower import Follower


def keep_folder(query: Any, follower: Follower) -> None:
    """Keep other queries from the control folder until this StreamingQuery has ended.

    Raises:
        ControlFolderError: Another query has it.
    """
    run = Run(str(query.id), str(query.runId), partial(_is_active, query))
    take_for_run(follower.control_folder.location, follower.topology.name, run)
    follower.at_end(partial(end_run, run.id))


def _is_active(query: Any) -> bool:
    try:
        return bool(query.isActive)
    except Exception:  # noqa: BLE001 - Spark has ended, and its queries with it
        return False
