"""Try hocket with the lowest and the newest versions of its dependencies, on each Python that is installed.

    python bench/versions.py                       every Python from 3.11 to 3.14 that is there
    python bench/versions.py --pythons 3.12 --kinds lowest

For each it makes an environment in a temporary folder, installs the core dependencies, and then those of the extras
that need no graphics processor and no network, from wheels only, and runs a small piece of everything: a check, a
formula, training, evaluation and a drawing; an environment, a page, a log and keys. It prints rows of the table in
CONTRIBUTING.md.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("automata", "dask", "gym", "infer", "keys", "mcap", "studio", "tensorboard", "zenoh")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TRIED = """
import sys, tempfile, hocket as hk
assert hk.check_task("buttons").ok
assert len(hk.from_ltlf("F(a & X F b)").states) == 3
task = hk.rendezvous(agents=2, rows=3, columns=3)
runs = hk.train(task, seeds=2, steps=300, settings={"test_every": 100})
assert len(hk.evaluate(task, runs, episodes=5)) == 2
from hocket.__main__ import main
sys.argv = ["hocket", "show", "buttons", "-o", tempfile.mkdtemp() + "/buttons.svg"]
try:
    main()
except SystemExit as ended:
    assert ended.code == 0
"""

TRIED_EXTRAS = """
import tempfile, hocket as hk, hocket.runtime
from pathlib import Path
folder = Path(tempfile.mkdtemp())
env = hk.gym.team_env("rendezvous-2")
env.reset(seed=0)
assert env.step({agent: 0 for agent in env.agents})
machine = hk.load_task("buttons").machine
assert hk.from_networkx(hk.to_networkx(machine)).states
from hocket.studio.server import Studio
assert Studio.for_file(None, 1).app()
from hocket.study.engines import make_engine
import distributed, mcap, zenoh, tensorboardX, cryptography, pysat, aalpy
with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None, protocol="tcp") as local:
    study = hk.Study([hk.rendezvous(agents=2, rows=3, columns=3)], ["sweep"], 1, 200, {"test_every": 100})
    assert hk.run_study(study, folder / "runs", engine=make_engine("dask", local.scheduler_address)).records
from hocket.study.trackers import log_records
log_records(hk.load_results(folder / "runs").records, folder / "board")
from hocket.__main__ import main
import sys
for words in (["keys", "buttons", "--out", str(folder / "keys")], ["report", str(folder / "runs")]):
    sys.argv = ["hocket", *words]
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 0, words
"""


def requirements(kind: str, extras: bool) -> list[str]:
    """List dependencies: as they are declared, or at the newest patches of their lowest versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"]]
    for name in EXTRAS if extras else ():
        declared += project["optional-dependencies"][name]
    if kind == "newest":
        return declared
    lowest = [re.match(r"([\w-]+)>=([\d.]+)", line) for line in declared]
    exact = [line for line in declared if "==" in line]
    return exact + [f"{match[1]}~={match[2]}.0" + ".0" * ("." not in match[2]) for match in lowest if match is not None]


def environment(python: str, kind: str, extras: bool, folder: Path) -> tuple[Path | None, str]:
    """Make an environment; None and why, where that is not possible."""
    program = shutil.which(f"python{python}")
    if program is None or subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode:
        return None, "not tried: this Python was not at hand"
    subprocess.run([program, "-m", "venv", folder], check=True, capture_output=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    installed = subprocess.run([*pip, *requirements(kind, extras)], capture_output=True, text=True, check=False)
    if installed.returncode:
        lines = [line for line in installed.stderr.splitlines() if line.startswith("ERROR")]
        return None, (lines or ["cannot be installed"])[-1].removeprefix("ERROR: ")
    return folder / "bin" / "python", ""


def versions(python: Path, extras: bool) -> str:
    """Say which versions of the main dependencies are there."""
    names: tuple[str, ...] = ("numpy", "numba", "scipy", "matplotlib", "pygraphviz", "tyro")
    if extras:
        names = ("gymnasium", "pettingzoo", "distributed", "starlette", "uvicorn", "python-sat", "eclipse-zenoh")
    code = f"from importlib.metadata import version\nprint(*(f'{{n}} {{version(n)}}' for n in {names}), sep=', ')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def attempt(python: str, kind: str, extras: bool) -> str:
    """Try one combination; return a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        label = f"{kind}, extras" if extras else kind
        program, reason = environment(python, kind, extras, Path(folder))
        if program is None:
            return f"| {python} | {label} | {reason} | |"
        surroundings = {"PYTHONPATH": str(ROOT / "src"), "HOME": folder, "PATH": "/usr/bin:/bin", "MPLBACKEND": "agg"}
        ended = subprocess.run(
            [program, "-c", TRIED_EXTRAS if extras else TRIED],
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = ended.stderr.strip().splitlines() or [""]
        outcome = "works" if ended.returncode == 0 else f"fails: {lines[-1]:.80}"
        return f"| {python} | {label} | {outcome} | {versions(program, extras)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", nargs="*", default=PYTHONS)
    parser.add_argument("--kinds", nargs="*", default=("lowest", "newest"), choices=("lowest", "newest"))
    asked = parser.parse_args()
    print("| Python | dependencies | outcome | versions |\n| --- | --- | --- | --- |")
    for python in asked.pythons:
        for kind in asked.kinds:
            for extras in (False, True):
                print(attempt(python, kind, extras), flush=True)


if __name__ == "__main__":
    main()
