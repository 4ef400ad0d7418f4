"""Shared code of the scripted policies in the other examples: shortest paths, and printing episodes."""

from collections import deque


def next_cell(start, goals, is_free):
    """Find the next cell on a shortest path from a cell to one of several, or the cell itself if there is no path."""
    goals = {tuple(goal) for goal in goals}
    start = tuple(start)
    came_from = {start: None}
    queue = deque(came_from)
    while queue:
        cell = queue.popleft()
        if cell in goals:
            while came_from[cell] not in (None, start):
                cell = came_from[cell]
            return cell
        for step in ((-1, 0), (1, 0), (0, 1), (0, -1)):
            beside = (int(cell[0] + step[0]), int(cell[1] + step[1]))
            if beside not in came_from and (is_free(beside) or beside in goals):
                came_from[beside] = cell
                queue.append(beside)
    return start


def play_team(env, act, seed):
    """Play an episode of a wrapped environment with actions `act(agent, observation)`; print its events."""
    seen, _ = env.reset(seed=seed)
    while env.agents:
        seen, rewards, _, _, infos = env.step({agent: act(agent, seen[agent]) for agent in env.agents})
        for event in sorted({info["event"] for info in infos.values()} - {None}):
            who = " and ".join(agent for agent, info in infos.items() if info["event"] == event)
            print(f"step {env.time}: {event} for {who}; the team is in {env.team_state}")
    print(f"completed: {env.completed}, rewards: {rewards}")


def play_individual(env, act, agent, seed):
    """Play an episode of an individual agent; print its events."""
    seen, _ = env.reset(seed=seed)
    is_over = False
    while not is_over:
        seen, reward, terminated, truncated, info = env.step(act(agent, seen))
        if info["event"]:
            print(f"individual, step {env.time}: {info['event']}; {agent} is in {info['machine_state']}")
        is_over = terminated or truncated
    print(f"{agent} has completed its sub-task: {env.state in env.machine.final}, reward: {reward}")
