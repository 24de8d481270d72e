"""What holds for every generator in the registry, found through it."""

import dataclasses
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import WorkloadError
from foretide.workloads.generator import MAX_ROW_NUMBER, MAX_ROWS, Generator
from foretide.workloads.keyed import Keyed
from foretide.workloads.registry import GENERATORS
from foretide.workloads.requests import RequestLines
from foretide.workloads.taxi import TaxiOrders
from foretide.workloads.transactions import Transactions

SAMPLES: list[Generator] = [
    *(kind(seed=5) for kind in GENERATORS.values()),
    RequestLines(seed=5, malformed=0.3),
    Keyed(seed=5, keys=77, change_every=13, hot_share=0.2),
    TaxiOrders(seed=5, cells=77, move_every=13),
    Transactions(seed=5, change_every=13, delay=50),
]


def whole_range(generator):
    return generator.rows(0, 6_000)


WHOLE = [whole_range(generator) for generator in SAMPLES]


@pytest.mark.parametrize("generator", SAMPLES, ids=repr)
@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, 6_000), max_size=4))
def test_rows_are_the_same_however_the_range_is_cut(generator, cuts):
    edges = [0, *sorted(cuts), 6_000]
    parts = [generator.rows(first, last) for first, last in pairwise(edges)]
    whole = WHOLE[SAMPLES.index(generator)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([whole])


@pytest.mark.parametrize("generator", SAMPLES, ids=repr)
class TestEveryGenerator:
    def test_rows_have_the_schema_and_no_nulls(self, generator):
        batch = generator.rows(3, 1003)
        batch.validate(full=True)
        assert batch.schema == generator.schema
        assert batch.num_rows == 1000
        assert all(column.null_count == 0 for column in batch.columns)

    def test_an_empty_range_has_no_rows(self, generator):
        assert generator.rows(7, 7).num_rows == 0
        assert generator.rows(7, 7).schema == generator.schema

    def test_equal_descriptions_give_equal_rows_and_other_seeds_others(self, generator):
        again = dataclasses.replace(generator)
        other = dataclasses.replace(generator, seed=6)
        assert again == generator
        assert hash(again) == hash(generator)
        assert again.rows(0, 100) == generator.rows(0, 100)
        assert other.rows(0, 100) != generator.rows(0, 100)

    def test_rows_far_out_can_be_had(self, generator):
        assert generator.rows(MAX_ROW_NUMBER - 5, MAX_ROW_NUMBER).num_rows == 5

    @pytest.mark.parametrize(
        ("first", "last"),
        [(-1, 5), (5, 4), (0, MAX_ROWS + 1), (0.0, 5), (0, True), (0, "5"), (0, MAX_ROW_NUMBER + 1)],
    )
    def test_a_bad_range_is_refused(self, generator, first, last):
        with pytest.raises(WorkloadError, match=r"must be|give|ask"):
            generator.rows(first, last)

    def test_bad_parameters_are_refused(self, generator):
        for field in dataclasses.fields(generator):
            for bad in (-1, float("nan"), float("inf"), 2**70, "many", None, True):
                with pytest.raises(WorkloadError, match=f"{field.name} must be a .*, got"):
                    dataclasses.replace(generator, **{field.name: bad})


def test_whole_parameters_refuse_fractions():
    with pytest.raises(WorkloadError, match=r"keys must be a whole number .*, got 1\.5"):
        Keyed(seed=1, keys=1.5)
