"""Settings by flags, environment, file and defaults: each source, their rank, every refusal."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from foretide.bounds import Scope, field_types
from foretide.control.forecast_scores import VoteSettings
from foretide.control.guards import DailyWindow, GuardSettings
from foretide.control.policies.bypass import Bypass, BypassSettings
from foretide.control.policies.hot_keys import HotKeySettings
from foretide.control.policies.registry import POLICIES
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.durations import is_duration
from foretide.errors import SettingsError
from foretide.joins.settings import JoinSettings
from foretide.settings.load import OTHER_VARIABLES, effective_settings, load_settings
from foretide.settings.reference import PYTHON_ONLY, SECTIONS, SETTINGS, describe_section
from foretide.settings.run import MonitorSettings, RunSettings
from foretide.settings.settings import ControlSettings, Settings

ROOT = Path(__file__).parents[2]
CHANGED = {
    "forecasts.spouts": ["lines"],
    "forecasts.horizons": [2.0, 4.0],
    "forecasts.seasons": [60.0],
    "forecasts.models": ["ewma", "ridge"],
    "run.output_mode": "update",
    "monitoring.store": "kept.db",
    "monitoring.webhook": "https://example.org",
    "monitoring.prometheus_host": "0.0.0.0",
    "monitoring.steps": [{"after": "10 min", "every": 30.0}],
    "monitoring.node_exporters": {"far": "far:9100"},
    "monitoring.rules": [{"name": "too-late", "metric": "latency_p99_ms", "above": 2000.0, "lasting": "10 s"}],
    "control.policies": ["static", "reactive", "processors", "prediction_error", "replicas", "admission", "bypass"],
    "guards.excluded": [{"start": "22h", "end": 21600.0}],
    "prediction_error.metric": "worker_slowness",
    "forecasts.history": ["load.csv"],
    "forecasts.model": "models/load",
    "forecasts.events": ["2026-11-27 18:00 1h x3"],
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """No test sees a settings file, or settings in the environment, of whoever runs it."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FORETIDE_") and name not in OTHER_VARIABLES]:
        monkeypatch.delenv(name)
    return tmp_path


def load(*overrides, file=None, **env):
    if file is not None:
        Path("foretide.toml").write_text(file, encoding="utf-8")
    return load_settings(None, overrides, {f"FORETIDE_{name}": value for name, value in env.items()})


def refused(*overrides, file=None, **env):
    with pytest.raises(SettingsError) as caught:
        load(*overrides, file=file, **env)
    return str(caught.value)


def another(setting):
    """A value that a setting may have and has not by default."""
    kind, default = setting.kind, setting.default
    if setting.path in CHANGED:
        return CHANGED[setting.path]
    if kind is bool:
        return not default
    if get_origin(kind) is Literal:
        return next(each for each in get_args(kind) if each != default)
    if kind is int:
        return 5 if default is None else default + 1
    if is_duration(kind):
        return "7 seconds" if default is None or isinstance(default, str) else default + 1
    assert kind is float, setting.path
    return 0.5 if default is None else default + 0.01


def as_toml(value):
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)} = {as_toml(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value)


def as_text(value):
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value)


def as_file(values):
    lines = []
    for section in SECTIONS:
        own = {SETTINGS[path].name: value for path, value in values.items() if SETTINGS[path].section == section}
        lines += [f"[{section}]", *(f"{name} = {as_toml(value)}" for name, value in own.items())]
    return "\n".join(lines)


# ---- each source


def test_without_any_source_all_is_default():
    settings = load()
    assert settings == Settings()
    assert {each.source for each in effective_settings(settings)} == {"default"}
    assert [each.setting for each in effective_settings(settings)] == list(SETTINGS.values())


def test_every_setting_can_be_given_by_every_source_and_means_the_same():
    values = {path: another(key) for path, key in SETTINGS.items()}
    by_flags = load(*(f"{path}={as_text(value)}" for path, value in values.items()))
    env = {SETTINGS[path].variable: as_text(value) for path, value in values.items()}
    by_environment = load_settings(env=env)
    by_file = load(file=as_file(values))
    assert by_flags == by_environment == by_file
    assert set(by_flags.origins) == set(by_environment.origins) == set(by_file.origins) == set(SETTINGS)
    before, after = effective_settings(Settings()), effective_settings(by_file)
    assert [one.setting.path for one, other in zip(before, after, strict=True) if one.value == other.value] == []
    assert by_file.guards.excluded == (DailyWindow(79_200.0, 21_600.0),)
    assert by_file.monitoring.rules[0].lasting == 10.0
    assert by_file.run.trigger == "7000 milliseconds"


