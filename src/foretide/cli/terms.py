"""Lines that explain terms where they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from foretide.cli.console import Text
from foretide.metrics.catalogue import CATALOGUE

_TERMS = {
    "slowness": "worker_slowness",
    "imbalance": "join_imbalance",
    **{
        name: name
        for name in (
            "utilization", "capacity", "skew", "service_scv", "arrival_scv", "selectivity", "flow_fraction",
            "true_processing_rate",
        )
    },
}  # fmt: skip
"""Words in tables and reasons, and the metric that each of them is."""


def explained(texts: Iterable[str]) -> list[Text]:
    """A line with the meaning of each term that occurs in the texts.

    >>> [str(line) for line in explained(["its slowness is 2.1", "done"])]
    ['slowness: Time its tasks took over what the same tuples take on average, bolt by bolt.']
    """
    words = {word for text in texts for word in re.findall(r"[a-z_]+", text)}
    words |= {word.removeprefix("worker_").removeprefix("running_").removeprefix("join_") for word in words}
    return [Text(f"{term}: {CATALOGUE[name].meaning}", style="dim") for term, name in _TERMS.items() if term in words]
