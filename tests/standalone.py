"""A standalone cluster of Spark for tests: a master and workers, each a real process with a host of its own.

All addresses of 127.0.0.0/8 are this machine, so workers on 127.0.0.1 and 127.0.0.2 are two hosts to Spark.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path

import pyspark

from foretide.spark.kafka_broker import end_process, free_port

HOSTS = ("127.0.0.1", "127.0.0.2")
_READY_SECONDS = 120.0


class StandaloneCluster:
    """A master on 127.0.0.1 and one worker a host. Logs and work folders are in `folder`.

    `cores` and `memory` are those that each worker offers; `environment` is that of all processes, executors included.
    """

    def __init__(self, folder, hosts=HOSTS, cores=2, memory="1g", environment=None):
        self.folder, self.hosts, self.cores, self.memory = Path(folder), hosts, cores, memory
        self.port, self._ui_port = free_port(), free_port()
        home = Path(pyspark.__file__).parent
        self._class = str(home / "bin" / "spark-class")
        given = os.environ if environment is None else environment
        self._environment = {**given, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
        self.processes = {}

    @property
    def url(self):
        """What a session takes as its master."""
        return f"spark://{self.hosts[0]}:{self.port}"

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master", self.hosts[0], "org.apache.spark.deploy.master.Master", "--port", self.port,
                        "--webui-port", self._ui_port)  # fmt: skip
            self._wait_for_workers(0)  # a worker that finds no master tries again after many seconds only
            for host in self.hosts:
                self.add_worker(host)
            self._wait_for_workers(len(self.hosts))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def add_worker(self, host):
        """Start a worker; the master hears of it some seconds later."""
        self._start(f"worker-{host}", host, "org.apache.spark.deploy.worker.Worker", "--cores", self.cores,
                    "--memory", self.memory, "--work-dir", self.folder / f"work-{host}", "--webui-port", 0,
                    self.url)  # fmt: skip

    def stop(self):
        """End all processes, workers first; a worker ends its executors."""
        for process in reversed(self.processes.values()):
            end_process(process.pid, process.poll)
        self.processes.clear()

    def _start(self, name, host, main, *arguments):
        environment = {**self._environment, "SPARK_LOCAL_IP": host}
        command = [self._class, main, "--host", host, *map(str, arguments)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_for_workers(self, count):
        end = time.monotonic() + _READY_SECONDS
        while self._alive_workers() < count:
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                raise RuntimeError(f"the cluster did not start, {ended} ended; see the logs in {self.folder}")
            time.sleep(0.1)

    def _alive_workers(self):
        with contextlib.suppress(OSError, ValueError):
            address = f"http://{self.hosts[0]}:{self._ui_port}/json/"
            with urllib.request.urlopen(address, timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        return -1
