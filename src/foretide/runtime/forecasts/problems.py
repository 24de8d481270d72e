"""What goes wrong while forecasting: kept as sentences, and never raised into the pipeline."""

from __future__ import annotations

from collections.abc import Callable

from foretide.errors import ForecastError


class Problems:
    """The last problem of each part; a part that works again has none."""

    def __init__(self) -> None:
        self._by_part: dict[str, str] = {}

    @property
    def sentences(self) -> list[str]:
        """All present problems."""
        return list(self._by_part.copy().values())

    def note(self, part: str, sentence: str | None) -> None:
        """Set the problem of a part; None removes it."""
        if sentence is None:
            self._by_part.pop(part, None)
        else:
            self._by_part[part] = sentence

    def guard(self, part: str, call: Callable[[], object]) -> bool:
        """Call; an exception becomes the problem of the part. Returns whether the call succeeded."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the pipeline runs on whatever fails here
            kind = "" if isinstance(error, ForecastError) else f"{type(error).__name__}: "
            self.note(part, f"{part}: {kind}{error}")
            return False
        self.note(part, None)
        return True
