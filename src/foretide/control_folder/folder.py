"""What lies in the control folder, and how it is read and changed.

routes.json     the route table that every batch reads
admission.json  rows a batch, for each spout whose limit was set while it runs
target.json     what a person wants to be held
drained.json    hosts and workers that a person took out
restart.json    the supervised restart that a person asked for last
stop.json       whether a person asked the pipeline to stop
status.json     what the last batches showed to be in force: written by the pipeline, read by people
control.json    how the control loop is: written by it, read by people
joins.json      what is fixed for each join
join-X.json     the plan of join X, which every batch reads
past-X.json     what is known of the batches of join X
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from foretide.control_folder.filesystem import Filesystem, open_filesystem
from foretide.errors import ControlFolderError, RouteError
from foretide.joins.placement.spec import JoinSpec, past_from_data, past_to_data
from foretide.joins.placement.timeline import Timeline
from foretide.joins.placement.timeline_file import from_json, to_json
from foretide.routing.table import RouteTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretide.joins.placement.plan_change import BatchHistory

ROUTES = "routes.json"
ADMISSION = "admission.json"
STATUS = "status.json"
TARGET = "target.json"
DRAINED = "drained.json"
RESTART = "restart.json"
STOP = "stop.json"
CONTROL = "control.json"
JOINS = "joins.json"

_NONE: frozenset[str] = frozenset()


class ControlFolder:
    """The control folder of one pipeline.

    >>> import tempfile
    >>> folder = ControlFolder(tempfile.mkdtemp())
    >>> folder.change_routes(lambda table: table.declare("parse", pool=2)).version
    1
    >>> folder.routes().edges["parse"].counts
    (512, 512)
    """

    def __init__(self, location: str, publication: Filesystem | None = None) -> None:
        self.location = location
        self._publication = publication or open_filesystem(location)

    @property
    def routes_url(self) -> str:
        """Where Spark reads the route table."""
        return self._publication.url(ROUTES)

    def routes(self) -> RouteTable:
        """The published table; an error when it cannot be read, an empty table when there is none."""
        text = self._publication.read(ROUTES)
        return RouteTable() if text is None else RouteTable.from_json(text)

    def change_routes(self, change: Callable[[RouteTable], RouteTable], *, repair: bool = False) -> RouteTable:
        """Publish a changed table. A change that is refused (RouteError) leaves the old one in place.

        With `repair`, a table that cannot be read counts as empty instead of being an error.
        """
        with self._publication.lock():
            before = self._routes_or_none() if repair else self.routes()
            after = change(before)
            if after is not before:
                self._publication.write(ROUTES, after.to_json())
            return after

    def _routes_or_none(self) -> RouteTable:
        try:
            return self.routes()
        except RouteError:
            return RouteTable()

    def admission(self) -> dict[str, int]:
        """Rows a batch for each spout with a limit set; empty when nothing (readable) is there."""
        return _whole_numbers(_object(self._publication.read(ADMISSION)))

    def limit_admission(self, spout: str, rows: int | None) -> None:
        """Set the rows a batch of a spout, from the next batch on; None lifts the limit."""
        if rows is not None and rows < 1:
            raise ControlFolderError(f"an admission limit of {rows} rows would stop '{spout}' for ever; use 1 or more")
        with self._publication.lock():
            limits = self.admission()
            limits.pop(spout, None)
            if rows is not None:
                limits[spout] = rows
            self._publication.write(ADMISSION, json.dumps(limits))

    # ---- joins

    def joins(self) -> dict[str, JoinSpec]:
        """What is fixed for each join, by its name."""
        entries = _object(self._publication.read(JOINS))
        return {name: JoinSpec.from_data(entry) for name, entry in entries.items()}

    def declare_join(self, name: str, facts: JoinSpec) -> None:
        """Keep what is fixed for a join."""
        with self._publication.lock():
            entries = {other: each.to_data() for other, each in self.joins().items()}
            self._publication.write(JOINS, json.dumps(entries | {name: facts.to_data()}))

    def join_plan_url(self, name: str) -> str:
        """Where Spark reads the plan of a join."""
        return self._publication.url(_plan_file(name))

    def join_plan(self, name: str) -> Timeline | None:
        """The published plan of a join; None when there is none, an error when it cannot be read."""
        text = self._publication.read(_plan_file(name))
        return None if text is None else from_json(text)

    def change_join_plan(self, name: str, change: Callable[[Timeline | None], Timeline]) -> Timeline:
        """Publish what becomes of the plan in place, keeping other writers out meanwhile."""
        with self._publication.lock():
            before = self.join_plan(name)
            after = change(before)
            if after is not before:
                self._publication.write(_plan_file(name), to_json(after))
            return after

    def put_join_plan(self, name: str, plan: Timeline) -> None:
        """Publish a plan whatever is in place, for one that was damaged."""
        with self._publication.lock():
            self._publication.write(_plan_file(name), to_json(plan))

    def join_past(self, name: str) -> BatchHistory | None:
        """What was kept of a join's batches; None when there is nothing."""
        return past_from_data(_object(self._publication.read(f"past-{name}.json")))

    def keep_join_past(self, name: str, past: BatchHistory) -> None:
        """Keep what is known of a join's batches."""
        self._publication.write(f"past-{name}.json", json.dumps(past_to_data(past)))

    # ---- what people ask for

    def target(self) -> dict[str, Any]:
        """What a person wants to be held: fields of a target; empty when nobody has said anything."""
        return _object(self._publication.read(TARGET))

    def set_target(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Change what is to be held, from the next control cycle on; fields that are not named stay."""
        with self._publication.lock():
            target = {**self.target(), **changes}
            self._publication.write(TARGET, json.dumps(target))
            return target

    def drained(self) -> frozenset[str]:
        """Hosts and workers that a person took out."""
        places = _object(self._publication.read(DRAINED)).get("places")
        return frozenset(place for place in places if isinstance(place, str)) if isinstance(places, list) else _NONE

    def drain(self, place: str, *, back: bool = False) -> frozenset[str]:
        """Take a host or worker out, or let it back in, from the next control cycle on."""
        with self._publication.lock():
            places = self.drained() - {place} if back else self.drained() | {place}
            self._publication.write(DRAINED, json.dumps({"places": sorted(places)}))
            return places

    def want_restart(self, changes: dict[str, Any]) -> None:
        """Ask for a supervised restart with these changes."""
        self._publication.write(RESTART, json.dumps(changes))

    def wanted_restart(self) -> dict[str, Any]:
        """The restart that was asked for last; empty when none was."""
        return _object(self._publication.read(RESTART))

    def want_stop(self) -> None:
        """Ask the pipeline to stop after its batch."""
        self._publication.write(STOP, json.dumps({"stop": True}))

    def stop_wanted(self) -> bool:
        """Whether somebody asked it to stop."""
        return bool(_object(self._publication.read(STOP)).get("stop"))

    def clear_stop(self) -> None:
        """Forget that somebody asked: the pipeline starts."""
        if self.stop_wanted():
            self._publication.write(STOP, json.dumps({"stop": False}))

    # ---- what the pipeline says

    def control(self) -> dict[str, Any]:
        """What the control loop last said of itself; empty when there is none."""
        return _object(self._publication.read(CONTROL))

    def report_control(self, status: dict[str, Any]) -> None:
        """Say how the control loop is, for other terminals to read."""
        self._publication.write(CONTROL, json.dumps(status))

    def status(self) -> dict[str, Any]:
        """What the pipeline last said of itself; empty when it has said nothing."""
        return _object(self._publication.read(STATUS))

    def report(self, status: dict[str, Any]) -> None:
        """Say what is in force, for other terminals to read."""
        self._publication.write(STATUS, json.dumps(status))


def _plan_file(name: str) -> str:
    return f"join-{name}.json"


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _whole_numbers(entries: dict[str, Any]) -> dict[str, int]:
    return {name: rows for name, rows in entries.items() if type(rows) is int and rows > 0}
