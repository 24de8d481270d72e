"""Model files: everything a file may say, and every way it may be wrong."""

import json
import math
import tomllib

import pytest

from foretide.errors import LoopGainError, ModelError
from foretide.queueing.model import ArrivalCurve, BatchCosts, Failure, SlowWorker
from foretide.queueing.model_file import model_from_json, model_from_toml
from foretide.queueing.network import Flow, Operator

FULL = """
[[operator]]
name = "parse"
service_rate = 100
arrivals = 150
processors = 2
pool = 8
splits = true

[[operator]]
name = "count"
service_rate = 40.0
service_scv = 0.5
arrival_scv = 2

[[flow]]
from = "parse"
to = "count"
gain = 0.8

[micro_batch]
cores = 8
fixed_cost = 0.2
task_cost = 0.001
work_per_row = 0.01
trigger = 1

[simulation]
mode = "micro-batch"
duration = 30
warm_up = 5
seed = 7
curve = [[0, 1.0], [10, 2.5]]
curve_shape = "linear"

[[simulation.slow_worker]]
operator = "count"
replica = 1
factor = 3.0
start = 5

[[simulation.failure]]
operator = "parse"
at = 10
lasts = 2.5

[simulation.routes]
count = [4, 3, 1]
"""


def test_everything_a_file_may_say():
    model = model_from_toml(FULL)
    network = model.network
    assert network.operators == (Operator("parse", 100.0, splits=True), Operator("count", 40.0, 0.5, 2.0))
    assert network.flows == (Flow("parse", "count", 0.8),)
    assert network.arrival_rates == pytest.approx({"parse": 150.0, "count": 120.0})
    assert (model.processors, model.pools) == ({"parse": 2}, {"parse": 8})
    assert model.micro_batch == BatchCosts(8, 0.2, 0.001, 0.01, 1.0)
    plan = model.simulation
    assert plan is not None
    assert (plan.mode, plan.duration, plan.warm_up, plan.seed) == ("micro-batch", 30.0, 5.0, 7)
    assert plan.curve == ArrivalCurve(((0.0, 1.0), (10.0, 2.5)), "linear")
    assert plan.slow_workers == (SlowWorker("count", 1, 3.0, 5.0, math.inf),)
    assert plan.failures == (Failure("parse", 0, 10.0, 2.5),)
    assert plan.routes == {"count": (4.0, 3.0, 1.0)}


def test_json_says_the_same():
    assert model_from_json(json.dumps(tomllib.loads(FULL))) == model_from_toml(FULL)


def test_most_may_be_left_out():
    model = model_from_toml('[[operator]]\nname = "a"\nservice_rate = 1\n')
    assert (model.processors, model.pools, model.micro_batch, model.simulation) == ({}, {}, None, None)
    assert model.network.external_rate == 0


BAD = [
    ("arrivals = 150", "arrivals = -1", "arrivals is -1"),
    ("service_rate = 100", "service_rate = 0", "service_rate is 0"),
    ("service_rate = 100", 'service_rate = "fast"', "service_rate is 'fast'"),
    ("service_rate = 100\n", "", "'service_rate' is missing"),
    ('name = "parse"\n', "", "'name' is missing"),
    ("processors = 2", "processors = 0", "processors is 0"),
    ("processors = 2", "processors = 2.5", "processors is 2.5"),
    ("processors = 2", "processors = true", "processors is True"),
    ("processors = 2", "processors = 9", "has 9 processors of a pool of 8"),
    ("splits = true", "splits = 1", "splits is 1"),
    ("service_scv = 0.5", "service_scv = -0.5", "service_scv is -0.5"),
    ("gain = 0.8", "gain = -0.8", "gain is -0.8"),
    ("gain = 0.8", "gian = 0.8", "unknown field 'gian'"),
    ('to = "count"', 'to = "cuont"', "no operator 'cuont'"),
    ("[micro_batch]", "[micro_batches]", "unknown field 'micro_batches'"),
    ("cores = 8", "cores = 0", "cores is 0"),
    ("cores = 8\n", "", "'cores' is missing"),
    ("fixed_cost = 0.2", "fixed_cost = -0.2", "fixed_cost is -0.2"),
    ("work_per_row = 0.01", "work_per_row = 0", "work_per_row is 0"),
    ("trigger = 1", "trigger = nan", "trigger is nan"),
    ('mode = "micro-batch"', 'mode = "batch"', "mode is 'batch'"),
    ("duration = 30", "duration = 0", "duration is 0"),
    ("seed = 7", "seed = -7", "seed is -7"),
    ("[[0, 1.0], [10, 2.5]]", "[[10, 1.0], [0, 2.5]]", "the times of curve go back"),
    ("[[0, 1.0], [10, 2.5]]", "[1, 2]", "entry 1 of curve is 1"),
    ('"linear"', '"round"', "curve_shape is 'round'"),
    ("factor = 3.0", "factor = 0.0", "factor is 0.0"),
    ('operator = "count"\nreplica = 1', 'operator = "cuont"\nreplica = 1', "operator is 'cuont'"),
    ("lasts = 2.5", "lasts = -2.5", "lasts is -2.5"),
    ("count = [4, 3, 1]", "count = [0, 0]", "weights of 'count' add up to 0"),
    ("count = [4, 3, 1]", "cuont = [4, 3, 1]", "unknown field 'cuont'"),
    ("count = [4, 3, 1]", 'count = "4:3:1"', "count is '4:3:1'"),
]


