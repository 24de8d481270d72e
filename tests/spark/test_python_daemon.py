"""A worker that Spark has let go ends without a traceback."""

import pytest

from foretide.spark import python_daemon


def test_a_closed_socket_ends_the_worker_and_anything_else_is_raised(monkeypatch):
    def fail(error):
        def work(sock, authenticated):
            raise error

        return work

    monkeypatch.setattr(python_daemon, "_worker", fail(BrokenPipeError()))
    assert python_daemon.worker(None, True) == 1
    monkeypatch.setattr(python_daemon, "_worker", fail(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        python_daemon.worker(None, True)
    monkeypatch.setattr(python_daemon, "_worker", lambda sock, authenticated: 0)
    assert python_daemon.worker(None, True) == 0


def test_local_sessions_use_it(spark):
    assert spark.sparkContext.getConf().get("spark.python.daemon.module") == "foretide.spark.python_daemon"
    assert spark.sparkContext.parallelize([1, 2], 2).map(lambda n: n + 1).collect() == [2, 3]
