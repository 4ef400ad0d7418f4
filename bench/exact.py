"""Does Storm find the values that hocket computes? Exact values of random teams, against their exported chains.

    python bench/exact.py [--teams 200]

Needs stormpy. Compares V, every V_i, the probability of every event and the mean steps; prints the largest difference
(of the mean steps: as a part of them), how many probabilities are neither 0 nor 1, and the CPU time.
"""

import argparse
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import stormpy

import hocket as hk
from hocket.evaluation import joint_chain

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from model_checking import SMALL, disagreement, random_forks, random_team


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--teams", type=int, default=200)
    options = parser.parse_args()
    for name, limit in SMALL.items():
        setattr(joint_chain, name, limit)
    teams, too_large, largest, between, begun = 0, 0, 0.0, 0, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for seed in count():
            team = random_team(seed // 2) if seed % 2 else random_forks(seed // 2)
            if teams == options.teams:
                break
            try:
                if team is not None:
                    difference, inside = disagreement(stormpy, *team, Path(folder), greedy=seed % 4 < 2)
                    teams, largest, between = teams + 1, max(largest, difference), between + inside
            except hk.HocketError:
                too_large += 1
    seconds = time.process_time() - begun
    print(
        f"{teams} teams ({too_large} with larger chains left out): largest difference {largest:.1e}; {between} of the"
    )
    print(f"probabilities are neither 0 nor 1; {seconds:.0f} s of CPU")


if __name__ == "__main__":
    main()
