"""Logos are found where they were drawn, turned and scaled; without OpenCV an error says how to install it."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from foretide.apps import logo_detection, logo_pictures
from foretide.apps.app import Load, find_app
from foretide.errors import EnvironmentNotReadyError
from foretide.workloads.scenes import NO_LOGO, Scenes


def test_without_opencv_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(EnvironmentNotReadyError, match=r"pip install 'foretide\[vision\]'"):
        find_app("logo-detection").check()


def test_nearly_all_logos_are_found_and_hardly_any_is_seen_where_there_is_none():
    pytest.importorskip("cv2")
    scenes = Scenes(seed=5, logos=logo_pictures.LOGOS).rows(0, 60).to_pandas().assign(row=range(60))
    found = logo_detection.truth(scenes, Load())
    drawn = {(row, logo) for row, logo in enumerate(scenes["logo"]) if logo != NO_LOGO}
    seen = set(zip(found["row"], found["logo"], strict=True))
    assert len(drawn & seen) >= 0.95 * len(drawn)
    assert len(seen - drawn) <= 0.05 * len(drawn)


def test_the_operators_find_what_the_plain_comparison_finds():
    pytest.importorskip("cv2")
    scenes = Scenes(seed=6, logos=logo_pictures.LOGOS).rows(0, 12)
    batch = scenes.append_column("row", pd_numbers(12)).append_column("due", pd_numbers(12))
    steps = logo_detection.decide(logo_detection.match(logo_detection.extract(iter([batch]))))
    decided = pd.concat([each.to_pandas() for each in steps])
    expected = logo_detection.truth(batch.to_pandas(), Load())
    assert sorted(map(tuple, decided.to_numpy())) == sorted(map(tuple, expected.to_numpy()))
    assert len(expected) > 5


def test_a_frame_without_features_has_no_logo():
    pytest.importorskip("cv2")
    nothing = logo_pictures.features(np.zeros((240, 320), np.uint8))
    assert nothing.shape == (0, 128)
    assert logo_pictures.matches(nothing).shape == (0, logo_pictures.LOGOS)


def pd_numbers(count):
    import pyarrow as pa

    return pa.array(range(count), pa.int64())