@pytest.mark.parametrize("changed", [False, True])
def test_what_is_in_force_can_be_given_again_and_nothing_changes(changed):
    first = load(*(f"{path}={as_text(another(key))}" for path, key in SETTINGS.items())) if changed else load()
    shown = {each.setting.path: each.value for each in effective_settings(first)}
    assert json.loads(json.dumps(shown)) == shown
    assert load(*(f"{path}={as_text(value)}" for path, value in shown.items())) == first
    assert load(file=as_file({path: "none" if value is None else value for path, value in shown.items()})) == first


@pytest.mark.parametrize("text", ["2", "2.0", "2s", "2000 ms", " 2 seconds "])
def test_durations_are_numbers_or_text(text):
    assert load(f"guards.cooldown={text}").guards.cooldown == 2.0
    assert load(GUARDS__COOLDOWN=text).guards.cooldown == 2.0
    assert load(file=f'[guards]\ncooldown = "{text}"').guards.cooldown == 2.0
    assert load(file="[guards]\ncooldown = 2").guards.cooldown == 2.0
    assert load(f"run.trigger={text}").run.trigger == "2000 milliseconds"


def test_none_is_written_as_such_where_it_is_allowed():
    assert load("bypass.horizon=none", "run.trigger=None").policies["bypass"].horizon is None
    assert load("run.trigger=none").run.trigger is None
    assert load(file='[bypass]\nhorizon = "none"').policies["bypass"].horizon is None
    assert load("run.guarantee=none").run.guarantee == "none"
    assert "'none' is not a duration" in refused("guards.cooldown=none")


def test_lists_of_names_are_given_with_commas_or_as_json():
    wanted = ("replicas", "bypass")
    assert load("control.policies=replicas, bypass").control.policies == wanted
    assert load(CONTROL__POLICIES='["replicas", "bypass"]').control.policies == wanted
    assert load("control.policies=[]").control.policies == ()


def test_an_empty_text_is_a_value_where_text_is_wanted_and_refused_elsewhere():
    assert load(MONITORING__STORE="").monitoring.store == ""
    assert refused(GUARDS__QUOTA="") == (
        "guards.quota must be a whole number, got '' (environment variable FORETIDE_GUARDS__QUOTA)"
    )


# ---- rank


def test_flags_go_before_the_environment_that_before_the_file_and_that_before_the_default():
    file = "[guards]\ncooldown = 1\ndeadband = 0.1\nquota = 11"
    settings = load("guards.cooldown=3", file=file, GUARDS__COOLDOWN="2", GUARDS__DEADBAND="0.2")
    assert settings.guards == GuardSettings(cooldown=3.0, deadband=0.2, quota=11)
    assert settings.origins == {
        "guards.cooldown": "flag --set guards.cooldown",
        "guards.deadband": "environment variable FORETIDE_GUARDS__DEADBAND",
        "guards.quota": "foretide.toml",
    }


def test_a_file_that_is_named_takes_the_place_of_the_usual_one_and_a_flag_names_it_before_the_environment(tmp_path):
    for name, quota in (("foretide.toml", 1), ("named.toml", 2), ("flagged.toml", 3)):
        (tmp_path / name).write_text(f"[guards]\nquota = {quota}", encoding="utf-8")
    env = {"FORETIDE_CONFIG": str(tmp_path / "named.toml")}
    assert load_settings(env={}).guards.quota == 1
    assert load_settings(env={"FORETIDE_CONFIG": ""}).guards.quota == 1
    assert load_settings(env=env).guards.quota == 2
    assert load_settings(tmp_path / "flagged.toml", env=env).guards.quota == 3


def test_the_environment_is_that_of_this_process_unless_another_is_given(monkeypatch):
    monkeypatch.setenv("FORETIDE_GUARDS__QUOTA", "7")
    assert load_settings().guards.quota == 7
    assert load_settings(env={}).guards.quota == 240


def test_what_a_higher_rank_overrides_is_checked_all_the_same():
    message = refused("guards.quota=3", file='[guards]\nquota = "x"')
    assert message == "guards.quota must be a whole number, got 'x' (foretide.toml)"


