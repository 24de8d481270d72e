"""What lies in the control folder, and how it is read and changed.

routes.json     the route table that every batch reads
admission.json  rows a batch, for each spout whose limit was set while it runs
status.json     what the last batches showed to be in force: written by the pipeline, read by people
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from foretide.errors import ControlFolderError, RouteError
from foretide.folder.publication import Publication, open_publication
from foretide.routing.table import RouteTable

if TYPE_CHECKING:
    from collections.abc import Callable

ROUTES = "routes.json"
ADMISSION = "admission.json"
STATUS = "status.json"


class ControlFolder:
    """The control folder of one pipeline.

    >>> import tempfile
    >>> folder = ControlFolder(tempfile.mkdtemp())
    >>> folder.change_routes(lambda table: table.declare("parse", pool=2)).version
    1
    >>> folder.routes().edges["parse"].counts
    (512, 512)
    """

    def __init__(self, location: str, publication: Publication | None = None) -> None:
        self.location = location
        self._publication = publication or open_publication(location)

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

    def status(self) -> dict[str, Any]:
        """What the pipeline last said of itself; empty when it has said nothing."""
        return _object(self._publication.read(STATUS))

    def report(self, status: dict[str, Any]) -> None:
        """Say what is in force, for other terminals to read."""
        self._publication.write(STATUS, json.dumps(status))


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _whole_numbers(entries: dict[str, Any]) -> dict[str, int]:
    return {name: rows for name, rows in entries.items() if type(rows) is int and rows > 0}
