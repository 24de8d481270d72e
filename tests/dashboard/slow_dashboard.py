"""A dashboard whose reading takes as long as a file exists: `slow_dashboard.py FILE` prints its address."""

import sys
import time
from pathlib import Path

from foretide.dashboard.server import address_of, listen, serve
from foretide.status.sources import Sources


def slowly(function, gate):
    def waiting(*arguments):
        while gate.exists():
            time.sleep(0.02)
        return function(*arguments)

    return waiting


def main():
    gate = Path(sys.argv[1])
    Sources.find, Sources.entries = slowly(Sources.find, gate), slowly(Sources.entries, gate)
    listening = listen("127.0.0.1", 0)
    serve(listening, "127.0.0.1", on_start=lambda: print(address_of(listening), flush=True))


if __name__ == "__main__":
    main()