# ---- refusals


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("guards.cooldown", "guards.cooldown has no value; write it as 'guards.cooldown=30'"),
        ("guards=3", "'guards' is a section, not a setting"),
        ("gards.cooldown=3", "unknown section 'gards', did you mean 'guards'?; sections are run, monitoring"),
        (
            "guards.cooldwn=3",
            "unknown setting 'guards.cooldwn', did you mean 'cooldown'?; section 'guards' has",
        ),
        ("guards.zzz=3", "unknown setting 'guards.zzz'; section 'guards' has min_replicas"),
        ("hot_keys.planning.zzz=3", "unknown setting 'hot_keys.planning.zzz'; section 'hot_keys.planning' has variant"),
        ("origins.x=3", "unknown section 'origins'"),
        ("static.x=3", "unknown section 'static'"),
        ("monitoring.smoothing=fading", "monitoring.smoothing can be set in Python only"),
        ("guards.cooldown=soon", "guards.cooldown: 'soon' is not a duration; give seconds as a number"),
        ("guards.cooldown=-1", "guards.cooldown: '-1' is not a duration"),
        ("guards.quota=1.5", "guards.quota must be a whole number, got '1.5'"),
        ("guards.max_replicas=x", "guards.max_replicas must be a whole number, or none, got 'x'"),
        ("guards.deadband=nan", "guards.deadband must be a finite number, got 'nan'"),
        ("guards.deadband=inf", "guards.deadband must be a finite number, got 'inf'"),
        ("run.audit_ids=perhaps", "run.audit_ids must be true or false, got 'perhaps'"),
        ("control.mode=watch", "control.mode must be 'act' or 'advise', got 'watch'"),
        ("control.policies=bypass,magic", "control.policies must be a list of bypass, prediction_error"),
        ("control.policies=bypass,bypass", "control.policies must name each policy once, got bypass more than once"),
        ("monitoring.rules=x", "monitoring.rules must be valid JSON, got 'x'"),
        ("monitoring.rules={}", "monitoring.rules must be a list, got {}"),
        ("monitoring.rules=[3]", "monitoring.rules, entry 1 must be a table"),
        ('monitoring.rules=[{"name": "a"}]', "monitoring.rules, entry 1, 'metric' is missing"),
        (
            'monitoring.rules=[{"name": "a", "metric": "lag", "abov": 1}]',
            "monitoring.rules, entry 1, 'abov' is unknown",
        ),
        ('monitoring.rules=[{"name": "a", "metric": "lag"}]', "monitoring.rules: rule 'a'"),
        (
            'guards.excluded=[{"start": "soon", "end": 1}]',
            "guards.excluded, entry 1, 'start': 'soon' is not a duration",
        ),
        ('guards.excluded=[{"start": "25h", "end": 1}]', "guards.excluded, entry 1, 'start' must be less than 86400"),
        ('monitoring.node_exporters={"far": 3}', "monitoring.node_exporters, 'far' must be text, got 3"),
        ("prediction_error.metric=zzz", "prediction_error.metric must be in the catalogue of metrics, got 'zzz'"),
        ("run.tries=0", "run.tries must be at least 1, got 0"),
        ("run.output_mode=some", "run.output_mode must be 'append', 'update' or 'complete', got 'some'"),
        ("run.batch_timeout=-1", "run.batch_timeout: '-1' is not a duration"),
        ("guards.deadband=2", "guards.deadband must be at least 0 and less than 1, got 2.0"),
        ("monitoring.prometheus_port=70000", "monitoring.prometheus_port must be between 0 and 65535, got 70000"),
        ("evaluation.window=0", "evaluation.window must be greater than 0, got 0.0"),
        ("target.budget=0", "target.budget must be at least 1, got 0"),
        ("bypass.slow=0.5", "bypass.slow must be greater than 1, got 0.5"),
        ("bypass.slow=3", "bypass.bad must be at least bypass.slow (3), got 2.5"),
        ("bypass.min_in_service=1.4", "bypass.min_in_service must be between 0 and 1, got 1.4"),
        ("replicas.target_utilization=2", "replicas.target_utilization must be greater than 0 and at most 1, got 2.0"),
        ("processors.smoothing=1", "processors.smoothing must be at least 0 and less than 1, got 1.0"),
        ("admission.period=0", "admission.period must be greater than 0, got 0.0"),
        ("hot_keys.planning.max_keys=0", "hot_keys.planning.max_keys must be at least 1, got 0"),
        ("reactive.target_utilization=2", "reactive.target_utilization must be greater than 0 and at most 1, got 2.0"),
    ],
)
def test_a_bad_setting_is_refused_with_what_is_wrong_and_where_it_was_given(flag, problem):
    message = refused(flag)
    assert message.startswith(problem)
    assert message.endswith(f" (flag --set {flag.partition('=')[0]})")


