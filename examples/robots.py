"""Two robots, each in its own loop with its agent, its log and a connection to the other. They meet.

The robots are simulated: a position on a line, a motor, and a noisy sensor. Everything else is as on real ones: `step`
takes an observation and returns an action, and while the agent is holding the robot does not move. A robot that is
killed and restarted with the same log continues where it was. Run it: python examples/robots.py
"""

import asyncio
import random
import tempfile
import threading
import time
from pathlib import Path

import hocket as hk

TASK = """
name = "handover"
map = "1...m...2"
[legend]
m = "mat"
1 = "west"
2 = "east"
[agents]
A1 = { start = "1", knows = ["meet", "back1"] }
A2 = { start = "2", knows = ["meet", "back2"] }
[events]
meet = "A1 and A2 at mat"
back1 = "A1 at west"
back2 = "A2 at east"
[machine.parts.A1]
final = ["home"]
[machine.parts.A1.transitions]
out = { meet = "returning" }
returning = { back1 = "home" }
[machine.parts.A2]
final = ["home"]
[machine.parts.A2.transitions]
out = { meet = "returning" }
returning = { back2 = "home" }
"""
MAT = 4.0
HOME = {"A1": 0.0, "A2": 8.0}


class Robot:
    """A body on a line."""

    def __init__(self, name: str) -> None:
        self.name, self.position, self.random = name, HOME[name], random.Random(name)

    def sense(self) -> float:
        """Measure its position."""
        return self.position + self.random.gauss(0, 0.02)

    def drive(self, speed: float) -> None:
        """Move for a tenth of a second; here, faster than that."""
        self.position += speed * 0.1
        time.sleep(0.005)


def make_agent(task: hk.Task, name: str, folder: Path) -> hk.runtime.Agent:
    """Make the agent of a robot: its conditions by position, and its actions by machine state."""

    def conditions(position: float) -> list[str]:
        places = {"meet": MAT, f"back{name[1]}": HOME[name]}
        return [event for event, place in places.items() if abs(position - place) < 0.15]

    def policy(observed: tuple[float, str]) -> float:
        position, state = observed
        goal = MAT if state == "out" else HOME[name]
        return 0.0 if abs(position - goal) < 0.1 else max(-2.0, min(2.0, 8 * (goal - position)))

    peers = {agent: str(folder / f"{agent}.sock") for agent in task.agents}  # or "HOST:PORT", with keys
    return hk.runtime.Agent(
        task, name, peers=peers, log=folder / f"{name}.log", policy=policy, conditions=conditions, stay=0.0
    )


def drive(robot: Robot, agent: hk.runtime.Agent) -> None:
    """The loop of a robot, in a thread of its own."""
    while not agent.finished:
        robot.drive(agent.step(robot.sense()))
    print(f"{robot.name} is home; it has seen {', '.join(agent.events)}")


async def drive_async(robot: Robot, agent: hk.runtime.Agent) -> None:
    """The same loop with asyncio."""
    while not agent.finished:
        speed = await asyncio.to_thread(agent.step, robot.sense())
        robot.drive(speed)
        await asyncio.sleep(0)
    print(f"{robot.name} is home; it has seen {', '.join(agent.events)}")


def main() -> None:
    """Let one robot run in a thread and the other with asyncio."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "handover.toml").write_text(TASK, encoding="utf-8")
        task = hk.load_task(folder / "handover.toml")
        with make_agent(task, "A1", folder) as one, make_agent(task, "A2", folder) as other:
            thread = threading.Thread(target=drive, args=(Robot("A1"), one))
            thread.start()
            asyncio.run(drive_async(Robot("A2"), other))
            thread.join()


if __name__ == "__main__":
    main()
