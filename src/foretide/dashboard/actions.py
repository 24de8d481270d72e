"""What people can order over the API and on the page *Act*: the same orders as those of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from foretide.control.target_record import describe_target
from foretide.control.world.setup import Quantile
from foretide.control_folder import by_hand
from foretide.control_folder.facts import MAX_POOL, MAX_STATE_PARTITIONS
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.orders import (
    HELD_MODE,
    HELD_TARGET,
    MAX_BUDGET,
    MAX_LATENCY_SECONDS,
    MAX_ROWS,
    HeldOrder,
    LoopMode,
    RestartOrder,
    TargetOrder,
    new_order_id,
)
from foretide.errors import ActionError
from foretide.routing.table import RouteTable

Name = Annotated[str, Field(min_length=1, max_length=200)]
Seconds = Annotated[float, Field(gt=0, le=MAX_LATENCY_SECONDS, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
HoldSeconds = Annotated[
    float | None,
    Field(gt=0, le=10 * 366 * 86_400, allow_inf_nan=False, description="How long it holds; until released if null."),
]


class _Order(BaseModel):
    """Fields that are not known are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Split(_Order):
    """Split an edge in a new ratio: a weight for each task; 0 bypasses one."""

    action: Literal["split"]
    edge: Name
    weights: Annotated[tuple[Weight, ...], Field(min_length=1, max_length=MAX_POOL)]
    hold_seconds: HoldSeconds = None


class Replicas(_Order):
    """Use the first tasks behind an edge."""

    action: Literal["replicas"]
    edge: Name
    replicas: Annotated[int, Field(ge=1, le=MAX_POOL)]
    hold_seconds: HoldSeconds = None


class Admission(_Order):
    """Limit the rows per batch of a spout; null lifts the limit."""

    action: Literal["admission"]
    spout: Name
    rows: Annotated[int | None, Field(ge=1, le=MAX_ROWS)]
    hold_seconds: HoldSeconds = None


class ChangeTarget(_Order):
    """Change the target. What is not given stays; "none" means no latency target, or no budget."""

    action: Literal["target"]
    latency: Seconds | Literal["none"] | None = None
    relaxed: Seconds | None = None
    quantile: Quantile | None = None
    budget: Annotated[int, Field(ge=1, le=MAX_BUDGET)] | Literal["none"] | None = None
    hold_seconds: HoldSeconds = None


class Drain(_Order):
    """Take a host or executor out of service, or with `release` put it back."""

    action: Literal["drain"]
    place: Name
    release: bool = False
    hold_seconds: HoldSeconds = None


class ChangeMode(_Order):
    """Let the control loop act, only advise, or pause."""

    action: Literal["mode"]
    mode: LoopMode
    hold_seconds: HoldSeconds = None


class Release(_Order):
    """Leave to the control loop again what was set by hand: `target`, `mode`, `edge NAME` or `spout NAME`."""

    action: Literal["release"]
    subject: Name


class Restart(_Order):
    """Restart the query from its checkpoint, for what cannot be changed while it runs."""

    action: Literal["restart"]
    reason: Annotated[str, Field(max_length=200)] = "requested by a user"
    state_partitions: Annotated[int | None, Field(ge=1, le=MAX_STATE_PARTITIONS)] = None
    pools: dict[Name, Annotated[int, Field(ge=1, le=MAX_POOL)]] = Field(default_factory=dict, max_length=100)


Order = Annotated[
    Split | Replicas | Admission | ChangeTarget | Drain | ChangeMode | Release | Restart,
    Field(discriminator="action"),
]


@dataclass(frozen=True, slots=True)
class Done:
    """What an order does, in a sentence; what is held by it, and the version of the routes that it published."""

    said: str
    held: HeldOrder | None = None
    version: int | None = None


def give(folder: ControlFolder, order: Order) -> Done:  # noqa: PLR0911 - one for each order
    """Give an order; a ForetideError says why it is refused."""
    match order:
        case Split():
            weights, words = order.weights, f"split {':'.join(f'{each:g}' for each in order.weights)}"
            return _route(folder, order, lambda table: table.split(order.edge, weights), words)
        case Replicas():
            count = order.replicas
            return _route(folder, order, lambda table: table.activate(order.edge, count), f"{count} replicas")
        case Admission():
            held = by_hand.limit_admission(folder, order.spout, order.rows, order.hold_seconds)
            return Done(f"{order.spout}: {held.words} from the next batch on", held)
        case ChangeTarget():
            return _target(folder, order)
        case Drain(release=True):
            by_hand.undrain(folder, order.place)
            return Done(f"{order.place} gets tasks again")
        case Drain():
            held = by_hand.drain(folder, order.place, order.hold_seconds)
            return Done(f"{order.place} gets no more tasks", held)
        case ChangeMode():
            held = by_hand.change_mode(folder, order.mode, order.hold_seconds)
            return Done(f"{held.words}, from its next cycle on", held)
        case Release():
            return _release(folder, order.subject)
        case Restart():
            wanted = RestartOrder(new_order_id(), order.reason, order.state_partitions, dict(order.pools))
            by_hand.request_restart(folder, wanted)
            return Done("restart requested")


def _route(folder: ControlFolder, order: Split | Replicas, change: by_hand.RouteChange, words: str) -> Done:
    table: RouteTable
    table, held = by_hand.change_route(folder, order.edge, change, words, order.hold_seconds)
    parts = " : ".join(f"{share:.1%}" for share in table.edges[order.edge].shares)
    return Done(f"{order.edge} is split {parts} from the next batch on", held, table.version)


def _target(folder: ControlFolder, order: ChangeTarget) -> Done:
    wanted = TargetOrder(order.latency, order.relaxed, order.quantile, order.budget)
    if wanted == TargetOrder():
        raise ActionError("nothing to change; give latency, relaxed, quantile or budget")
    target, held = by_hand.change_target(folder, wanted, order.hold_seconds)
    return Done(f"{describe_target(target)}, from the next control cycle on", held)


def _release(folder: ControlFolder, subject: str) -> Done:
    if subject == HELD_TARGET:
        by_hand.release_target(folder)
    elif subject == HELD_MODE:
        by_hand.release_mode(folder)
    else:
        by_hand.release(folder, subject)
    return Done(f"{subject} is released: the control loop may change it again")