def test_a_setting_given_twice_by_flags_is_refused():
    assert "is given twice by flags" in refused("guards.quota=1", "guards.quota=2")


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("[guards", "the settings file is not valid TOML: "),
        ("[gards]\nx = 1", "unknown section 'gards', did you mean 'guards'?"),
        ("quota = 1", "unknown section 'quota'"),
        ("guards = 1", "guards must be a table [guards], got 1"),
        ("[guards]\nqota = 1", "unknown setting 'guards.qota', did you mean 'quota'?"),
        ('[guards]\nquota = "3"', "guards.quota must be a whole number, got '3'"),
        ("[guards]\nquota = true", "guards.quota must be a whole number, got True"),
        ("[guards]\nquota = 3.0", "guards.quota must be a whole number, got 3.0"),
        ("[guards]\ndeadband = nan", "guards.deadband must be a finite number, got nan"),
        ("[guards]\ncooldown = true", "guards.cooldown must be a number, got True"),
        ("[guards]\ncooldown = -1", "guards.cooldown must be at least 0, got -1.0"),
        ("[guards]\ncooldown = 07:32:00", "guards.cooldown: '07:32:00' is not a duration"),
        ("[run]\naudit_ids = 1", "run.audit_ids must be true or false, got 1"),
        ('[control]\npolicies = "bypass"', "control.policies must be a list, got 'bypass'"),
        ("[monitoring]\nsmoothing = {}", "monitoring.smoothing can be set in Python only"),
        ("[hot_keys.planning]\nmax_key = 3", "unknown setting 'hot_keys.planning.max_key', did you mean 'max_keys'?"),
        ("[hot_keys]\nplanning = 3", "hot_keys.planning must be a table [hot_keys.planning], got 3"),
    ],
)
def test_a_file_is_refused_with_its_name_and_key(file, problem):
    message = refused(file=file)
    assert message.startswith(problem)
    assert message.endswith(" (foretide.toml)")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(
        SettingsError, match=r"the settings file cannot be read: No such file or directory \(.*missing.toml\)"
    ):
        load_settings(tmp_path / "missing.toml", env={})
    with pytest.raises(SettingsError, match=r"cannot be read: .* \(named.toml\)"):
        load_settings(env={"FORETIDE_CONFIG": "named.toml"})
    with pytest.raises(SettingsError, match=r"cannot be read: it is not a regular file"):
        load_settings(tmp_path, env={})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read: byte 1 is not UTF-8"):
        load_settings(tmp_path / "binary.toml", env={})
    with pytest.raises(SettingsError, match="cannot be read: it is not a regular file"):
        load_settings(Path("/dev/zero"), env={})
    assert load_settings(Path("/dev/null"), env={}) == Settings()
    (tmp_path / "deep.toml").write_text("a = " + 20_000 * "[")
    with pytest.raises(SettingsError, match="nested too deeply"):
        load_settings(tmp_path / "deep.toml", env={})


@pytest.mark.parametrize("name", ["DEBUG", "HOME", "ALONE", "FUZZ_SEED"])
def test_variables_that_are_not_settings_are_let_pass(name):
    assert load_settings(env={f"FORETIDE_{name}": "1"}) == Settings()


@pytest.mark.parametrize("value", ["1e308", "9" * 150, "1e300h", "1e11"])
def test_an_interval_that_spark_cannot_count_is_refused(value):
    with pytest.raises(SettingsError, match=r"(at most 10,000,000,000 seconds|too long).* \(flag --set run.trigger\)"):
        load_settings(overrides=[f"run.trigger={value}"], env={})


