"""Frames of a video as descriptions: which logo is where, how large and how far turned, before which background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from foretide.workloads.generator import check_number, check_range, check_seed, check_share, check_vocabulary
from foretide.workloads.randomness import choose, uniform

NO_LOGO = -1
_BACKGROUNDS = 2**31


@dataclass(frozen=True)
class Scenes:
    """Scenes; all logos are equally frequent, and each is wholly in the frame.

    >>> Scenes(seed=1).rows(0, 1).to_pylist()
    [{'background': 1609160214, 'logo': -1, 'x': 0.526, 'y': 0.849, 'degrees': 17.1, 'size': 0.877}]

    Attributes:
        seed: What the scenes follow from.
        logos: Number of logos.
        shown: The share of frames with a logo; all others have `logo` -1.
        smallest: The least size of a logo, as a share of its own size.
        largest: The greatest size.
    """

    seed: int
    logos: int = 16
    shown: float = 0.7
    smallest: float = 0.7
    largest: float = 1.2

    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("background", pa.int64()),
            ("logo", pa.int64()),
            ("x", pa.float64()),
            ("y", pa.float64()),
            ("degrees", pa.float64()),
            ("size", pa.float64()),
        ]
    )

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_vocabulary("logos", self.logos)
        check_share("shown", self.shown)
        check_number("smallest", self.smallest, 0.1, 10)
        check_number("largest", self.largest, 0.1, 10)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Scenes [first, last). Places are shares of the room that there is."""
        check_range(first, last)
        drawn = {name: uniform(self.seed, f"scenes.{name}", first, last) for name in self.schema.names}
        shown = uniform(self.seed, "scenes.shown", first, last) < self.shown
        columns = [
            choose(_BACKGROUNDS, drawn["background"]),
            np.where(shown, choose(self.logos, drawn["logo"]), NO_LOGO),
            np.round(drawn["x"], 3),
            np.round(drawn["y"], 3),
            np.round(360 * drawn["degrees"], 1),
            np.round(self.smallest + (self.largest - self.smallest) * drawn["size"], 3),
        ]
        return pa.record_batch([pa.array(column) for column in columns], schema=self.schema)
