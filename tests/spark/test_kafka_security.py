"""A real broker with SASL: both modes, the driver's own client, and a password that nobody sees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from foretide.spark.kafka_broker import Broker, free_port
from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("kafka_security_story.py")
PASSWORD = "hunter2-of-nobody"


@pytest.fixture
def guarded(broker, tmp_path):
    """A broker that answers nobody without a password; `broker` skips the test where there can be none."""
    port, controller = free_port(), free_port()
    users = f'user_me="{PASSWORD}" user_admin="{PASSWORD}-admin"'
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" {users} '
    properties = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{login}password="{PASSWORD}-admin";',
    }
    with Broker(tmp_path / "kafka", port, properties) as running:
        yield running


def test_both_modes_work_with_a_password_that_is_in_no_log_file_or_repr(guarded, tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, str(STORY), str(folder), guarded.address]
    hidden = {**environment(), "STORY_PASSWORD": PASSWORD}
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, check=False)
    assert PASSWORD not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr[-3000:]
    story = json.loads(done.stdout.splitlines()[-1])
    for mode in ("micro-batch", "real-time"):
        told = story[mode]
        assert (told["complete"], told["restarts"], told["alarms"]) == (True, 0, []), mode
        assert "KafkaSource(" in told["shown"]
    assert "does not answer" in story["refused"]
    assert any(topic.startswith("foretide-control-") for topic in story["topics"])  # executors were reached by it
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