def test_an_unknown_variable_is_refused_unless_it_is_used_elsewhere():
    message = refused(GUARDS_COOLDOWN="3")
    assert message.startswith("unknown setting, did you mean 'FORETIDE_GUARDS__COOLDOWN'?")
    assert message.endswith("(environment variable FORETIDE_GUARDS_COOLDOWN)")
    assert "names are FORETIDE_SECTION__NAME" in refused(ZZZ="3")
    assert (
        load_settings(env={**dict.fromkeys(OTHER_VARIABLES - {"FORETIDE_CONFIG"}, "x"), "PATH": "/bin"}) == Settings()
    )


def test_every_variable_that_the_project_reads_elsewhere_is_let_pass():
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").iterdir(), *(ROOT / "tests").rglob("conftest.py")]
    files += [ROOT / "Makefile", *(ROOT / ".ci").iterdir()]
    texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    names = {name for text in texts for name in re.findall(r"\bFORETIDE_[A-Z_]*[A-Z]\b", text)}
    assert names - {key.variable for key in SETTINGS.values()} - {"FORETIDE_SECTION__NAME"} <= OTHER_VARIABLES
    assert {"FORETIDE_HOME", "FORETIDE_REQUIRE_POSTGRES"} <= names


@pytest.mark.parametrize(
    ("overrides", "blamed"),
    [
        (("bypass.min_in_service=5", "bypass.slow=3", "bypass.bad=4"), ["bypass.min_in_service"]),
        (("bypass.first_wait=1h", "bypass.slow=1.5"), ["bypass.first_wait"]),
        (("target.latency=1", "target.relaxed=2"), ["target.latency", "target.relaxed"]),
        (("guards.cooldown=3", "guards.deadband=5", "guards.quota=0"), ["guards.deadband", "guards.quota"]),
        (("hot_keys.hot_above=1", "hot_keys.planning.target=0"), ["hot_keys.planning.target"]),
    ],
)
def test_where_values_conflict_those_to_blame_are_named(overrides, blamed):
    assert refused(*overrides).endswith(f"({'; '.join(f'flag --set {path}' for path in blamed)})")


@pytest.mark.parametrize("page", ["control.md", "reference/settings.md"])
def test_the_examples_in_the_guides_load(page):
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    settings = load(file=example)
    assert settings.control.mode == "advise"
    assert settings.target == Target(latency=2.0)
    assert settings.guards.cooldown == 30.0


# ---- what is made of them


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_can_be_made_with_its_own_settings(name):
    changes = [f"{path}={as_text(another(each))}" for path, each in SETTINGS.items() if path.startswith(f"{name}.")]
    settings = load(f"control.policies={name}", *changes)
    (policy,) = settings.to_control().policies
    assert policy.name == name
    if name == "static":
        assert changes == []
    else:
        assert policy.settings == settings.policies[name] != Settings().policies[name]
    assert settings.to_control().start().policies.keys() == {policy.name}


def test_policies_have_one_name_everywhere_and_unknown_ones_are_refused_with_those_there_are():
    made = Settings().to_control(["hot_keys", "prediction_error", Bypass()]).policies
    assert [policy.name for policy in made] == ["hot_keys", "prediction_error", "bypass"]
    with pytest.raises(SettingsError, match=r"must be one of bypass, prediction_error, .*static, got 'oracle'"):
        Settings().to_control(["replicas", "oracle"])
    with pytest.raises(SettingsError, match=r"policies must be of bypass, .*, got 'oracle'"):
        Settings(policies={"oracle": BypassSettings()})


def test_control_has_the_policies_in_the_order_given_and_every_section_in_its_place():
    settings = load("control.policies=replicas,bypass", "replicas.target_utilization=0.5", "control.mode=advise")
    assert settings.to_control() == Control(
        (Replicas(ReplicaSettings(target_utilization=0.5)), Bypass()), mode="advise"
    )
    full = load("guards.quota=1", "evaluation.block_for=1").to_control()
    assert (full.guards.quota, full.evaluations.block_for) == (1, 1.0)
    assert Settings(votes=VoteSettings(min_forecasts=9)).to_control().votes.min_forecasts == 9
    assert [policy.name for policy in load().to_control().policies] == ["bypass", "replicas", "hot_keys"]


def test_a_section_within_a_section_keeps_the_defaults_of_the_outer_one():
    settings = load("hot_keys.planning.min_gain=0.2").policies["hot_keys"]
    assert settings == HotKeySettings(planning=JoinSettings(max_keys=64, min_gain=0.2, reactive_above=0.3))


