import pytest

from foretide.errors import EnvironmentNotReadyError
from foretide.spark import session
from foretide.spark.java import check_java, java_major


@pytest.mark.parametrize(
    ("said", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019', 11),
        ("command not understood", 0),
        ("", 0),
    ],
)
def test_the_major_version_is_read_from_what_java_says(said, major):
    assert java_major(said) == major


@pytest.fixture
def bin_folder(tmp_path, monkeypatch):
    """An otherwise empty PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def put_java(folder, said):
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)


def test_a_new_enough_java_is_accepted(bin_folder):
    put_java(bin_folder, 'openjdk version "17.0.15" 2025-04-15')
    check_java()


def test_a_missing_java_is_one_sentence_with_what_to_install(bin_folder):
    with pytest.raises(EnvironmentNotReadyError) as raised:
        check_java()
    assert "'java' was not found" in str(raised.value)
    assert "apt install openjdk-17-jre-headless" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("said", "version"), [('openjdk version "11.0.2"', "11"), ('java version "1.8.0_1"', "8"), ("what", "unknown")]
)
def test_an_old_java_is_one_sentence_with_its_version_and_what_to_install(bin_folder, said, version):
    put_java(bin_folder, said)
    with pytest.raises(EnvironmentNotReadyError) as raised:
        check_java()
    assert f"'java' is version {version}" in str(raised.value)
    assert "apt install openjdk-17-jre-headless" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_java_home_goes_before_the_path(bin_folder, tmp_path, monkeypatch):
    put_java(bin_folder, 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(EnvironmentNotReadyError, match=r"jdk/bin/java' was not found"):
        check_java()
    put_java(tmp_path / "jdk" / "bin", 'java version "1.8.0_1"')
    with pytest.raises(EnvironmentNotReadyError, match=r"jdk/bin/java' is version 8"):
        check_java()
    put_java(tmp_path / "jdk" / "bin", 'openjdk version "21"')
    check_java()


@pytest.mark.parametrize(
    ("settings", "jars"),
    [
        ({}, {"spark.jars": "/cache/connector.jar"}),
        ({"spark.jars": "/my.jar"}, {"spark.jars": "/my.jar,/cache/connector.jar"}),
        ({"spark.jars": "/x/spark-sql-kafka-0-10_2.13-4.2.0.jar"}, {}),
        ({"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"}, {}),
    ],
)
def test_a_real_time_session_starts_with_the_connector_unless_it_was_given(monkeypatch, settings, jars):
    """A connector that is added later is unknown to the threads that read what tasks report at a batch's end."""
    monkeypatch.setattr(session, "jars_of", lambda _: ["/cache/connector.jar"])
    assert session._with_connector(settings) == jars
