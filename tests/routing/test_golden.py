"""The bytes of `routes.json` that Spark reads: they may change only together with Spark's reader."""

from pathlib import Path

import pytest

from foretide.routing.table import RouteTable

GOLDEN = Path(__file__).parent / "golden"
DECLARED = RouteTable().declare("parse", pool=3, slots=12).declare("count", pool=2, weights=[3, 1], slots=8)
TABLES = {
    "empty": RouteTable(),
    "declared": DECLARED,
    "split": DECLARED.split("parse", [7, 3, 2]),
    "bypassed": DECLARED.split("parse", [1, 0, 1]).activate("count", 1),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_route_table_is_written_and_read_byte_for_byte(name):
    text = (GOLDEN / f"{name}.json").read_text()
    assert TABLES[name].to_json() == text
    assert RouteTable.from_json(text) == TABLES[name]
