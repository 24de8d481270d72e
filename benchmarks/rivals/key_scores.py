"""How good a forecast of key frequencies was: recall of the top keys and of heavy hitters, and the distance."""

from __future__ import annotations

from foretide.forecasting.key_models import KeyForecast, Window, shares_of


def top_recall(forecast: KeyForecast, truth: Window, count: int = 20) -> float:
    """The share of the true top keys that the forecast's top keys hold; 1 when nothing occurred.

    Keys that tie with the last of the true top are as good as it.
    """
    shares = shares_of(truth)
    if not shares:
        return 1.0
    wanted = min(count, len(shares))
    least = sorted(shares.values(), reverse=True)[wanted - 1]
    hits = sum(shares.get(key, 0.0) >= least for key in forecast.top(count))
    return min(hits, wanted) / wanted


def heavy_recall(forecast: KeyForecast, truth: Window, threshold: float = 0.01) -> float:
    """The share of the true heavy hitters, keys with at least `threshold` of all rows, that were foreseen as such."""
    heavy = {key for key, share in shares_of(truth).items() if share >= threshold}
    return len(heavy & set(forecast.heavy(threshold))) / len(heavy) if heavy else 1.0


def total_variation(forecast: KeyForecast, truth: Window, count: int = 100) -> float:
    """Half of the summed differences of shares: 0 for the same, 1 for nothing in common.

    The true top keys count one by one and all others as one, so that a forecast which lists few keys and one which
    lists all of them can be compared.
    """
    expected, shares = forecast.shares(), shares_of(truth)
    top = sorted(shares, key=lambda key: -shares[key])[:count]
    differences = [expected.get(key, 0.0) - shares[key] for key in top]
    rest = -sum(differences)  # both sum up to 1
    return (sum(abs(each) for each in differences) + abs(rest)) / 2
