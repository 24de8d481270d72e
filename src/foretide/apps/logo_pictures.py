"""Pictures for the detection of logos, and what OpenCV finds in them. Nothing here needs Spark.

OpenCV is the extra `vision`, and is imported when it is first needed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from foretide.errors import EnvironmentNotReadyError
from foretide.workloads.randomness import choose, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOGOS = 16
WIDTH, HEIGHT, LOGO_SIZE = 320, 240, 128
MAX_DISTANCE = 150.0
"""Descriptors at most this far apart (L2) match."""

MIN_MATCHES = 12
"""A logo with at least this many matching features is in the frame."""

_SHAPES, _SHADES = 24, 256
_GRAIN = 40


def check_opencv() -> Any:
    """OpenCV, or an error that says how to install it."""
    try:
        import cv2  # noqa: PLC0415 - optional
    except ImportError as error:
        raise EnvironmentNotReadyError("logo-detection needs OpenCV: pip install 'foretide[vision]'") from error
    cv2.setNumThreads(1)  # a task has one core
    return cv2


@lru_cache(maxsize=LOGOS)
def logo(number: int) -> NDArray[np.uint8]:
    """A logo: triangles and discs in shades of grey, others for each number."""
    cv2 = check_opencv()
    picture = np.full((LOGO_SIZE, LOGO_SIZE), 128, np.uint8)
    drawn = uniform(number, "logo", 0, 8 * _SHAPES).reshape(_SHAPES, 8)
    for place, numbers in enumerate(drawn):
        points = choose(LOGO_SIZE, numbers[:6]).reshape(3, 2).astype(np.int32)
        shade = int(choose(_SHADES, numbers[6]))
        if place % 3:
            cv2.fillPoly(picture, [points], shade)
        else:
            cv2.circle(picture, [int(each) for each in points[0]], 4 + int(10 * numbers[7]), shade, -1)
    return picture


def frame(background: int, number: int, x: float, y: float, degrees: float, size: float) -> NDArray[np.uint8]:
    """A frame: a background of smooth spots and, unless its number is below 0, a logo that is turned and scaled."""
    cv2 = check_opencv()
    grain = uniform(background, "background", 0, WIDTH * HEIGHT // _GRAIN**2)
    spots = (64 + 128 * grain).astype(np.uint8).reshape(HEIGHT // _GRAIN, WIDTH // _GRAIN)
    picture: NDArray[np.uint8] = cv2.resize(spots, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    if number < 0:
        return picture
    radius = size * LOGO_SIZE * 2**-0.5
    turn = cv2.getRotationMatrix2D((LOGO_SIZE / 2, LOGO_SIZE / 2), degrees, size)
    turn[:, 2] += np.array([radius + x * (WIDTH - 2 * radius), radius + y * (HEIGHT - 2 * radius)]) - LOGO_SIZE / 2
    drawn = cv2.warpAffine(logo(number), turn, (WIDTH, HEIGHT))
    covered = cv2.warpAffine(np.full((LOGO_SIZE, LOGO_SIZE), 255, np.uint8), turn, (WIDTH, HEIGHT))
    picture[covered > 0] = drawn[covered > 0]
    return picture


def features(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The descriptors of the SIFT features of a picture, 128 bytes each."""
    _, found = check_opencv().SIFT_create().detectAndCompute(picture, None)
    return np.empty((0, 128), np.uint8) if found is None else found.astype(np.uint8)


@lru_cache(maxsize=1)
def logo_features() -> list[NDArray[np.int32]]:
    """The descriptors of each logo."""
    return [features(logo(number)).astype(np.int32) for number in range(LOGOS)]


def matches(descriptors: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """For each descriptor and each logo, whether a feature of the logo is near."""
    wide = descriptors.astype(np.int32)
    squares = (wide**2).sum(axis=1)[:, None]
    near = [
        (squares + (known**2).sum(axis=1) - 2 * wide @ known.T).min(axis=1, initial=2**30) <= MAX_DISTANCE**2
        for known in logo_features()
    ]
    return np.array(near).T
