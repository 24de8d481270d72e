"""What people ask of a running pipeline, from any terminal.

admission.json  rows per batch of each spout whose limit was set
target.json     changes of the target
drained.json    hosts and workers that are taken out of service
restart.json    the supervised restart that was asked for last
stop.json       whether the pipeline is to stop
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

from foretide.codec import from_data, parse_json, to_json
from foretide.control.world.setup import Quantile, Target
from foretide.control_folder.filesystem import Filesystem
from foretide.errors import CodecError, ControlFolderError

ADMISSION = "admission.json"
TARGET = "target.json"
DRAINED = "drained.json"
RESTART = "restart.json"
STOP = "stop.json"

Order = TypeVar("Order")


@dataclass(frozen=True, slots=True)
class TargetOrder:
    """Changes of the target. A field that is None stays as it is; "none" means no latency target, or no budget."""

    latency: float | Literal["none"] | None = None
    relaxed: float | None = None
    quantile: Quantile | None = None
    budget: int | Literal["none"] | None = None

    def merge(self, later: TargetOrder) -> TargetOrder:
        """Both changes, of which the later one wins."""
        return replace(self, **later._given())

    def apply(self, target: Target) -> Target:
        """The changed target; SettingsError if it is impossible."""
        changes: Any = {name: None if value == "none" else value for name, value in self._given().items()}
        return replace(target, **changes)

    def _given(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RestartOrder:
    """A supervised restart, with what is to change: partitions of Spark's state, tasks behind edges."""

    at: float
    reason: str = "requested by a user"
    state_partitions: int | None = None
    pools: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Drained:
    places: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Stop:
    stop: bool = False


class OrderFiles:
    """The orders in a control folder. A file that is not valid JSON counts as not written."""

    def __init__(self, files: Filesystem) -> None:
        self._files = files

    def admission(self) -> dict[str, int]:
        """Rows per batch of each spout with a limit."""
        limits = self._data(ADMISSION)
        return {spout: rows for spout, rows in limits.items() if type(rows) is int and rows > 0}

    def limit_admission(self, spout: str, rows: int | None) -> None:
        """Set the rows per batch of a spout, from the next batch on; None lifts the limit."""
        if rows is not None and rows < 1:
            raise ControlFolderError(f"the admission limit of '{spout}' must be at least 1 row, got {rows}")
        with self._files.lock():
            limits = self.admission()
            limits.pop(spout, None)
            self._files.write(ADMISSION, to_json(limits if rows is None else {**limits, spout: rows}))

    def target(self) -> TargetOrder:
        """The changes of the target; CodecError if a value does not fit."""
        return self._read(TargetOrder, TARGET)

    def set_target(self, order: TargetOrder) -> None:
        """Change the target from the next control cycle on."""
        with self._files.lock():
            self._files.write(TARGET, to_json(self._read_or_default(TargetOrder, TARGET).merge(order)))

    def drained(self) -> frozenset[str]:
        """Hosts and workers that are out of service."""
        return self._read_or_default(_Drained, DRAINED).places

    def drain(self, place: str, *, release: bool = False) -> frozenset[str]:
        """Take a host or worker out of service, or release it, from the next control cycle on."""
        with self._files.lock():
            places = self.drained() - {place} if release else self.drained() | {place}
            self._files.write(DRAINED, to_json(_Drained(places)))
            return places

    def restart(self) -> RestartOrder | None:
        """The restart that was asked for last, or None; CodecError if a value does not fit."""
        return self._read(RestartOrder, RESTART) if "at" in self._data(RESTART) else None

    def request_restart(self, order: RestartOrder) -> None:
        """Ask for a supervised restart."""
        self._files.write(RESTART, to_json(order))

    def stop_requested(self) -> bool:
        """Whether the pipeline is to stop after its batch."""
        return self._read_or_default(_Stop, STOP).stop

    def request_stop(self, *, stop: bool = True) -> None:
        """Ask the pipeline to stop after its batch, or withdraw that."""
        if stop != self.stop_requested():
            self._files.write(STOP, to_json(_Stop(stop)))

    def _data(self, name: str) -> dict[str, Any]:
        try:
            data = parse_json(self._files.read(name) or "{}")
        except CodecError:
            return {}
        return data if isinstance(data, dict) else {}

    def _read(self, kind: type[Order], name: str) -> Order:
        return from_data(kind, self._data(name))

    def _read_or_default(self, kind: type[Order], name: str) -> Order:
        try:
            return self._read(kind, name)
        except CodecError:
            return kind()
