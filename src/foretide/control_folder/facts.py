"""What a pipeline is made of, as it says itself, and whether an order fits it.

Commands check orders before they write them, and the control loop checks them again: another version may have written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretide.errors import ActionError
from foretide.routing.ring import DEFAULT_SLOTS

if TYPE_CHECKING:
    from foretide.control_folder.orders import RestartOrder

FACTS = "pipeline.json"

MAX_STATE_PARTITIONS = 10_000
MAX_POOL = DEFAULT_SLOTS
"""A restart spreads a stream over the whole pool, and each task needs an identifier of the ring."""


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """What a pipeline is made of.

    Attributes:
        spouts: Whether the admission limit of each can be changed while it runs.
        pools: The tasks behind each edge whose pool a restart can change.
        no_restart: Why the control loop cannot restart it; None if it can.
        state_repartition: Why a restart cannot change the number of state partitions; None if it can.
        restart_limits: Spouts whose admission limit takes a restart.
    """

    name: str
    spouts: Mapping[str, bool]
    pools: Mapping[str, int]
    no_restart: str | None = None
    state_repartition: str | None = None
    restart_limits: frozenset[str] = frozenset()


def check_restart(order: RestartOrder, facts: PipelineFacts) -> None:
    """Refuse a restart that this pipeline cannot make.

    Raises:
        ActionError: Says what there is.
    """
    if facts.no_restart is not None:
        raise ActionError(f"the control loop cannot restart '{facts.name}': {facts.no_restart}")
    for edge, tasks in order.pools.items():
        if edge not in facts.pools:
            known = ", ".join(f"{name} ({pool} tasks)" for name, pool in facts.pools.items()) or "none"
            raise ActionError(f"'{facts.name}' has no edge '{edge}' whose pool can be changed; there are: {known}")
        if not 1 <= tasks <= MAX_POOL:
            raise ActionError(f"the pool of '{edge}' must be between 1 and {MAX_POOL} tasks")
    for spout in order.admission:
        if spout not in facts.restart_limits:
            known = ", ".join(sorted(facts.restart_limits)) or "none"
            raise ActionError(f"'{facts.name}': a restart cannot limit spout '{spout}'; it can limit: {known}")
    partitions = order.state_partitions
    if partitions is None:
        return
    if not 1 <= partitions <= MAX_STATE_PARTITIONS:
        raise ActionError(f"the number of state partitions must be between 1 and {MAX_STATE_PARTITIONS}")
    if facts.state_repartition is not None:
        raise ActionError(f"the state partitions of '{facts.name}' cannot be changed: {facts.state_repartition}")


def check_admission(spout: str, facts: PipelineFacts) -> None:
    """Refuse a limit for a spout that is not there, or that does not read its limit while it runs.

    Raises:
        ActionError: Says what there is.
    """
    if facts.spouts.get(spout):
        return
    if spout in facts.restart_limits:
        raise ActionError(
            f"'{facts.name}': the limit of spout '{spout}' is fixed when the query starts; give --restart to restart "
            "the query with it"
        )
    live = ", ".join(name for name, can_limit in facts.spouts.items() if can_limit) or "none"
    what = "the limit of spout '{}' cannot be changed while it runs" if spout in facts.spouts else "no spout '{}'"
    raise ActionError(f"'{facts.name}': {what.format(spout)}; spouts whose limit can be changed: {live}")


def check_place(place: str, workers: Mapping[str, str]) -> None:
    """Refuse to drain a host or worker that is not there; `workers` are the live ones, and the host of each.

    Raises:
        ActionError: Says what there is.
    """
    if place in workers or place in workers.values():
        return
    known = "; ".join(f"{host} (executors {', '.join(on)})" for host, on in sorted(_by_host(workers).items()))
    raise ActionError(f"no host or executor '{place}' is known; there are: {known or 'none yet'}")


def _by_host(workers: Mapping[str, str]) -> dict[str, list[str]]:
    hosts: dict[str, list[str]] = {}
    for worker, host in sorted(workers.items()):
        hosts.setdefault(host, []).append(worker)
    return hosts
