"""What a replay needs besides samples: what the query was made of, what was to be held, and what was in force."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from foretide.control.codec import decode, encode
from foretide.control.observed import Observed
from foretide.control.setup import Setup, Target
from foretide.errors import ActionError, ControlSettingError, DecisionFormatError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """How a query was set up, from a moment on until the next such record.

    Attributes:
        at: Seconds since 1970.
        setup: What the query is made of.
        target: What is to be held.
        observed: What is in force. Its routes count for batches that read its route version.
        policies: The names of those that control it, in order of rank.
    """

    at: float
    setup: Setup
    target: Target = field(default_factory=Target)
    observed: Observed = field(default_factory=Observed)
    policies: tuple[str, ...] = ()

    def to_json(self) -> str:
        """As text that `from_json` reads back."""
        return json.dumps({"format": FORMAT, **encode(self)}, separators=(",", ":"), allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Recorded:
        """Read a record back.

        Raises:
            DecisionFormatError: It is damaged, or was written by a later release.
        """
        try:
            data = json.loads(text)
            written = data.pop("format")
            if written != FORMAT:
                raise DecisionFormatError(f"a setup of format {written}; this release reads {FORMAT}")
            return decode(Recorded, data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DecisionFormatError(f"a setup that cannot be read ({error})") from error
        except (ControlSettingError, ActionError) as error:
            raise DecisionFormatError(f"a setup that makes no sense ({error})") from error