def test_the_target_is_that_of_its_section():
    settings = load("target.latency=2s", "target.relaxed=500 ms", "target.quantile=p95", "target.budget=3")
    assert settings.target == Target(2.0, 0.5, "p95", 3)


def test_a_run_has_its_monitoring_unless_it_is_off():
    settings = load("monitoring.retention=1 day", "run.tries=5")
    assert settings.to_run() == RunSettings(tries=5, monitoring=MonitorSettings(retention=86_400.0))
    assert load("run.monitoring=false", "monitoring.retention=1 day").to_run().monitoring is None
    assert load().to_run() == RunSettings()


def test_passwords_are_not_shown():
    settings = load("monitoring.store=postgresql://me:secret@host/db", "monitoring.webhook=https://me:secret@host/")
    assert settings.monitoring.store == "postgresql://me:secret@host/db"
    assert "secret" not in str(effective_settings(settings))


# ---- the catalogue of settings


def test_settings_load_neither_spark_nor_jax():
    script = "import sys; from foretide.settings.load import load_settings; load_settings(env={}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "foretide.settings.load" in loaded
    assert {"pyspark", "jax", "sqlalchemy", "pandas", "pyarrow"} & set(loaded) == set()


def test_every_setting_but_those_for_python_only_can_be_written_and_has_a_meaning():
    every = {f"{name}.{each}" for name, defaults in SECTIONS.items() for each in field_types(defaults)}
    assert set(SETTINGS) | PYTHON_ONLY == every - set(SECTIONS)
    assert {"monitoring.smoothing", "forecasts.net", "hot_keys.scaling"} <= PYTHON_ONLY
    assert [each.path for each in SETTINGS.values() if len(each.description) < 10] == []
    assert [name for name in SECTIONS if len(describe_section(name)) < 10] == []
    assert len(SETTINGS) <= 104


def test_advanced_settings_are_marked():
    advanced = {path for path, each in SETTINGS.items() if each.scope is Scope.ADVANCED}
    assert "guards.deadband" in advanced
    assert "guards.cooldown" not in advanced


def test_whatever_is_in_seconds_takes_durations():
    numbers = [each for each in SETTINGS.values() if each.kind is float or is_duration(each.kind)]
    silent = {each.path for each in numbers if is_duration(each.kind) and "seconds" not in each.description.lower()}
    assert silent == {"run.batch", "run.trigger"}
    assert [each.path for each in numbers if each.kind is float and "seconds" in each.description.lower()] == []


def test_bounds_hold_in_python_too():
    with pytest.raises(SettingsError, match=r"control.policies must name each policy once"):
        ControlSettings(policies=("bypass", "bypass"))
    with pytest.raises(SettingsError, match=r"control.period must be at least 0, got -1"):
        ControlSettings(period=-1)
    with pytest.raises(SettingsError, match=r"run.tries must be at least 1, got 0"):
        RunSettings(tries=0)
    with pytest.raises(SettingsError, match=r"guards.excluded.start must be at least 0 and less than 86400, got -1"):
        DailyWindow(-1, 0)
    with pytest.raises(SettingsError, match=r"guards.deadband must be .*, got 1; guards.quota must be") as error:
        GuardSettings(quota=0, deadband=1)
    assert error.value.source is None


def test_real_time_has_defaults_of_its_own_and_keeps_what_was_given():
    usual, target = Settings(), Target(latency=0.1)
    live = usual.for_query(target, real_time=True)
    assert live.control.policies == ("bypass", "processors", "hot_keys")
    assert usual.for_query(Target(), real_time=True).control.policies == usual.control.policies
    assert (live.policies["processors"].period, live.policies["processors"].min_interval) == (2.0, 5.0)
    assert (live.guards.cooldown, live.guards.quota) == (2.0, usual.guards.quota)
    held = usual.for_query(target)
    assert held.control.policies == ("bypass", "processors", "hot_keys")
    assert (held.guards.cooldown, held.guards.down_window) == (usual.guards.cooldown, 60.0)
    assert usual.for_query(Target()) == usual
    given = load(
        "processors.min_interval=15 s", "processors.period=10 s", "guards.cooldown=30 s", "control.policies=replicas"
    )
    kept = given.for_query(target, real_time=True)
    assert kept.policies["processors"].period == 10.0
    assert kept.policies["processors"].min_interval == 15.0  # the usual value, but somebody wants it
    assert kept.guards.cooldown == 30.0
    assert kept.control.policies == ("replicas",)
