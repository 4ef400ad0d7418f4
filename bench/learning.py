"""How fast are training and testing, how much memory do the paper's runs need, and how long is the first compilation?

    python bench/learning.py [--quick] [--out learning.json]

Every part runs in a process of its own. What counts is processor time. Speeds are ratios to a straightforward loop in
the same run (`hocket bench`); bench/lanes.py compares with C++.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PAPER = {"buttons": 250_000, "rendezvous-2": 700_000, "rendezvous-10": 200_000}


def speeds() -> object:
    """Compare with a straightforward loop."""
    from dataclasses import asdict

    from hocket.learn.benchmark import measure_learning

    return [asdict(row) for name in ("rendezvous-2", "buttons") for row in measure_learning(name)]


def paper() -> object:
    """Train DQPRM on all of the paper's tasks, ten seeds each."""
    import hocket as hk

    rows = {}
    for name, steps in PAPER.items():
        begin = time.process_time()
        runs = hk.train(hk.load_task(name), "dqprm", seeds=10, steps=steps, settings={"wait_for_team": True})
        rows[name] = {"processor_seconds": time.process_time() - begin, "runs": len(runs)}
    return {**rows, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def thousand() -> object:
    """Train a thousand agents for 50,000 steps each and test them as a team."""
    import hocket as hk

    begin = time.process_time()
    task = hk.load_task("rendezvous-1000")
    hk.train(task, "dqprm", seeds=1, steps=50_000, settings={"test_every": 50_000})
    return {"processor_seconds": time.process_time() - begin}


def compilation() -> object:
    """Use every learner once."""
    import hocket as hk

    begin = time.process_time()
    task = hk.load_task("rendezvous-2")
    for learner in ("dqprm", "cqrm", "iql", "hil"):
        hk.evaluate(task, hk.train(task, learner, seeds=4, steps=1_000), 1)
    return {"processor_seconds": time.process_time() - begin}


PARTS: dict[str, Callable[[], object]] = {f.__name__: f for f in (speeds, paper, thousand, compilation)}


def run_part(name: str, cache: str | None = None) -> object:
    """Run a part in a new process, with its own cache of compiled code if one is given."""
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    command = [sys.executable, __file__, "--part", name]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(output.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="speeds only")
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    parser.add_argument("--part", choices=PARTS, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part is not None:
        print(json.dumps(PARTS[options.part]()))
        return
    results = {"load": os.getloadavg(), "speeds": run_part("speeds")}
    if not options.quick:
        with tempfile.TemporaryDirectory() as cache:
            results["first use, with compilation"] = run_part("compilation", cache)
            results["later use"] = run_part("compilation", cache)
        results["dqprm on the paper's tasks"] = run_part("paper")
        results["a thousand agents"] = run_part("thousand")
    text = json.dumps(results, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
