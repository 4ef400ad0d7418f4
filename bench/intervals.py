"""How often confidence limits of a report hold the true value: `python bench/intervals.py [--samples N]`.

Runs are drawn from distributions whose true value is known, 5, 10 and 30 of them; printed is, of the samples that have
limits, the share whose limits hold that value, beside that of the plain percentile bootstrap, and how wide both are.
docs/studies.md has the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from hocket.statistics import Interval, compare, interquartile_interval, mean_share

Sampler = Callable[[np.random.Generator, int], np.ndarray]
RUNS = (5, 10, 30)
DRAWS = 500  # of the plain bootstrap
TRUTH = 2_000_000  # draws from which a true value is computed where no formula gives it


def normal(mean: float, spread: float) -> Sampler:
    return lambda rng, size: rng.normal(mean, spread, size)


def shares(mean: float, spread: float) -> Sampler:
    return lambda rng, size: np.clip(rng.normal(mean, spread, size), 0, 1)


def lognormal(shift: float) -> Sampler:
    return lambda rng, size: rng.lognormal(shift, 1, size)


def either(probability: float) -> Sampler:
    return lambda rng, size: (rng.random(size) < probability).astype(float)


def middle(values: np.ndarray) -> float:
    """Find the interquartile mean of a large sample."""
    line = np.sort(values)
    return float(line[len(line) // 4 : -(len(line) // 4)].mean())


def better(first: np.ndarray, second: np.ndarray) -> float:
    """Find how often one of the first is below one of the second, in large samples."""
    line = np.sort(second)
    below, upto = (np.searchsorted(line, first, side) / len(line) for side in ("left", "right"))
    return float((1 - upto + (upto - below) / 2).mean())


def cases() -> Iterator[tuple[str, str, Callable, Callable, list[Sampler], Callable]]:
    """List statistics and data: names, our limits, the plain statistic, samplers, and the true value."""
    of_one = [("normal", shares(0.7, 0.1)), ("skewed", lambda rng, size: rng.beta(9, 1, size))]
    for name, sampler in [*of_one, *((f"0/1, {p:g}", either(p)) for p in (0.5, 0.9, 0.99))]:
        yield "success, V", name, mean_share, np.mean, [sampler], np.mean
        yield (
            "success over 3 tasks",
            name,
            mean_share,
            lambda *rows: np.mean([np.mean(row) for row in rows]),
            [sampler] * 3,
            lambda *rows: np.mean(rows),
        )
    steps = [("normal", normal(100, 20)), ("skewed", lognormal(3))]
    for name, sampler in [*steps, *((f"0/1, {p:g}", either(p)) for p in (0.5, 0.6, 0.7, 0.9))]:
        yield "mean steps", name, interquartile_interval, lambda row: middle_of_few(row), [sampler], middle
    pairs = [(f"normal, {d:g} apart", normal(0, 1), normal(d, 1)) for d in (0, 1, 3)]
    pairs += [("skewed, 1 apart", lognormal(0), lognormal(1)), ("normal, 4 times as wide", normal(0, 1), normal(1, 4))]
    pairs += [(f"0/1, {p:g} and {q:g}", either(p), either(q)) for p, q in ((0.5, 0.5), (0.1, 0.5), (0.05, 0.9))]
    for name, *samplers in pairs:
        yield (
            "probability of improvement",
            name,
            lambda *rows: compare(*rows).probability,
            lambda *rows: compare(*rows).probability.value,
            [*samplers],
            better,
        )


def middle_of_few(row: np.ndarray) -> float:
    line, cut = np.sort(row), len(row) // 4
    return float(line[cut : len(row) - cut].mean())


def bootstrap(rows: list[np.ndarray], statistic: Callable, rng: np.random.Generator) -> Interval:
    """Find the limits that reports had before: percentiles over resampled runs."""
    drawn = [statistic(*(row[rng.integers(len(row), size=len(row))] for row in rows)) for _ in range(DRAWS)]
    return Interval(0.0, *np.percentile(drawn, (2.5, 97.5)).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--plain", type=int, default=200, help="samples of the plain bootstrap, which is slow")
    options = parser.parse_args()
    print("| statistic | data | " + " | ".join(f"{runs} runs" for runs in RUNS) + " |")
    print("| --- | --- |" + " ---: |" * len(RUNS))
    for statistic, data, limits, plain, samplers, true in cases():
        rng = np.random.default_rng(1)
        truth = true(*(sampler(rng, TRUTH) for sampler in samplers))
        cells = []
        for runs in RUNS:
            samples = [[sampler(rng, runs) for sampler in samplers] for _ in range(options.samples)]
            ours = [limits(*rows) for rows in samples]
            before = [bootstrap(rows, plain, rng) for rows in samples[: options.plain]]
            cells.append(f"{coverage(ours, truth):.1%} ({coverage(before, truth):.0%})")
        print(f"| {statistic} | {data} | {' | '.join(cells)} |", flush=True)


def coverage(intervals: list[Interval], truth: float) -> float:
    """Count, of those that have limits, how many hold the true value, but for its own error."""
    known = [interval.limits for interval in intervals if interval.limits]
    return float(np.mean([low - 1e-3 <= truth <= high + 1e-3 for low, high in known]))


if __name__ == "__main__":
    main()
