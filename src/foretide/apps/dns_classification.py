"""Classification of DNS traffic (pa-sps, Fig 12): queries of programs that hide, and queries that fail.

queries -> parse -> domain -> measure -> classify, each load-aware

The paper's text names neither the four operators nor the classes; these are ours. All are stateless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from foretide.apps.app import App, Load, RealTime
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import LoadAware
from foretide.topology.sources import Replay, Source
from foretide.workloads.curve import Curve
from foretide.workloads.dns import DnsQueries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LONG_LABEL = 30
"""Labels of this length carry data."""

RANDOM_LABEL, RANDOM_DIGITS = 12, 4
"""Labels of this length with this many digits were generated, if the name does not exist."""


def parse(queries: DataFrame) -> DataFrame:
    """The fields of each line."""
    parts = F.split("line", " ")
    names = ("client", "name", "type", "code")
    return queries.select("row", "due", *[parts[place].alias(name) for place, name in enumerate(names)])


def domain(queries: DataFrame) -> DataFrame:
    """The domain that is registered, and the label in front."""
    labels = F.split("name", r"\.")
    registered = F.array_join(F.slice(labels, -2, 2), ".")
    return queries.withColumns({"domain": registered, "label": labels[0]}).drop("name")


def measure(queries: DataFrame) -> DataFrame:
    """The length of the label and how many digits it has."""
    digits = F.length("label") - F.length(F.regexp_replace("label", "[0-9]", ""))
    return queries.withColumns({"length": F.length("label"), "digits": digits}).drop("label")


def classify(queries: DataFrame) -> DataFrame:
    """What kind of query it is."""
    does_not_exist = F.col("code") == "NXDOMAIN"
    random = (F.col("length") >= RANDOM_LABEL) & (F.col("digits") >= RANDOM_DIGITS)
    kind = (
        F.when((F.col("type") == "TXT") & (F.col("length") >= LONG_LABEL), "tunnel")
        .when(does_not_exist & random, "generated")
        .when(F.col("code") != "NOERROR", "failed")
        .otherwise("normal")
    )
    return queries.select("row", "due", "client", "domain", kind.alias("class"))


def topology(source: Source) -> Topology:
    """The topology for any source of queries, in either mode."""
    evenly = LoadAware(by=("row",))
    return Topology(
        "dns-classification",
        spouts=[Spout("queries", source)],
        bolts=[
            Bolt("parse", parse, [From("queries", evenly)], pool=3),
            Bolt("domain", domain, [From("parse", evenly)], pool=3),
            Bolt("measure", measure, [From("domain", evenly)], pool=3),
            Bolt("classify", classify, [From("measure", evenly)], pool=3),
        ],
    )


def build(load: Load) -> Topology:
    """The topology under a load that is drawn anew every twentieth of the run: DNS traffic changes fast."""
    every = load.seconds / 20
    curve = Curve.fluctuating(load.seed, 0.2 * load.rate, 1.8 * load.rate, every, load.seconds)
    return topology(Replay(DnsQueries(seed=load.seed), load.shaped(curve), paced=load.paced))


def truth(queries: pd.DataFrame, _: Load) -> pd.DataFrame:
    """The classes, worked out the plain way."""
    classified = [(row, *class_of(line)) for row, line in zip(queries["row"].tolist(), queries["line"], strict=True)]
    return pd.DataFrame(classified, columns=["row", "client", "domain", "class"])


def class_of(line: str) -> tuple[str, str, str]:
    """Client, domain and class of one query.

    >>> class_of("10.0.0.1 www.site3.example A NOERROR 80")
    ('10.0.0.1', 'site3.example', 'normal')
    >>> class_of("10.0.0.1 0123456789abcdef.info A NXDOMAIN 80")[1:]
    ('0123456789abcdef.info', 'generated')
    """
    client, name, record, code, _ = line.split(" ")
    label, *_ = labels = name.split(".")
    domain_name = ".".join(labels[-2:])
    digits = sum(each.isdigit() for each in label)
    if record == "TXT" and len(label) >= LONG_LABEL:
        return client, domain_name, "tunnel"
    if code == "NXDOMAIN" and len(label) >= RANDOM_LABEL and digits >= RANDOM_DIGITS:
        return client, domain_name, "generated"
    return client, domain_name, "normal" if code == "NOERROR" else "failed"


def last_classes(queries: pd.DataFrame) -> pd.DataFrame:
    """What has to be there of each query in real-time mode."""
    return truth(queries, Load())[["row", "class"]].assign(due=queries["due"])


APP = App(
    "dns-classification",
    build,
    edge="measure",
    ratio="3:2:1",
    result="classify",
    truth=truth,
    real_time=RealTime(topology, "classify", ("row", "class"), "due", last_classes),
)
