"""The run time: schedules of faults, the check of delays against brute force, real processes, and how fast they are.

python bench/runtime.py schedules 1000000     # over all built-in tasks and those made for causal trouble
python bench/runtime.py delays 20000          # random decomposable tasks against every schedule with real queues
python bench/runtime.py processes 100         # runs of real processes, killed, frozen, with a fifth of messages lost
python bench/runtime.py pace                  # joint events a second, bytes of an event, time to come back
python bench/runtime.py tampering 2000        # logs that were changed
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import hocket as hk
from causal_tasks import CAUSAL
from delay_oracle import random_team, tolerates
from hocket.machine.delays import find_delays
from hocket.runtime.launch import run_team
from hocket.runtime.log import sync
from hocket.runtime.recording import verify
from hocket.runtime.simulation import simulate
from hocket.task.catalogue import known_tasks
from walks import shortest_actions

PIECE = 2_000  # schedules of a task at a time


def schedules(count: int) -> None:
    """Play schedules, in turn on all tasks; print what was injected, and how many a second of CPU."""
    tasks = {**{name: task.decomposition for name, task in known_tasks().items()}, **CAUSAL}
    deciders = {name: find_delays(found).agreed for name, found in tasks.items()}
    done, seconds, counts = 0, 0.0, {}
    for begin in range(0, count, PIECE):
        for name, found in tasks.items():
            if done >= count:
                break
            report = simulate(found, min(PIECE, count - done), seed=begin, deciders=deciders[name])
            done, seconds = done + report.schedules, seconds + report.seconds
            for what, number in report.counts.items():
                counts[what] = counts.get(what, 0) + number
            if not report.ok:
                print(name, report.failure.seed, report.failure.sentence, *report.failure.story, sep="\n")
                sys.exit(1)
        print(f"{done:,} schedules, {done / seconds:,.0f} a second of CPU, {counts}", flush=True)
        if done >= count:
            break


def delays(count: int) -> None:
    """Compare the check of delays with every schedule of random tasks."""
    tried = tolerant = wrong = seed = 0
    begun, checking = time.process_time(), 0.0
    while tried < count:
        seed += 1
        if (team := random_team(random.Random(seed))) is None:
            continue
        machine, knows, control = team
        found = hk.decompose(machine, knows, control)
        before = time.process_time()
        check = hk.check_delays(found)
        checking += time.process_time() - before
        tried, tolerant = tried + 1, tolerant + check.tolerant
        wrong += tolerates(found, check.deciders) != check.tolerant
    whole = time.process_time() - begun
    print(
        f"{tried:,} tasks, {tolerant:,} tolerant, {wrong} wrong; the check takes {checking / tried * 1e3:.2f} ms each"
    )
    print(f"({whole:.0f} s of CPU with brute force)")
    large = hk.rendezvous(10)
    machine, parts = large.machine.machine(), large.machine.parts
    found = hk.decompose(machine, {a: part.events for a, part in parts.items()}, {**large.controllers, "r": ["A1"]})
    before = time.process_time()
    hk.check_delays(found)
    print(f"{len(machine.states):,} states: {time.process_time() - before:.3f} s of CPU")


def disturb(folder: Path, names: list[str], rng: random.Random, done: threading.Event) -> None:
    """Kill and freeze processes at random, six times at most."""
    for _ in range(6):
        if done.wait(rng.random() * 1.2):
            return
        try:
            process = int((folder / f"{rng.choice(names)}.pid").read_text())
            if rng.random() < 0.6:
                os.kill(process, signal.SIGKILL)
            else:
                os.kill(process, signal.SIGSTOP)
                done.wait(0.3)
                os.kill(process, signal.SIGCONT)
        except (OSError, ValueError):
            continue


def processes(count: int) -> None:
    """Run real processes with kills, freezes and loss; all must complete and verify."""
    tasks = [hk.load_task(name) for name in ("buttons", "rendezvous-2", "drawbridge", "warehouse", "four-buttons")]
    actions = {task.name: shortest_actions(task) for task in tasks}
    good = restarts = 0
    for number in range(count):
        task, rng, done = tasks[number % len(tasks)], random.Random(number), threading.Event()
        with tempfile.TemporaryDirectory() as scratch:
            folder, limit = Path(scratch) / "run", time.monotonic() + 180
            names = [*task.agents, "world"]
            thread = threading.Thread(target=disturb, args=(folder, names, rng, done))
            thread.start()
            outcome = run_team(
                task, actions[task.name], folder, pace=20, agree=True, loss=0.2, seed=number, steps=10_000,
                stop=lambda limit=limit: time.monotonic() > limit,
            )  # fmt: skip
            done.set()
            thread.join()
            found = verify(folder)
            good += outcome.complete and found.ok
            restarts += sum(outcome.restarts.values())
            if not (outcome.complete and found.ok):
                print(number, task.name, outcome, found.explain())
        print(f"{number + 1} runs, {good} complete and verified, {restarts} processes started again", flush=True)


def tampering(count: int) -> None:
    """Change logs in one byte, or leave out, double or exchange lines; every change must be found."""
    task, refused = hk.load_task("buttons"), 0
    with tempfile.TemporaryDirectory() as scratch:
        folder, rng = Path(scratch) / "run", random.Random(0)
        assert run_team(task, shortest_actions(task), folder, pace=50, durable=False).complete
        assert verify(folder).ok
        paths = [folder / f"{name}.log" for name in (*task.agents, "world")]
        for number in range(count):
            path = paths[number % len(paths)]
            before = path.read_bytes()
            path.write_bytes(changed(before, rng))
            refused += not verify(folder).ok
            path.write_bytes(before)
        assert verify(folder).ok
    print(f"{count:,} changed logs, {refused:,} refused")


def changed(data: bytes, rng: random.Random) -> bytes:
    """Change a log somewhere."""
    lines, kind = data.splitlines(keepends=True), rng.randrange(5)
    place = rng.randrange(len(lines))
    if kind == 0:
        lines.pop(place)
    elif kind == 1:
        lines.insert(place, lines[place])
    elif kind == 2:
        other = (place + 1 + rng.randrange(len(lines) - 1)) % len(lines)
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 3:
        return data[: rng.randrange(len(data))]
    else:
        byte = rng.randrange(len(data))
        return data[:byte] + bytes([data[byte] ^ 1 << rng.randrange(8)]) + data[byte + 1 :]
    return b"".join(lines)


def endless_task() -> hk.Task:
    """Make a task in which two agents that stand still agree on x and y in turn, for ever."""
    grid = hk.Grid(1, 2, frozenset(), {"here": frozenset({0}), "there": frozenset({1})})
    there = dict.fromkeys(("A", "B"), hk.Condition("here"))
    machine = hk.RewardMachine(
        initial="0", transitions={("0", "x"): "1", ("1", "y"): "0", ("0", "z"): "2"}, final={"2"}
    )
    agents = {name: hk.Agent(0, ["x", "y", "z"]) for name in ("A", "B")}
    away = dict.fromkeys(("A", "B"), hk.Condition("there"))
    return hk.Task("endless", grid, agents, {"x": there, "y": there, "z": away}, machine)


def host_alone(folder: str, agent: str, seconds: str) -> None:
    """Be one of two agents, for so many seconds; print how many events there were and how many bytes were sent."""
    import asyncio

    from hocket.runtime.host import Host
    from hocket.runtime.settings import read_settings

    async def stand() -> None:
        settings, _ = read_settings(Path(folder))
        host = Host(settings, agent, Path(folder) / f"{agent}.log")
        await host.start()
        while not host.transport.writers or len(host.events) < 50:
            host.perceive(3, 0)
            await asyncio.sleep(0.02)
        before, begun, sent = len(host.events), time.perf_counter(), host.transport.bytes_sent
        cpu = time.process_time()
        await asyncio.sleep(float(seconds))
        events, cpu = len(host.events) - before, time.process_time() - cpu
        rate, payload = events / (time.perf_counter() - begun), (host.transport.bytes_sent - sent) / events
        print(json.dumps({"rate": rate, "bytes": payload, "cpu": cpu / events}), flush=True)
        await host.stop()

    asyncio.run(stand())


def two_hosts(folder: Path, durable: bool) -> tuple[float, float, float]:
    """Let two processes agree on joint events; return events a second, bytes of payload and CPU seconds of each."""
    from hocket.runtime.settings import RunSettings

    folder.mkdir()
    sockets = Path(tempfile.mkdtemp(prefix="hocket-"))
    addresses = {name: str(sockets / name) for name in ("A", "B")}
    task = endless_task()
    deciders = {event: tuple(own) for event, own in task.controllers.items()}
    RunSettings(task, "bench", deciders, addresses, durable=durable).save(folder)
    command = [sys.executable, __file__, "host"]
    hosts = [
        subprocess.Popen([*command, str(folder), name, "4"], stdout=subprocess.PIPE, text=True) for name in addresses
    ]
    told = [json.loads(host.communicate()[0]) for host in hosts]
    shutil.rmtree(sockets)
    return min(own["rate"] for own in told), sum(own["bytes"] for own in told), sum(own["cpu"] for own in told)


def pace() -> None:
    """Measure joint events a second, the bytes of an event, and how soon a process that was killed is back."""
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        with (Path(scratch) / "probe").open("ab", buffering=0) as file:
            begun, count = time.perf_counter(), 100
            for _ in range(count):
                file.write(b"x" * 100)
                sync(file.fileno())
            each = (time.perf_counter() - begun) / count
        allowed = 1 / (3 * each)  # a promise, a decision, and what its first decider hears
        rate, _, _ = two_hosts(Path(scratch) / "durable", durable=True)
        print(f"a sync takes {each * 1e3:.2f} ms; three in a row allow {allowed:,.0f} events a second")
        print(f"durably: {rate:,.0f} joint events a second, {rate / allowed:.2f} of that")
        rate, payload, cpu = two_hosts(Path(scratch) / "play", durable=False)
        print(f"without sync: {rate:,.0f} a second ({1 / cpu:,.0f} a second of CPU, both processes together)")
        print(f"{payload:.0f} bytes of payload for an event of two agents, offers included")
        back(Path(scratch))


def back(scratch: Path) -> None:
    """Kill an agent of a run ten times; measure how long it takes to be there again, in wall and in CPU time."""
    task, times = hk.load_task("buttons"), []
    folder, done = scratch / "back", threading.Event()

    def kill() -> None:
        path = folder / "A1.pid"
        while not path.exists():
            time.sleep(0.01)
        for _ in range(10):
            time.sleep(0.5)
            process = path.read_text()
            os.kill(int(process), signal.SIGKILL)
            begun = time.perf_counter()
            while path.read_text() == process:
                time.sleep(0.005)
            times.append(time.perf_counter() - begun)
        done.set()

    thread = threading.Thread(target=kill)
    thread.start()
    run_team(task, shortest_actions(task), folder, pace=0.5, durable=False, stop=done.is_set)
    thread.join()
    times.sort()
    print(f"back after a kill: {times[len(times) // 2]:.2f} s in the median of ten, {times[-1]:.2f} s at most")


def main() -> None:
    """Do what the command line says."""
    what, *rest = sys.argv[1:] or ["schedules", "25000"]
    counted = {"schedules": schedules, "delays": delays, "processes": processes, "tampering": tampering}
    if what in counted:
        counted[what](int(rest[0]))
    elif what == "host":
        host_alone(*rest)
    else:
        pace()


if __name__ == "__main__":
    main()
