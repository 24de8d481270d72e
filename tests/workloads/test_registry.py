import pytest

from foretide.errors import WorkloadError
from foretide.workloads.keyed import Keyed
from foretide.workloads.plates import Plates
from foretide.workloads.registry import GENERATORS, generator_from_json, generator_to_json
from foretide.workloads.requests import RequestLines


@pytest.mark.parametrize("kind", GENERATORS.values())
def test_json_loses_nothing(kind):
    generator = kind(seed=2**64 - 1)
    assert generator_from_json(generator_to_json(generator)) == generator


@pytest.mark.parametrize(
    "generator",
    [Keyed(seed=1, keys=3, hot_share=0.1), RequestLines(seed=0, zipf=0.7), Plates(seed=1, limit=50)],
)
def test_json_keeps_every_parameter(generator):
    assert generator_from_json(generator_to_json(generator)) == generator


def test_names_are_those_users_write():
    assert list(GENERATORS) == [
        "requests", "tweets", "plates", "events", "keyed", "taxi-orders", "taxi-positions", "dns", "logs", "nexmark",
        "transactions", "scenes",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        (None, "is not JSON"),
        ("[]", "not an object"),
        ("{}", "unknown generator None; choose one of requests, tweets, plates, events, keyed"),
        ('{"generator": "trades", "seed": 1}', "unknown generator 'trades'"),
        ('{"generator": ["keyed"], "seed": 1}', "unknown generator"),
        ('{"generator": "keyed"}', "lacks its seed"),
        ('{"generator": "keyed", "seed": 1, "hue": 2}', "no parameter hue; it has seed, keys, zipf"),
        ('{"generator": "keyed", "seed": 1, "schema": 2}', "no parameter schema"),
        ('{"generator": "keyed", "seed": 1, "keys": "9"}', "keys must be a whole number .* got '9'"),
        ('{"generator": "keyed", "seed": 1, "zipf": NaN}', "zipf must be a number .* got nan"),
    ],
)
def test_bad_descriptions_are_refused(text, message):
    with pytest.raises(WorkloadError, match=message):
        generator_from_json(text)


def test_a_strange_generator_has_no_name():
    with pytest.raises(WorkloadError, match="object is not a registered generator"):
        generator_to_json(object())
