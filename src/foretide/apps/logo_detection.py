"""Logos in the frames of a video (drs, Fig 4).

frames -> features (dynamic): SIFT -> matches (shuffle): against 16 logos -> logos (fields by frame)

The frames are drawn from their descriptions, as a decoder would unpack them. A frame has tens of features; each is a
tuple, compared with the features of all logos. A logo with enough matching features is in the frame. A micro-batch has
all features of its frames, so the last operator needs no state; in real-time mode it is an aggregation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F

from foretide.apps import logo_pictures
from foretide.apps.app import App, Load, RealTime
from foretide.apps.logo_pictures import LOGOS, MIN_MATCHES
from foretide.topology.graph import Arrow, Bolt, From, Spout, Topology
from foretide.topology.groupings import Dynamic, Fields, Shuffle
from foretide.topology.sources import Replay, Source
from foretide.workloads.curve import Curve
from foretide.workloads.scenes import Scenes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MIN_RATE, MAX_RATE, MEAN_RATE = 1.0, 25.0, 13.0
"""Frames a second in the paper: between the first two, the third on average."""

_STAMPS = ["row", "due"]
_SCENE = ["background", "logo", "x", "y", "degrees", "size"]


def extract(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The SIFT features of each frame, numbered."""
    for batch in batches:
        for place, scene in enumerate(batch.select(_SCENE).to_pylist()):
            picture = logo_pictures.frame(*scene.values())
            found = [each.tobytes() for each in logo_pictures.features(picture)]
            stamps = batch.select(_STAMPS).take(pa.array([place] * len(found), pa.int64()))
            numbers = pa.array(range(len(found)), pa.int64())
            yield pa.record_batch(
                [*stamps.columns, numbers, pa.array(found, pa.binary())], [*_STAMPS, "feature", "descriptor"]
            )


def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The logos with a feature that is near to a feature of the frame."""
    for batch in batches:
        packed = b"".join(batch["descriptor"].to_pylist())
        near = logo_pictures.matches(np.frombuffer(packed, np.uint8).reshape(-1, 128))
        feature, logo = near.nonzero()
        stamps = batch.select([*_STAMPS, "feature"]).take(pa.array(feature, pa.int64()))
        yield stamps.append_column("logo", pa.array(logo, pa.int64()))


def decide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The logos of each frame, and how many features match."""
    table = pa.Table.from_batches(list(batches))
    counted = table.group_by(["row", "logo"]).aggregate([("feature", "count")])
    named = counted.rename_columns(["row", "logo", "matches"])
    yield from named.filter(pa.compute.greater_equal(named["matches"], MIN_MATCHES)).to_batches()


def build(load: Load) -> Topology:
    """The topology under frame rates between a thirteenth of the mean and nearly twice the mean, as in the paper."""
    low, high = (load.rate * each / MEAN_RATE for each in (MIN_RATE, MAX_RATE))
    curve = Curve.fluctuating(load.seed, low, high, load.seconds / 20, load.seconds)
    frames = Replay(Scenes(load.seed, LOGOS), load.shaped(curve), paced=load.paced)
    decided = Bolt(
        "logos",
        Arrow(decide, "row bigint, logo bigint, matches bigint"),
        [From("matches", Fields("row"))],
        pool=1,
        on_error="fail",  # else its input would be cut into parts, and so would frames
    )
    return Topology(
        "logo-detection",
        spouts=[Spout("frames", frames)],
        bolts=[*_detection("timestamp"), decided],
    )


def _detection(time: str) -> list[Bolt]:
    """The operators that both modes share; `due` is a `time`."""
    extracted = f"row bigint, due {time}, feature bigint, descriptor binary"
    matched = f"row bigint, due {time}, feature bigint, logo bigint"
    return [
        Bolt("features", Arrow(extract, extracted), [From("frames", Dynamic(by=("row",)))], pool=3),
        Bolt("matches", Arrow(match, matched), [From("features", Shuffle(by=("row", "feature")))], pool=3),
    ]


def truth(frames: pd.DataFrame, _: Load) -> pd.DataFrame:
    """The logos of each frame, worked out frame by frame, each feature compared with each."""
    found = []
    for scene in frames.to_dict("records"):
        seen = logo_pictures.features(logo_pictures.frame(*(scene[name] for name in _SCENE))).astype(float)
        for logo, known in enumerate(logo_pictures.logo_features()):
            far = np.array([np.sqrt(((known - each) ** 2).sum(axis=1)).min() for each in seen])
            matches = int((far <= logo_pictures.MAX_DISTANCE).sum())
            found.append((scene["row"], logo, matches))
    all_of_them = pd.DataFrame(found, columns=["row", "logo", "matches"])
    return all_of_them[all_of_them["matches"] >= MIN_MATCHES]


def count_at_once(matches: DataFrame) -> DataFrame:
    """How many features of a frame match a logo so far, once they are enough."""
    counts = matches.groupBy("row", "logo").agg(F.count("*").alias("matches"), F.last("due").alias("due"))
    return counts.where(F.col("matches") >= MIN_MATCHES)


def build_real_time(source: Source) -> Topology:
    """The topology for real-time mode."""
    count = Bolt("logos", count_at_once, [From("matches", Fields("row"))])
    return Topology("logo-detection", spouts=[Spout("frames", source)], bolts=[*_detection("bigint"), count])


def last_logos(frames: pd.DataFrame) -> pd.DataFrame:
    """The last count of each logo in each frame."""
    return truth(frames, Load())


APP = App(
    "logo-detection",
    build,
    edge="features",
    ratio="3:2:1",
    result="logos",
    truth=truth,
    real_time=RealTime(build_real_time, "logos", ("row", "logo"), "matches", last_logos),
    check=logo_pictures.check_opencv,
)