@pytest.mark.parametrize(("good", "bad", "says"), BAD)
def test_what_makes_no_sense_is_said(good, bad, says):
    assert good in FULL
    with pytest.raises(ModelError) as caught:
        model_from_toml(FULL.replace(good, bad, 1))
    assert says in str(caught.value)


def test_all_problems_are_listed_at_once():
    text = FULL
    for good, bad, _ in (BAD[0], BAD[11], BAD[15], BAD[20], BAD[28]):
        text = text.replace(good, bad, 1)
    with pytest.raises(ModelError) as caught:
        model_from_toml(text)
    assert len(caught.value.problems) == 5


def test_texts_that_are_no_model():
    for read, text in (
        (model_from_toml, "]["),
        (model_from_json, "{"),
        (model_from_json, "[1]"),
        (model_from_toml, ""),
    ):
        with pytest.raises(ModelError):
            read(text)


def test_a_growing_loop_is_named():
    text = FULL + '\n[[flow]]\nfrom = "count"\nto = "count"\ngain = 1.0\n'
    with pytest.raises(LoopGainError) as caught:
        model_from_toml(text)
    assert caught.value.operators == ("count",)


ODD = {
    "service_rate = 100": ["5e-324", "1e308", "inf", "nan", "0", "-1", "1e13"],
    "arrivals = 150": ["5e-324", "1e308", "1e13", "nan"],
    "gain = 0.8": ["1e308", "1e7", "5e-324"],
    "processors = 2": ["9223372036854775808", "1000001", "0", "2.0"],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in ODD.items() for value in values])
def test_a_field_out_of_its_bounds_is_refused_with_them(field, value):
    assert field in FULL
    name = field.split()[0]
    with pytest.raises(ModelError, match=rf"{name} is .*\. Give .*between") as refused:
        model_from_toml(FULL.replace(field, f"{name} = {value}", 1))
    assert len(refused.value.problems) == 1


@pytest.mark.parametrize("digits", [30, 400, 3000])
def test_a_number_of_many_digits_is_counted_not_printed(digits):
    text = '{"operator": [{"name": "a", "service_rate": 1' + "0" * digits + "}]}"
    with pytest.raises(ModelError, match=f"service_rate is a number of {digits + 1} digits") as refused:
        model_from_json(text)
    assert len(str(refused.value)) < 300


def test_a_hexadecimal_number_of_any_length_is_refused():
    with pytest.raises(ModelError, match="digits"):
        model_from_toml('[[operator]]\nname = "a"\nservice_rate = 0x' + "f" * 5000)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_json_that_is_nested_too_deeply_is_refused(text):
    with pytest.raises(ModelError, match="nested too deeply"):
        model_from_json(text)


def test_a_table_that_is_nested_too_deeply_is_named():
    with pytest.raises(ModelError, match="operator is a table"):
        model_from_toml("operator" + ".a" * 3000 + " = 1")


@pytest.mark.parametrize("name", ["\\u001b[2J", "\\udcff", "a\\nb", "", "n" * 201])
def test_a_name_that_cannot_be_printed_is_refused(name):
    with pytest.raises(ModelError, match="Give a text of 1 to 200 printable characters") as refused:
        model_from_json('{"operator": [{"name": "' + name + '", "service_rate": 1}]}')
    assert str(refused.value).encode()
    assert "\x1b" not in str(refused.value)


def test_gains_within_bounds_that_multiply_beyond_them_are_refused():
    operators = [{"name": f"o{number}", "service_rate": 1} for number in range(10)]
    flows = [{"from": f"o{number}", "to": f"o{number + 1}", "gain": 1e6} for number in range(9)]
    operators[0]["arrivals"] = 1
    with pytest.raises(ModelError, match="operator 'o2': 1,000,000,000,000 tuples a second arrive"):
        model_from_json(json.dumps({"operator": operators, "flow": flows}))


def test_durations_may_have_units():
    model = model_from_toml(FULL.replace("duration = 30", 'duration = "1 min"', 1))
    assert model.simulation.duration == 60.0
    with pytest.raises(ModelError, match="duration is 'soon'"):
        model_from_toml(FULL.replace("duration = 30", 'duration = "soon"', 1))
