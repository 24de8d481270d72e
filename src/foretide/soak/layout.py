"""Where a campaign keeps what in its folder, and how far its pipeline got, read from the checkpoint's files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from foretide.codec import from_json, to_json
from foretide.soak.forms import Form

NAME = "soak"
"""What the pipeline is called."""

_LOG_OFFSET = re.compile(r'"logOffset":\s*(\d+)')


@dataclass(frozen=True, slots=True)
class Setup:
    """What the processes of a campaign have to agree on: master of Spark, rows of a file, seed of rows, and form."""

    master: str
    rows: int
    seed: int
    form: Form = "split"

    def write(self, layout: Layout) -> None:
        """Keep it in the folder."""
        layout.setup.write_text(to_json(self))

    @staticmethod
    def read(layout: Layout) -> Setup:
        """Read it back."""
        return from_json(Setup, layout.setup.read_text())


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of a campaign."""

    folder: Path

    @property
    def setup(self) -> Path:
        """What its processes agree on."""
        return self.folder / "setup.json"

    @property
    def input(self) -> Path:
        """Files of rows."""
        return self.folder / "input"

    @property
    def output(self) -> Path:
        """What the pipeline has committed."""
        return self.folder / "output"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the query."""
        return self.folder / "checkpoint"

    @property
    def control_folder(self) -> Path:
        """The control folder of the pipeline."""
        return self.checkpoint / "foretide"

    @property
    def store(self) -> Path:
        """Its metrics and decisions."""
        return self.folder / "metrics.db"

    @property
    def notes(self) -> Path:
        """What the application notes, a line of JSON each."""
        return self.folder / "notes.jsonl"

    @property
    def log(self) -> Path:
        """What the application prints."""
        return self.folder / "application.log"

    @property
    def driver(self) -> Path:
        """The process of the driver that was started last."""
        return self.folder / "driver.pid"

    @property
    def end_of_input(self) -> Path:
        """How many files there are; written once no more will come."""
        return self.folder / "end-of-input"

    @property
    def aborted(self) -> Path:
        """Is there once the campaign has been given up."""
        return self.folder / "aborted"

    @property
    def comparison(self) -> Path:
        """How the output compares with that of plain Spark."""
        return self.folder / "comparison.json"

    def begun_batch(self) -> int:
        """The last batch that has begun; -1 before the first."""
        return _last(self.checkpoint / "offsets")

    def committed_batch(self) -> int:
        """The last batch that was committed; -1 before the first."""
        return _last(self.checkpoint / "commits")

    def files_taken(self) -> int:
        """Files in batches that were committed."""
        batch = self.committed_batch()
        try:
            found = _LOG_OFFSET.findall((self.checkpoint / "offsets" / str(batch)).read_text())
        except OSError:
            return 0
        return int(found[-1]) + 1 if found else 0


def _last(folder: Path) -> int:
    """The highest number of a file in a folder; -1 if there is none."""
    try:
        return max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=-1)
    except OSError:
        return -1
