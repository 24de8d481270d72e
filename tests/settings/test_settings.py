"""Settings by flags, environment, file and defaults: each source, their rank, every refusal."""

import json
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from foretide.control.policies.bypass import Bypass
from foretide.control.policies.replicas import Replicas, ReplicaSettings
from foretide.control.settings import DailyWindow, GuardSettings
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.durations import in_seconds
from foretide.errors import ControlSettingError, SettingsError
from foretide.settings.control import ControlSettings, PolicyName
from foretide.settings.kinds import bare
from foretide.settings.load import in_force, load_settings
from foretide.settings.monitoring import MonitorSettings
from foretide.settings.provenance import ELSEWHERE
from foretide.settings.reference import KEYS, SECTIONS, attributes
from foretide.settings.run import RunSettings
from foretide.settings.settings import Settings

ROOT = Path(__file__).parents[2]
CHANGED = {
    "forecasts.spouts": ["lines"],
    "forecasts.horizons": [2.0, 4.0],
    "forecasts.seasons": [60.0],
    "forecasts.models": ["ewma", "ridge"],
    "run.output_mode": "update",
    "monitoring.store": "kept.db",
    "monitoring.webhook": "https://example.org/alarms",
    "monitoring.node_exporters": {"far": "far:9100"},
    "monitoring.rules": [{"name": "too-late", "metric": "latency_p99_ms", "above": 2000.0, "lasting": "10 s"}],
    "control.policies": ["static", "reactive", "processors", "prediction_error", "replicas", "admission", "bypass"],
    "guards.excluded": [{"start": "22h", "end": 21600.0}],
    "bypass.symptoms": [{"metric": "worker_slowness", "floor": 0.5}],
    "prediction_error.metric": "worker_slowness",
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """No test sees a settings file, or settings in the environment, of whoever runs it."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FORETIDE_") and name not in ELSEWHERE]:
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


def another(key):
    """A value that a setting may have and has not by default."""
    kind, default = bare(key.form.hint), key.default
    if key.path in CHANGED:
        return CHANGED[key.path]
    if kind is bool:
        return not default
    if get_origin(kind) is Literal:
        return next(each for each in get_args(kind) if each != default)
    if kind is int:
        return 5 if default is None else default + 1
    if in_seconds(kind):
        return "7 seconds" if default is None or isinstance(default, str) else default + 1
    assert kind is float, key.path
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
    lines = [
        line
        for section in SECTIONS
        for line in (
            f"[{section}]",
            *(
                f"{path.partition('.')[2]} = {as_toml(v)}"
                for path, v in values.items()
                if path.startswith(f"{section}.")
            ),
        )
    ]
    return "\n".join(lines)


# ---- each source


def test_without_any_source_all_is_default():
    settings = load()
    assert settings == Settings()
    assert {each.source for each in in_force(settings)} == {"default"}
    assert [each.key for each in in_force(settings)] == list(KEYS)


def test_every_setting_can_be_given_by_every_source_and_means_the_same():
    values = {path: another(key) for path, key in KEYS.items()}
    by_flags = load(*(f"{path}={as_text(value)}" for path, value in values.items()))
    env = {KEYS[path].variable: as_text(value) for path, value in values.items()}
    by_environment = load_settings(env=env)
    by_file = load(file=as_file(values))
    assert by_flags == by_environment == by_file
    assert set(by_flags.origins) == set(by_environment.origins) == set(by_file.origins) == set(KEYS)
    before, after = in_force(Settings()), in_force(by_file)
    assert [one.key for one, other in zip(before, after, strict=True) if one.value == other.value] == []
    assert by_file.guards.excluded == (DailyWindow(79_200.0, 21_600.0),)
    assert by_file.monitoring.rules[0].lasting == 10.0
    assert by_file.run.trigger == "7000 milliseconds"


@pytest.mark.parametrize("changed", [False, True])
def test_what_is_in_force_can_be_given_again_and_nothing_changes(changed):
    first = load(*(f"{path}={as_text(another(key))}" for path, key in KEYS.items())) if changed else load()
    shown = {each.key: each.value for each in in_force(first)}
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
    assert load("bypass.horizon=none", "run.trigger=None").bypass.horizon is None
    assert load("run.trigger=none").run.trigger is None
    assert load(file='[bypass]\nhorizon = "none"').bypass.horizon is None
    assert load("run.guarantee=none").run.guarantee == "none"
    assert "'none' is no duration" in refused("guards.cooldown=none")


def test_lists_of_names_are_given_with_commas_or_as_json():
    wanted = ("replicas", "bypass")
    assert load("control.policies=replicas, bypass").control.policies == wanted
    assert load(CONTROL__POLICIES='["replicas", "bypass"]').control.policies == wanted
    assert load("control.policies=[]").control.policies == ()


def test_an_empty_text_is_a_value_where_text_is_wanted_and_refused_elsewhere():
    assert load(MONITORING__STORE="").monitoring.store == ""
    assert refused(GUARDS__QUOTA="") == (
        "environment variable FORETIDE_GUARDS__QUOTA: '' will not do; give a whole number"
    )


# ---- rank


def test_flags_go_before_the_environment_that_before_the_file_and_that_before_the_default():
    file = "[guards]\ncooldown = 1\nband = 0.1\nquota = 11"
    settings = load("guards.cooldown=3", file=file, GUARDS__COOLDOWN="2", GUARDS__BAND="0.2")
    assert settings.guards == GuardSettings(cooldown=3.0, band=0.2, quota=11)
    assert settings.origins == {
        "guards.cooldown": "flag --set guards.cooldown",
        "guards.band": "environment variable FORETIDE_GUARDS__BAND",
        "guards.quota": "foretide.toml, guards.quota",
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
    assert "foretide.toml, guards.quota: 'x'" in refused("guards.quota=3", file='[guards]\nquota = "x"')


# ---- refusals


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("guards.cooldown", "flag --set guards.cooldown: no value is given; write it as 'guards.cooldown=30'"),
        ("guards=3", "'guards' is a section, not a setting"),
        ("gards.cooldown=3", "there is no section 'gards'; did you mean 'guards'? there are run, monitoring"),
        ("guards.cooldwn=3", "section 'guards' has no 'cooldwn'; did you mean 'cooldown'? there are least_replicas"),
        ("guards.zzz=3", "section 'guards' has no 'zzz'; there are least_replicas"),
        ("origins.x=3", "there is no section 'origins'"),
        ("static.x=3", "section 'static' has no 'x'; it has nothing to set"),
        ("monitoring.smoothing=fading", "it can be set in Python only"),
        ("guards.cooldown=soon", "flag --set guards.cooldown: 'soon' is no duration; give seconds as a number"),
        ("guards.cooldown=-1", "'-1' is no duration"),
        ("guards.quota=1.5", "'1.5' will not do; give a whole number"),
        ("guards.most_replicas=x", "'x' will not do; give a whole number, or 'none'"),
        ("votes.memory=nan", "'nan' will not do; give a number"),
        ("votes.memory=inf", "'inf' will not do; give a number"),
        ("run.audit_ids=perhaps", "'perhaps' will not do; give true or false"),
        ("control.mode=watch", "'watch' will not do; give one of: act, advise"),
        ("control.policies=bypass,magic", "'magic' will not do; give a list of: bypass, prediction_error"),
        ("control.policies=bypass,bypass", "policies names bypass more than once"),
        ("control.horizon=0", "give a period from 0 on and a horizon above 0"),
        ("monitoring.rules=x", "'x' is no JSON"),
        ("monitoring.rules={}", "{} will not do; give a list of tables with name, metric"),
        ("monitoring.rules=[3]", "entry 1 "),
        ('monitoring.rules=[{"name": "a"}]', "entry 1, 'metric' is missing; give a list of tables"),
        ('monitoring.rules=[{"name": "a", "metric": "lag", "abov": 1}]', "entry 1, 'abov' is unknown"),
        ('monitoring.rules=[{"name": "a", "metric": "lag"}]', "rule 'a'"),
        ('guards.excluded=[{"start": "soon", "end": 1}]', "entry 1, 'start' 'soon' is no duration"),
        ('guards.excluded=[{"start": "25h", "end": 1}]', "give seconds after midnight"),
        ('monitoring.node_exporters={"far": 3}', "3 will not do; give a table of texts"),
        ('bypass.symptoms=[{"metric": "zzz"}]', "symptom 'zzz': give metrics of the catalogue"),
        ("prediction_error.metric=zzz", "'zzz' is not in the catalogue"),
        ("run.tries=0", "tries=0 (give 1 or more)"),
        ("run.output_mode=some", "output_mode=some (give one of append, update, complete)"),
        ("run.batch_timeout=0", "batch_timeout=0.0 (give seconds above 0, or none)"),
        ("guards.band=2", "flag --set guards.band: guards out of bounds: band=2.0 (give 0 or more, less than 1)"),
        ("monitoring.prometheus_port=70000", "there is no port 70000"),
        ("trials.readings=0", "readings from 1"),
        ("votes.trials=0", "trials from 1"),
        ("target.budget=0", "give at least 1"),
        ("bypass.slow=0.5", "1 < slow <= bad"),
        ("replicas.busy=2", "busy in 0..1"),
        ("processors.memory=1", "memory in 0..1"),
        ("admission.least=0", "1 <= least <= most"),
        ("reactive.target=2", "a target in 0..1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_where_what_and_what_would_do(flag, said):
    message = refused(flag)
    assert message.startswith(f"flag --set {flag.partition('=')[0]}: ")
    assert said in message


def test_a_setting_given_twice_by_flags_is_refused():
    assert "is given twice by flags" in refused("guards.quota=1", "guards.quota=2")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("[guards", "foretide.toml: is no TOML:"),
        ("[gards]\nx = 1", "foretide.toml, gards: there is no section 'gards'; did you mean 'guards'?"),
        ("quota = 1", "foretide.toml, quota: there is no section 'quota'"),
        ("guards = 1", "foretide.toml, guards: 1 is no section; give a table [guards]"),
        ("[guards]\nqota = 1", "foretide.toml, guards.qota: section 'guards' has no 'qota'; did you mean 'quota'?"),
        ('[guards]\nquota = "3"', "foretide.toml, guards.quota: '3' will not do; give a whole number"),
        ("[guards]\nquota = true", "foretide.toml, guards.quota: True will not do"),
        ("[guards]\nquota = 3.0", "foretide.toml, guards.quota: 3.0 will not do"),
        ("[guards]\nband = nan", "foretide.toml, guards.band: nan will not do"),
        ("[guards]\ncooldown = true", "foretide.toml, guards.cooldown: True will not do; give seconds as a number"),
        ("[guards]\ncooldown = -1", "foretide.toml, guards.cooldown: guards out of bounds: cooldown=-1.0"),
        ("[guards]\ncooldown = 07:32:00", "foretide.toml, guards.cooldown: '07:32:00' is no duration"),
        ("[run]\naudit_ids = 1", "foretide.toml, run.audit_ids: 1 will not do; give true or false"),
        ('[control]\npolicies = "bypass"', "foretide.toml, control.policies: 'bypass' will not do; give a list of"),
        ("[monitoring]\nsmoothing = {}", "foretide.toml, monitoring.smoothing: it names functions"),
    ],
)
def test_a_file_is_refused_with_its_name_and_key(file, said):
    assert refused(file=file).startswith(said)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"missing.toml: cannot be read \(No such file or directory\)"):
        load_settings(tmp_path / "missing.toml", env={})
    with pytest.raises(SettingsError, match=r"named.toml: cannot be read"):
        load_settings(env={"FORETIDE_CONFIG": "named.toml"})
    with pytest.raises(SettingsError, match=r"cannot be read \(Is a directory\)"):
        load_settings(tmp_path, env={})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is no TOML"):
        load_settings(tmp_path / "binary.toml", env={})


def test_an_unknown_variable_is_refused_unless_it_is_used_elsewhere():
    message = refused(GUARDS_COOLDOWN="3")
    assert message.startswith("environment variable FORETIDE_GUARDS_COOLDOWN: there is no such setting")
    assert "did you mean 'FORETIDE_GUARDS__COOLDOWN'?" in message
    assert "names are FORETIDE_SECTION__NAME" in refused(ZZZ="3")
    assert load_settings(env={**dict.fromkeys(ELSEWHERE - {"FORETIDE_CONFIG"}, "x"), "PATH": "/bin"}) == Settings()


def test_every_variable_that_the_project_reads_elsewhere_is_let_pass():
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").iterdir(), *(ROOT / "tests").rglob("conftest.py")]
    files += [ROOT / "Makefile", *(ROOT / ".ci").iterdir()]
    texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    names = {name for text in texts for name in re.findall(r"\bFORETIDE_[A-Z_]*[A-Z]\b", text)}
    assert names - {key.variable for key in KEYS.values()} - {"FORETIDE_SECTION__NAME"} <= ELSEWHERE
    assert {"FORETIDE_HOME", "FORETIDE_REQUIRE_POSTGRES"} <= names


@pytest.mark.parametrize(
    ("overrides", "blamed"),
    [
        (("bypass.keep=5", "bypass.slow=3", "bypass.bad=4"), "flag --set bypass.keep: "),
        (("target.latency=1", "target.relaxed=2"), "flag --set target.latency; flag --set target.relaxed: "),
        (("guards.band=5", "guards.quota=0"), "flag --set guards.band; flag --set guards.quota: guards out of bounds"),
    ],
)
def test_where_values_do_not_go_together_those_to_blame_are_named(overrides, blamed):
    assert refused(*overrides).startswith(blamed)


@pytest.mark.parametrize("page", ["control.md", "reference/settings.md"])
def test_the_examples_in_the_guides_load(page):
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    settings = load(file=example)
    assert settings.control.mode == "advise"
    assert settings.to_target() == Target(latency=2.0)
    assert settings.guards.cooldown == 30.0


# ---- what is made of them


@pytest.mark.parametrize("name", get_args(PolicyName))
def test_every_policy_can_be_made_with_its_own_settings(name):
    changes = [f"{path}={as_text(another(key))}" for path, key in KEYS.items() if key.section == name]
    settings = load(f"control.policies={name}", *changes)
    (policy,) = settings.to_control().policies
    assert policy.name.replace("-", "_") == name
    if name == "static":
        assert changes == []
    else:
        assert policy.settings == getattr(settings, name) != getattr(Settings(), name)
    assert settings.to_control().start().policies.keys() == {policy.name}


def test_policies_are_named_as_settings_or_as_decisions_name_them_and_others_are_refused_with_what_there_is():
    made = Settings().to_control(["hot-keys", "prediction_error", Bypass()]).policies
    assert [policy.name for policy in made] == ["hot-keys", "prediction-error", "bypass"]
    with pytest.raises(ControlSettingError, match=r"no policy 'oracle'; there are bypass, prediction_error, .*static"):
        Settings().to_control(["replicas", "oracle"])


def test_control_has_the_policies_in_the_order_given_and_every_section_in_its_place():
    settings = load("control.policies=replicas,bypass", "replicas.busy=0.5", "control.mode=advise", "votes.trials=9")
    assert settings.to_control() == Control(
        (Replicas(ReplicaSettings(busy=0.5)), Bypass()), votes=settings.votes, mode="advise"
    )
    assert settings.votes.trials == 9
    full = load("guards.quota=1", "trials.block=1", "control.horizon=5").to_control()
    assert (full.guards.quota, full.evaluations.block, full.horizon) == (1, 1.0, 5.0)
    assert [policy.name for policy in load().to_control().policies] == ["bypass", "replicas", "hot-keys"]


def test_the_target_is_that_of_its_section():
    settings = load("target.latency=2s", "target.relaxed=500 ms", "target.quantile=p95", "target.budget=3")
    assert settings.to_target() == Target(2.0, 0.5, "p95", 3)


def test_a_run_has_its_monitoring_unless_it_is_off():
    settings = load("monitoring.retention=1 day", "run.tries=5")
    assert settings.to_run() == RunSettings(tries=5, monitoring=MonitorSettings(retention=86_400.0))
    assert load("run.monitoring=false", "monitoring.retention=1 day").to_run().monitoring is None
    assert load().to_run() == RunSettings()


def test_passwords_are_not_shown():
    settings = load("monitoring.store=postgresql://me:secret@host/db", "monitoring.webhook=https://me:secret@host/")
    assert settings.monitoring.store == "postgresql://me:secret@host/db"
    assert "secret" not in str(in_force(settings))


# ---- the catalogue of settings


def test_every_setting_but_those_for_python_only_can_be_written_and_has_a_meaning():
    written = set(KEYS) | {"monitoring.smoothing", "forecasts.net"}
    assert written == {f"{name}.{each.name}" for name, kind in SECTIONS.items() for each in fields(kind)}
    assert [key.path for key in KEYS.values() if len(key.meaning) < 10] == []
    assert set(SECTIONS) | {"origins"} == set(attributes(Settings))


def test_whatever_is_said_to_be_seconds_takes_durations():
    numbers = [key for key in KEYS.values() if bare(key.form.hint) is float or in_seconds(bare(key.form.hint))]
    silent = {key.path for key in numbers if in_seconds(bare(key.form.hint)) and "seconds" not in key.meaning.lower()}
    assert silent == {"guards.cooldown_down"}
    assert [key.path for key in numbers if bare(key.form.hint) is float and "seconds" in key.meaning.lower()] == []


def test_the_loop_refuses_what_makes_no_sense_in_python_too():
    with pytest.raises(ControlSettingError, match="more than once"):
        ControlSettings(policies=("bypass", "bypass"))
    with pytest.raises(ControlSettingError, match="a period from 0 on"):
        ControlSettings(period=-1)
    with pytest.raises(SettingsError, match="run settings: out of bounds: tries=0"):
        RunSettings(tries=0)
