from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import JoinPlanError
from foretide.joins.placement.salts import HASH_SEED, TAIL_SALT, hash_int, partitions_of, salts_for, tail_partition
from joins.placement.spark_hash import DecimalKey, SimpleKey, StructKey, hash_row

ints = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(ints, min_size=1, max_size=5), ints)
def test_many_ints_at_once_hash_like_each_of_them_alone(values, seed):
    alone = [hash_row([SimpleKey.INT], [value], seed) for value in values]
    assert hash_int(values, seed).tolist() == alone
    assert hash_int(values, [seed] * len(values)).tolist() == alone


@given(st.text(max_size=9), st.integers(-(2**63), 2**63 - 1), ints)
def test_a_salt_behind_the_keys_only_needs_the_hash_of_the_keys(text, number, salt):
    keys = hash_row([SimpleKey.STRING, SimpleKey.LONG], [text, number])
    with_salt = hash_row([SimpleKey.STRING, SimpleKey.LONG, SimpleKey.INT], [text, number, salt])
    assert hash_int([salt], keys).tolist() == [with_salt]


def test_nulls_leave_the_hash_as_it_was():
    types = [SimpleKey.STRING, StructKey((SimpleKey.INT,)), DecimalKey(20, 2)]
    assert hash_row(types, [None, None, None]) == HASH_SEED
    assert hash_row([SimpleKey.INT, *types], [5, None, [None], None]) == hash_row([SimpleKey.INT], [5])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (SimpleKey.BYTE, 128),
        (SimpleKey.SHORT, -32769),
        (SimpleKey.INT, 2**31),
        (SimpleKey.TIMESTAMP, 2**63),
        (DecimalKey(4, 2), Decimal("0.005")),
        (DecimalKey(4, 2), Decimal(100)),
        (DecimalKey(38, 0), Decimal("NaN")),
    ],
)
def test_a_value_that_its_type_cannot_hold_is_refused(kind, value):
    with pytest.raises(ValueError):
        hash_row([kind], [value])


@settings(deadline=None)
@given(ints, st.integers(1, 64), st.data())
def test_each_cell_lands_on_its_partition_with_a_salt_of_its_own(key_hash, partitions, data):
    wanted = data.draw(st.lists(st.integers(0, partitions - 1), max_size=12))
    taken = data.draw(st.sets(st.integers(-5, 60), max_size=20))
    salts = salts_for(key_hash, partitions, wanted, taken)
    assert salts == salts_for(key_hash, partitions, wanted, sorted(taken, reverse=True))
    assert len(set(salts)) == len(wanted)
    assert not {TAIL_SALT, *taken} & set(salts)
    landed = [hash_row([SimpleKey.INT], [salt], key_hash) % partitions for salt in salts]
    assert landed == wanted
    assert partitions_of(key_hash, np.array(salts, dtype=int), partitions).tolist() == wanted


def test_a_tail_key_lands_where_salt_zero_puts_it():
    keys = hash_row([SimpleKey.STRING], ["quiet"])
    assert tail_partition(keys, 7) == hash_row([SimpleKey.STRING, SimpleKey.INT], ["quiet", 0]) % 7


def test_many_salts_on_few_of_many_partitions_are_found():
    salts = salts_for(99, 5000, [4999] * 30, range(1, 1000))
    assert set(partitions_of(99, salts, 5000).tolist()) == {4999}
    assert len(set(salts)) == 30


@pytest.mark.parametrize("partition", [-1, 8])
def test_a_partition_that_is_not_there_is_refused(partition):
    with pytest.raises(JoinPlanError, match="partitions 0 to 7"):
        salts_for(1, 8, [partition])
