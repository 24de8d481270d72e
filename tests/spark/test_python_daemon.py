"""A worker that Spark hangs up on ends without a traceback. The daemon runs here without Spark."""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import wait_for


def stderr_of(module, folder):
    """What the daemon prints when the socket of an idle worker is closed."""
    spark = {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
             "SPARK_REUSE_WORKER": "1", "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}  # fmt: skip
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    daemon = subprocess.Popen([sys.executable, "-m", module, "pyspark.worker"], env={**os.environ, **spark}, **pipes)
    (length,) = struct.unpack("!i", daemon.stdout.read(4))
    with socket.socket(socket.AF_UNIX) as spark_side:
        spark_side.connect(daemon.stdout.read(length).decode())
        (worker,) = struct.unpack("!i", spark_side.recv(4))
    wait_for(lambda: not Path(f"/proc/{worker}").exists())
    return daemon.communicate()[1].decode()


@pytest.mark.parametrize(("module", "noisy"), [("pyspark.daemon", True), ("foretide.spark.python_daemon", False)])
def test_a_worker_whose_socket_is_closed_ends_and_only_sparks_own_daemon_prints_it(module, noisy, tmp_path):
    assert ("BrokenPipeError" in stderr_of(module, tmp_path)) is noisy


def test_local_sessions_use_it(spark):
    assert spark.sparkContext.getConf().get("spark.python.daemon.module") == "foretide.spark.python_daemon"
    assert spark.sparkContext.parallelize([1, 2], 2).map(lambda n: n + 1).collect() == [2, 3]
