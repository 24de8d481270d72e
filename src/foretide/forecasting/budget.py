"""How long a net may train: the same for every net of a comparison."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrainingBudget:
    """Gradient steps, their size, and when to stop.

    Attributes:
        seeds: How many nets train side by side; the one with the lowest validation error is kept.
        epochs: At most so many rounds; after each, the nets meet the validation share.
        steps: Gradient steps a round.
        patience: Training ends after so many rounds without a better net.
        rate: The first and largest step size of Adam; it falls to a tenth.
        decay: Weight decay.
        validation: The share of the history that is kept out of the gradients.
    """

    seeds: int = 3
    epochs: int = 60
    steps: int = 20
    patience: int = 12
    rate: float = 4e-3
    decay: float = 1e-4
    validation: float = 0.2
