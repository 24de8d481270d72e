"""Makes another process slow: it runs a small part of the time only."""

import contextlib
import subprocess
import sys

DUTY = """
import os, signal, sys, time
pid, parent, stopped, running = int(sys.argv[1]), os.getppid(), float(sys.argv[2]), float(sys.argv[3])
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
try:
    while os.getppid() == parent:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(stopped)
        os.kill(pid, signal.SIGCONT)
        time.sleep(running)
except ProcessLookupError:
    sys.exit()
finally:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
"""
"""It ends with its parent, and with the process that it slows."""


@contextlib.contextmanager
def slowed(pid, stopped=0.09, running=0.01):
    """Let a process run so many seconds after so many in which it is stopped."""
    duty = subprocess.Popen([sys.executable, "-c", DUTY, str(pid), str(stopped), str(running)])
    try:
        yield
    finally:
        duty.terminate()
        duty.wait()
