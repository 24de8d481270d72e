"""Carries out the steps of a schedule on a running pipeline, as people and accidents would."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from types import MappingProxyType

import numpy as np

from foretide.control_folder import by_hand
from foretide.control_folder.filesystem import LocalFilesystem
from foretide.control_folder.folder import ROUTES, ControlFolder
from foretide.control_folder.orders import RestartOrder, new_order_id
from foretide.errors import ControlError
from foretide.routing.table import RouteTable
from foretide.soak.layout import Layout
from foretide.soak.processes import driver_of, executors_of, jvm_of, kill, kill_session, stop_for
from foretide.soak.schedule import Kind, Step

HOLD_SECONDS = 5.0
"""How long the control loop leaves alone what a campaign has routed."""

_MAX_WEIGHT = 6
_MAX_POOL = 6
_MAX_STATE_PARTITIONS = 4
_MALFORMED = 500
_BUSY_SECONDS = 1.0


class NotNowError(Exception):
    """There is nothing that a step could apply to at present, such as an executor while the driver starts."""


class Scene:
    """What steps act on: the folder of a campaign, and rows that are to be malformed in its next file."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.control_folder = ControlFolder(str(layout.control_folder))
        self.malformed = 0
        self.store_deleted = 0.0

    def driver(self) -> int:
        """The driver that runs."""
        found = driver_of(self.layout)
        if found is None:
            raise NotNowError("no driver runs")
        return found

    def jvm(self) -> int:
        """Its JVM."""
        found = jvm_of(self.driver())
        if found is None:
            raise NotNowError("the driver has no JVM yet")
        return found

    def executor(self, choice: int) -> int:
        """One of its executors."""
        found = executors_of(self.driver())
        if not found:
            raise NotNowError("the driver has no executor yet")
        return found[choice % len(found)]

    def edge(self, choice: int) -> str:
        """One of the edges that have a route."""
        found = sorted(self.control_folder.routes().edges)
        if not found:
            raise NotNowError("no edge has a route yet")
        return found[choice % len(found)]

    def take_malformed(self) -> int:
        """The number of malformed rows that were asked for since the last file."""
        taken, self.malformed = self.malformed, 0
        return taken


def perform(scene: Scene, step: Step) -> None:
    """Carry out a step. NotNowError if it has to wait; ForetideError if the pipeline refuses it."""
    _ACTIONS[step.kind](scene, step)


# ---- faults


def _stop_driver(scene: Scene, step: Step) -> None:
    """The JVM, or else Python."""
    stop_for(scene.jvm() if step.choice % 2 else scene.driver(), step.seconds)


def _delete_store(scene: Scene, _: Step) -> None:
    store = scene.layout.store
    if not store.exists():
        raise NotNowError("there is no store yet")
    scene.store_deleted = time.time()
    for suffix in ("", "-wal", "-shm"):
        store.with_name(store.name + suffix).unlink(missing_ok=True)


def _lock_store(scene: Scene, step: Step) -> None:
    if not scene.layout.store.exists():
        raise NotNowError("there is no store yet")
    address = f"{scene.layout.store.as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)) as store:
            store.execute("BEGIN EXCLUSIVE")
            time.sleep(step.seconds)
            store.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        raise NotNowError(f"the store cannot be locked: {error}") from error


def _lock_folder(scene: Scene, step: Step) -> None:
    _check_folder(scene)
    with LocalFilesystem(scene.layout.control_folder).lock(_BUSY_SECONDS):
        time.sleep(step.seconds)


def _damage_routes(scene: Scene, _: Step) -> None:
    """Half of the route table, as a disk may leave it."""
    _check_folder(scene)
    file = scene.layout.control_folder / ROUTES
    with suppress(FileNotFoundError):
        text = file.read_text()
        file.write_text(text[: len(text) // 2])


def _check_folder(scene: Scene) -> None:
    if not scene.layout.control_folder.is_dir():
        raise NotNowError("there is no control folder yet")


# ---- changes


def _split(scene: Scene, step: Step) -> None:
    def change(table: RouteTable) -> RouteTable:
        weights = np.random.default_rng(step.choice).integers(_MAX_WEIGHT, size=table.route(edge).pool)
        return table.split(edge, [float(each) for each in weights] if weights.any() else [1.0] * len(weights))

    edge = scene.edge(step.choice)
    by_hand.change_route(scene.control_folder, edge, change, "a random ratio", HOLD_SECONDS)


def _replicas(scene: Scene, step: Step) -> None:
    def change(table: RouteTable) -> RouteTable:
        return table.activate(edge, 1 + step.choice % table.route(edge).pool)

    edge = scene.edge(step.choice // _MAX_POOL)
    by_hand.change_route(scene.control_folder, edge, change, "a random number of replicas", HOLD_SECONDS)


def _drain(scene: Scene, step: Step) -> None:
    try:
        workers = sorted(by_hand.read_loop(scene.control_folder, "nobody would drain it").workers)
    except ControlError as error:
        raise NotNowError(str(error)) from error
    if not workers:
        raise NotNowError("no executor is known yet")
    by_hand.drain(scene.control_folder, workers[step.choice % len(workers)], step.seconds)


def _pause_loop(scene: Scene, step: Step) -> None:
    try:
        by_hand.change_mode(scene.control_folder, "pause", step.seconds)
    except ControlError as error:
        raise NotNowError(str(error)) from error


def _restart(scene: Scene, step: Step) -> None:
    """As it is, with other tasks behind an edge, or with other partitions of the state."""
    order = RestartOrder(new_order_id(), "a campaign")
    match step.choice % 3:
        case 1:
            pools = {scene.edge(step.choice): 1 + step.choice % _MAX_POOL}
            order = RestartOrder(order.id, order.reason, pools=pools)
        case 2:
            partitions = 1 + step.choice // 3 % _MAX_STATE_PARTITIONS
            order = RestartOrder(order.id, order.reason, state_partitions=partitions)
    by_hand.request_restart(scene.control_folder, order)


def _malformed_rows(scene: Scene, step: Step) -> None:
    scene.malformed += 1 + step.choice % _MALFORMED


_ACTIONS: Mapping[Kind, Callable[[Scene, Step], None]] = MappingProxyType(
    {
        "kill-driver": lambda scene, _: kill(scene.driver()),
        "kill-jvm": lambda scene, _: kill(scene.jvm()),
        "kill-session": lambda scene, _: kill_session(scene.driver()),
        "kill-executor": lambda scene, step: kill(scene.executor(step.choice)),
        "stop-driver": _stop_driver,
        "stop-executor": lambda scene, step: stop_for(scene.executor(step.choice), step.seconds),
        "delete-store": _delete_store,
        "lock-store": _lock_store,
        "lock-folder": _lock_folder,
        "damage-routes": _damage_routes,
        "split": _split,
        "replicas": _replicas,
        "drain": _drain,
        "pause-loop": _pause_loop,
        "restart": _restart,
        "malformed-rows": _malformed_rows,
    }
)
