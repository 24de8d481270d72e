"""Generators as text: a name, and the parameters of the class behind it."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from foretide.errors import WorkloadError
from foretide.workloads.dns import DnsQueries
from foretide.workloads.generator import json_object
from foretide.workloads.keyed import Keyed
from foretide.workloads.logs import LogLines
from foretide.workloads.nexmark import NexmarkEvents
from foretide.workloads.plates import Plates
from foretide.workloads.requests import RequestLines
from foretide.workloads.scenes import Scenes
from foretide.workloads.taxi import TaxiOrders, VehiclePositions
from foretide.workloads.transactions import Transactions
from foretide.workloads.tweets import Tweets, UserEvents

if TYPE_CHECKING:
    from foretide.workloads.generator import Generator

GENERATORS: dict[str, type[Any]] = {
    "requests": RequestLines,
    "tweets": Tweets,
    "plates": Plates,
    "events": UserEvents,
    "keyed": Keyed,
    "taxi-orders": TaxiOrders,
    "taxi-positions": VehiclePositions,
    "dns": DnsQueries,
    "logs": LogLines,
    "nexmark": NexmarkEvents,
    "transactions": Transactions,
    "scenes": Scenes,
}
"""The generators by the names they have in JSON."""


def generator_to_json(generator: Generator) -> str:
    """The description of a generator, without loss.

    >>> generator_to_json(UserEvents(seed=7, users=10))
    '{"generator": "events", "seed": 7, "users": 10, "zipf": 1.05}'
    """
    names = {kind: name for name, kind in GENERATORS.items()}
    kind: type[Any] = type(generator)
    if kind not in names:
        raise WorkloadError(f"{kind.__name__} is not a registered generator; use one of {_names()}.")
    parameters = {field.name: getattr(generator, field.name) for field in fields(kind)}
    return json.dumps({"generator": names[kind]} | parameters)


def generator_from_json(text: str) -> Generator:
    """The generator of that description; parameters that are left out have their defaults.

    >>> generator_from_json('{"generator": "events", "seed": 7}')
    UserEvents(seed=7, users=5000, zipf=1.05)
    """
    parameters = json_object("the generator", text)
    name = parameters.pop("generator", None)
    if not isinstance(name, str) or name not in GENERATORS:
        raise WorkloadError(f"unknown generator {name!r}; choose one of {_names()}.")
    known = [field.name for field in fields(GENERATORS[name])]
    if unknown := sorted(parameters.keys() - set(known)):
        raise WorkloadError(f"generator '{name}' has no parameter {', '.join(unknown)}; it has {', '.join(known)}.")
    if "seed" not in parameters:
        raise WorkloadError(f"generator '{name}' lacks its seed; give a whole number as 'seed'.")
    generator: Generator = GENERATORS[name](**parameters)
    return generator


def _names() -> str:
    return ", ".join(GENERATORS)
