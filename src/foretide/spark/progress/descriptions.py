"""What Spark says of each operator of an executed plan: the text in which the column of an edge is found.

Spark 4.3 has it in the answers of its REST interface, older versions in the driver only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger("foretide")

Json = Mapping[str, Any]
_MAX_PLANS = 20


class PlanDescriptions:
    """The descriptions of one query's plans. `ask` gives those of an execution, for plans that come without any."""

    def __init__(self, ask: Callable[[int], Mapping[int, str]]) -> None:
        self._ask = ask
        self._known: dict[object, Mapping[int, str]] = {}

    def of(self, execution: Json) -> list[dict[str, Any]]:
        """The nodes of an execution, each with its description.

        The driver is asked once for each form of the plan, since the columns of edges are the same in each batch.
        """
        nodes = [dict(node) for node in execution["nodes"]]
        if all("desc" in node for node in nodes):
            return nodes
        form = tuple((node["nodeId"], node["nodeName"]) for node in nodes)
        if form not in self._known:
            while len(self._known) >= _MAX_PLANS:
                self._known.pop(next(iter(self._known)))
            self._known[form] = self._ask(execution["id"])
        return [{"desc": self._known[form].get(node["nodeId"], ""), **node} for node in nodes]


def ask_driver(context: SparkContext, execution: int) -> Mapping[int, str]:
    """The descriptions of an execution's operators in the driver; none if it does not answer."""
    try:
        jvm: Any = context._jvm  # noqa: SLF001 - the plan is in the driver's JVM
        driver: Any = context._jsc  # noqa: SLF001
        status = jvm.org.apache.spark.sql.execution.ui.SQLAppStatusStore
        graph = status(driver.sc().statusStore().store(), jvm.scala.Option.empty()).planGraph(execution)
        nodes = graph.allNodes()
        return {int(node.id()): str(node.desc()) for node in (nodes.apply(place) for place in range(nodes.size()))}
    except (Py4JError, TypeError) as error:
        log.warning("the driver does not describe the plan of execution %d: %s", execution, error)
        return {}
