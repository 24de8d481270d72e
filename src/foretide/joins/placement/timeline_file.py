"""The plan timeline as the text of one file that Spark reads anew in every batch.

    {"format": 1, "version": 3, "plan": [{"key": 7, "versions": [{"start": ..., "end": ..., "rows": [[1, 2]]}]}]}

The plan is a list, because Spark reads JSON maps by strings only; a query turns it into a map once a batch. A plan
that cannot be read has to fail the batch: a default placement would lose pairs.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

from foretide.errors import JoinPlanError, PlanFormatError
from foretide.joins.placement.timeline import Timeline, Version, Versions

FORMAT = 1
"""Format of the file; a reader refuses any other."""


def to_json(timeline: Timeline) -> str:
    """The text that Spark reads."""
    plan = [
        {"key": key_hash, "versions": [_written(version) for version in versions]}
        for key_hash, versions in sorted(timeline.plans.items())
    ]
    return json.dumps({"format": FORMAT, "version": timeline.version, "plan": plan}, separators=(",", ":"))


def from_json(text: str) -> Timeline:
    """Read a timeline back, checking all that exactness rests on."""
    try:
        return _timeline(json.loads(text))
    except (JoinPlanError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise PlanFormatError(
            f"the join's plan cannot be read: {error or type(error).__name__}. Batches fail until a sound plan is "
            "published; put the last good file back. Never start over with an empty one: what the join holds was "
            "placed by the plan that is lost."
        ) from error


def _timeline(data: Any) -> Timeline:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"it is no plan of format {FORMAT}")
    plans = [(_whole(entry["key"]), _read(entry["versions"])) for entry in data["plan"]]
    if len(dict(plans)) != len(plans):
        raise ValueError("a key stands in it twice")
    return Timeline(_whole(data["version"]), MappingProxyType(dict(plans)))


def _written(version: Version) -> dict[str, Any]:
    return {"start": version.start, "end": version.end, "rows": [list(row) for row in version.rows]}


def _read(entries: Any) -> Versions:
    return tuple(
        Version(
            _whole(entry["start"]),
            _whole(entry["end"]),
            tuple(tuple(_whole(salt) for salt in row) for row in entry["rows"]),
        )
        for entry in entries
    )


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value
