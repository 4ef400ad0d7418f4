"""Machines from logs: the truth is hidden behind the log, and judged by `distinguish` and by a search of our own."""

import math
import re
from dataclasses import replace
from itertools import product
from random import Random

import pytest

import hocket as hk
from hidden_teams import composition, demonstration, difference, learn, random_log, random_team, reachable
from hocket.errors import AssignmentError, FormatError, HocketError
from hocket.inference.facts import cheapest_event_sets, facts_of
from hocket.inference.infer import UnexplainedError
from hocket.inference.logs import Attempt, Episode, Log, LogError
from hocket.inference.machines import LocalMachine, TeamSimulation, first_disagreement
from hocket.inference.smallest import STATE_BITS

TASKS = {"buttons": 120, "warehouse": 120, "rooms": 120, "four-buttons": 120, "crew": 60, "rendezvous-4": 60}


def knows_of(task):
    return {agent: tuple(events) for agent, events in task.knows.items()}


# The truth behind a log.


@pytest.mark.parametrize("name", TASKS)
def test_random_episodes_identify_a_built_in_task(name):
    task = hk.load_task(name)
    answer = hk.infer(random_log(composition(task), TASKS[name], seed=1), knows_of(task))
    assert difference(composition(task), answer.team) is None
    team = task.machine if isinstance(task.machine, hk.RewardMachine) else task.machine.machine()
    assert hk.distinguish(team, answer.team.machine()) is None


def test_what_is_inferred_is_decomposable_and_its_projections_tell_agents_more():
    task = hk.load_task("drawbridge")
    answer = hk.infer(random_log(composition(task), 80, seed=0), knows_of(task))
    assert answer.decomposition.ok
    assert hk.distinguish(answer.team.machine(), hk.compose(*answer.decomposition.machines.values())) is None
    smallest = sum(len(machine.states) for machine in answer.machines.values())
    assert smallest < sum(len(machine.states) for machine in answer.decomposition.machines.values())


@pytest.mark.parametrize("seed", range(8))
def test_what_is_inferred_of_a_random_team_agrees_with_every_episode_and_is_no_larger_than_the_truth(seed):
    team = random_team(Random(seed))
    knows = {agent: tuple(part.events) for agent, part in team.parts.items()}
    log = random_log(team, 15, seed)
    answer = hk.infer(log, knows)
    machines = tuple(answer.smallest.machines.values())
    assert all(first_disagreement(answer.facts, machines, episode) is None for episode in log.episodes)
    assert answer.smallest.total <= sum(len(part.states) for part in team.parts.values())


def test_a_log_of_rewards_identifies_a_small_task_up_to_what_changes_nothing():
    task = hk.load_task("pass-the-room")
    log = replace(random_log(composition(task), 30, seed=0, length=25), observed="reward")
    answer = hk.infer(log, knows_of(task))
    assert difference(composition(task), answer.team, silent=True) is None
    assert "an event that changes nothing counts as refused" in answer.claim


def test_wrong_entries_are_disbelieved_and_named():
    task = hk.load_task("pass-the-room")
    log = random_log(composition(task), 30, seed=0, length=25)
    number, wrong = next(
        (number, place)
        for number, episode in enumerate(log.episodes)
        for place, row in enumerate(episode.attempts)
        if not row.accepted
    )
    rows = list(log.episodes[number].attempts)
    rows[wrong] = Attempt(rows[wrong].event, True)
    episode = Episode(log.episodes[number].name, tuple(rows))
    noisy = Log((*log.episodes[:number], episode, *log.episodes[number + 1 :]))
    answer = hk.infer(noisy, knows_of(task), noise=0.02)
    assert answer.smallest.disbelieved == ((episode.name, wrong),)
    assert difference(composition(task), answer.team) is None
    assert "but for 1 entries that are taken for wrong (noise 0.02)" in answer.claim
    refusals = [row for row in answer.evidence.values() if row.refused]
    assert refusals and all(not row.accepted for row in refusals)  # what is disbelieved supports nothing


@pytest.mark.parametrize("name", ["pass-the-room", "warehouse", "rendezvous-2", "four-buttons"])
def test_with_demonstrations_alone_there_is_a_hypothesis_and_a_question(name):
    task = hk.load_task(name)
    log = replace(demonstration(composition(task), seed=0), observed="effective")
    answer = hk.infer(log, knows_of(task))
    assert answer.questions
    assert "cannot identify a machine" in answer.claim


# Whether local event sets can explain a log at all.

HANDED = [[("a", True), ("b", True, True)], [("b", False)]]  # b only after a


def test_one_who_does_not_hear_of_an_event_cannot_explain_what_depends_on_it():
    with pytest.raises(UnexplainedError) as caught:
        hk.infer(hk.make_log(HANDED), {"A1": ["a"], "A2": ["b"]})
    unexplained = caught.value.unexplained
    assert (unexplained.trace, unexplained.event, unexplained.episode) == ((), "b", "2")
    assert unexplained.lookalikes["A2"].episode.name == "1"
    said = "Episode 2: b was refused at the start. A2 cannot tell this from episode 1, where b was accepted after a."
    assert said in str(caught.value)


def test_a_completion_that_nobody_can_tell_from_what_was_not_one_is_unexplainable():
    log = hk.make_log([[("a", True), ("b", True, True)], [("b", True), ("a", True)]])  # done by order alone
    with pytest.raises(UnexplainedError, match="the task was not done after b, a"):
        hk.infer(log, {"A1": ["a"], "A2": ["b"]})
    assert hk.infer(log, {"A1": ["a", "b"], "A2": ["b"]}).team


def test_an_event_after_completion_that_was_accepted_elsewhere_after_a_look_alike_is_unexplainable():
    log = hk.make_log([[("a", True), ("b", True, True)], [("a", True), ("c", True)]])
    with pytest.raises(UnexplainedError, match="c was refused after a, b"):
        hk.infer(log, {"A1": ["a", "b"], "A2": ["a", "c"]})


def test_a_log_that_contradicts_itself_names_the_episodes():
    log = hk.make_log([[("a", True)], [("a", False)]])
    with pytest.raises(UnexplainedError, match=r"Episode 2: a was refused at the start. A1 cannot tell .* episode 1"):
        hk.infer(log, {"A1": ["a"]})
    with pytest.raises(HocketError, match="for all local event sets"):
        hk.infer(log, ["A1"], {"a": ["A1"]})


def test_a_log_of_rewards_that_contradicts_itself_names_the_episodes():
    log = Log((Episode("x", (Attempt("a", True, True),)), Episode("y", (Attempt("a", True),))), "reward")
    with pytest.raises(UnexplainedError, match=r"Episode y: the task was not done after a\. .*episode x"):
        hk.infer(log, {"A1": ["a"]})


@pytest.mark.parametrize("seed", range(4))
def test_the_truth_can_always_be_explained_over_its_own_event_sets_and_over_more(seed):
    team = random_team(Random(seed))
    knows = {agent: tuple(part.events) for agent, part in team.parts.items()}
    log = random_log(team, 30, seed)
    assert facts_of(log, knows).unexplained() is None
    assert facts_of(log, {**knows, "A1": tuple(team.events)}).unexplained() is None


@pytest.mark.parametrize("name", ["buttons", "warehouse"])
def test_the_cheapest_event_sets_are_found_with_the_machines(name):
    task = hk.load_task(name)
    log = random_log(composition(task), 100, seed=2)
    answer = hk.infer(log, list(task.agents), task.controllers)
    size = sum(map(len, answer.knows.values()))
    assert size <= sum(map(len, task.knows.values()))
    assert facts_of(log, answer.knows).unexplained() is None
    base = {agent: {e for e in log.events if agent in task.controllers[e]} for agent in task.agents}
    assert all(base[agent] <= {*answer.knows[agent]} for agent in task.agents)
    cheapest = cheapest_event_sets(log, task.agents, task.controllers)
    assert cheapest.exact and cheapest.cost == size
    for agent, known in answer.knows.items():  # nobody knows anything in vain
        for event in {*known} - base[agent]:
            less = {**answer.knows, agent: tuple(e for e in known if e != event)}
            assert facts_of(log, less).unexplained() is not None


# Every sentence of a claim is true of its answer.


@pytest.fixture(scope="module")
def few():
    task = hk.load_task("warehouse")
    return hk.infer(random_log(composition(task), 6, seed=0), knows_of(task))


def test_a_question_is_a_trace_on_which_a_rival_that_explains_the_log_answers_otherwise(few):
    assert few.questions
    for question in few.questions:
        machines = {**few.smallest.machines, **question.rivals}
        rival = tuple(machines.values())
        for episode in few.log.episodes:
            assert first_disagreement(few.facts, rival, episode) is None
        teams = (few.team, hk.Composition({**few.machines, **few.rivals(question)}))
        states = [team.initial for team in teams]
        for event in question.trace:
            states = [team.step(state, event) for team, state in zip(teams, states, strict=True)]
            assert None not in states
        if question.event is None:
            answers = [team.is_final(state) for team, state in zip(teams, states, strict=True)]
        else:
            answers = [team.step(state, question.event) is not None for team, state in zip(teams, states, strict=True)]
        assert answers == [question.expected, not question.expected]
    assert "the questions separate them from these" in few.claim


def test_the_claim_of_the_smallest_size_is_that_of_a_brute_force_search():
    log = hk.make_log([[("a", True), ("b", True, True)], [("b", False)], [("a", True), ("a", False)]])
    answer = hk.infer(log, {"A1": ["a", "b"]})
    fewest = _fewest_states(log, ("a", "b"))
    assert answer.smallest.total == fewest
    assert f"have fewer than {fewest} states in all (proved)" in answer.claim


def _fewest_states(log, events):
    """Try all machines of one agent, the smallest first."""
    facts = facts_of(log, {"A1": events})
    for size in range(1, 5):
        keys = [(state, event) for state in range(size) for event in events]
        for targets in product([None, *range(size)], repeat=len(keys)):
            moves = {key: target for key, target in zip(keys, targets, strict=True) if target is not None}
            for final in ({state for state in range(size) if bits >> state & 1} for bits in range(2**size)):
                machine = LocalMachine(moves, frozenset(final))
                if not any(first_disagreement(facts, (machine,), episode) for episode in log.episodes):
                    return size
    raise AssertionError


def machines_over(event, size):
    """List all machines of one agent that knows one event, with so many states."""
    for targets in product([None, *range(size)], repeat=size):
        moves = {(state, event): target for state, target in enumerate(targets) if target is not None}
        for bits in range(2**size):
            yield LocalMachine(moves, frozenset(state for state in range(size) if bits >> state & 1))


def behaviour(machine, event, length):
    """Say what a machine answers to so many attempts; nothing happens after completion."""
    run, answers = TeamSimulation((machine,), {event: (0,)}), []
    for _ in range(length):
        refused = run.completed or bool(run.step(event))
        answers.append((not refused, not refused and run.completed))
    return answers


def test_the_claim_that_no_rival_is_left_is_that_of_a_brute_force_search():
    truth = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "a"): "2"}, final={"2"})
    answer, _ = learn(hk.Composition({"A1": truth}), {"A1": ("a",)}, None, trials=5)
    assert "No change of one agent's machine by at most 2 more states" in answer.claim
    learnt = answer.smallest.machines["A1"]
    for size in range(1, len(learnt.states) + 3):
        for machine in machines_over("a", size):
            fits = all(first_disagreement(answer.facts, (machine,), e) is None for e in answer.log.episodes)
            if fits and 0 not in machine.final:
                assert behaviour(machine, "a", 9) == behaviour(learnt, "a", 9)


def test_the_claim_of_the_best_trade_is_that_of_a_brute_force_search():
    rows = [[("a", True), ("a", False), ("a", False)]] * 6 + [[("a", True), ("a", True), ("a", False)]]
    log, noise = hk.make_log(rows), 0.1
    answer = hk.infer(log, {"A1": ("a",)}, noise=noise)
    assert "none are a better trade of states against disbelieved entries (proved)" in answer.claim
    doubt = round(math.log2((1 - noise) / noise))

    def cost(machine, wrong):
        return STATE_BITS * len(machine.states) + doubt * wrong

    def mistakes(machine):
        shown = behaviour(machine, "a", 3)
        return sum(shown[at] != (row.accepted, row.done) for e in log.episodes for at, row in enumerate(e.attempts))

    best = min(
        cost(machine, mistakes(machine))
        for size in (1, 2, 3)
        for machine in machines_over("a", size)
        if 0 not in machine.final
    )
    learnt = answer.smallest.machines["A1"]
    assert cost(learnt, len(answer.smallest.disbelieved)) == best == cost(learnt, mistakes(learnt))


def test_the_numbers_of_a_claim_are_those_of_the_answer(few):
    assert f"all {len(few.log.episodes)} episodes" in few.claim
    assert f"{len(few.never_tried)} combinations of agent, state and event were never tried" in few.claim
    assert few.decomposition.ok  # as it says


def test_what_was_never_tried_has_no_evidence_and_everything_else_has(few):
    never = {*few.never_tried}
    for agent, machine in few.machines.items():
        for state in machine.states:
            for event in few.knows[agent]:
                evidence = few.evidence.get((agent, state, event))
                assert (evidence is None) == ((agent, state, event) in never)
                if evidence is not None:
                    assert bool(evidence.accepted) == (machine.step(state, event) is not None)


def test_evidence_names_episodes_in_which_the_transition_was_taken(few):
    episodes = {episode.name: episode for episode in few.log.episodes}
    for (agent, state, event), evidence in few.evidence.items():
        for name in evidence.accepted:
            local = few.machines[agent].initial
            taken = set()
            for happened in episodes[name].accepted:
                if happened in few.knows[agent]:
                    taken.add((local, happened))
                    local = few.machines[agent].step(local, happened)
            assert (state, event) in taken


def test_when_time_is_up_the_trees_of_the_log_are_the_answer_and_the_claim_says_so():
    task = hk.load_task("crew")
    log = random_log(composition(task), 40, seed=0)
    answer = hk.infer(log, knows_of(task), seconds=0)
    machines = tuple(answer.smallest.machines.values())
    assert all(first_disagreement(answer.facts, machines, episode) is None for episode in log.episodes)
    assert answer.smallest.bound <= answer.smallest.total and "a limit of time or size was reached" in answer.claim


# Asking.


@pytest.mark.parametrize(("name", "most"), [("pass-the-room", 60), ("warehouse", 200), ("buttons", 200)])
def test_asking_after_one_demonstration_identifies_a_built_in_task(name, most):
    task = hk.load_task(name)
    team = composition(task)
    answer, asked = learn(team, knows_of(task), demonstration(team, seed=1), seed=1)
    assert difference(team, answer.team) is None
    assert sum(trial.purpose != "random" for trial in asked) <= most
    assert answer.trials >= 100 and f"{answer.trials} random attempts in a row agreed" in answer.claim
    assert not answer.questions and "No change of one agent's machine" in answer.claim


def test_asking_needs_no_demonstration():
    task = hk.load_task("pass-the-room")
    answer, _ = learn(composition(task), knows_of(task), None, trials=30)
    assert difference(composition(task), answer.team) is None


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_asking_a_random_team_identifies_it(seed):
    team = random_team(Random(100 + seed))
    knows = {agent: tuple(part.events) for agent, part in team.parts.items()}
    answer, _ = learn(team, knows, demonstration(team, seed), seed=seed)
    assert difference(team, answer.team) is None


def test_what_is_impossible_is_not_asked_again_and_is_told():
    task = hk.load_task("pass-the-room")
    team, questions = composition(task), hk.ask(knows_of(task), trials=20)
    state, asked, answer = team.initial, [], None
    while True:
        try:
            trial = next(questions) if answer is None else questions.send(answer)
        except StopIteration as stop:
            learnt = stop.value
            break
        state = team.initial if trial.begins else state
        end = team.step(state, trial.event)
        answer = "refused" if end is None else "done" if team.is_final(end) else "accepted"
        if trial.event == "through" and len(trial.trace) == 0:
            asked.append(trial)
            answer = "impossible"
        state = state if end is None or answer == "impossible" else end
    assert len(asked) == 1
    assert [(bar.trace, bar.event) for bar in learnt.world.barred] == [((), "through")]
    assert "Experiments that were impossible, and are left out of that: 1." in learnt.claim


def test_a_wrong_word_for_an_answer_is_refused():
    questions = hk.ask({"A1": ["a"]})
    next(questions)
    with pytest.raises(LogError, match="an answer must be one of accepted, refused, done, impossible, got 'yes'"):
        questions.send("yes")


def test_answers_that_contradict_each_other_name_the_episodes():
    questions, told = hk.ask({"A1": ["a", "b"]}), {}
    trial = next(questions)

    def contradict():
        nonlocal trial
        for _ in range(50):
            times = told[trial.trace, trial.event] = told.get((trial.trace, trial.event), 0) + 1
            trial = questions.send("accepted" if times % 2 else "refused")

    with pytest.raises(UnexplainedError, match="cannot tell this from episode"):
        contradict()


# Bad input.


@pytest.mark.parametrize(
    ("log", "knows", "message"),
    [
        (hk.make_log([]), {"A1": ["a"]}, "a log must have at least one attempt, got none"),
        (hk.make_log([[("a", True)]]), {"A1": ["b"]}, "every event must be in some local event set, got 'a'"),
        (hk.make_log([[("a", True)]]), ["A1"], "say who controls which event"),
        ("log.csv", {"A1": ["a"]}, "infer takes a log, as read_log gives it, got 'log.csv'"),
        (hk.make_log([[("a", True)]]), {}, "at least one agent"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(log, knows, message):
    with pytest.raises(HocketError, match=re.escape(message)):
        hk.infer(log, knows)


def test_noise_must_be_a_small_probability():
    for noise in (-0.1, 0.5, 2):
        with pytest.raises(LogError, match=r"noise must be at least 0 and below 0\.5"):
            hk.infer(hk.make_log([[("a", True)]]), {"A1": ["a"]}, noise=noise)


def test_control_must_name_somebody_for_every_event():
    with pytest.raises(AssignmentError, match="every event needs an agent that controls it, got none for 'a'"):
        hk.infer(hk.make_log([[("a", True)]]), ["A1"], {"b": ["A1"]})


def test_an_episode_that_goes_on_after_its_end_is_refused():
    with pytest.raises(LogError, match="episode 1 goes on with b after it was done by a"):
        hk.make_log([[("a", True, True), ("b", True)]])
    with pytest.raises(LogError, match="episode 1 is done by a, which was refused"):
        hk.make_log([[("a", False, True)]])


# Files.

CSV = "episode,event,accepted,done\n1,key,1,0\n1,door,1,1\n2,door,0,0\n"
JSONL = """{"episode": 1, "event": "key", "accepted": true}
{"episode": 1, "event": "door", "accepted": 1, "done": 1}
{"episode": "2", "event": "door", "accepted": false, "done": 0}
"""
XES = """<log xmlns="http://www.xes-standard.org/"><trace><string key="concept:name" value="1"/>
<event><string key="concept:name" value="key"/><boolean key="accepted" value="true"/></event>
<event><string key="concept:name" value="door"/><boolean key="accepted" value="true"/>
<string key="end" value="ok"/></event>
</trace><trace><string key="concept:name" value="2"/>
<event><string key="concept:name" value="door"/><boolean key="accepted" value="false"/></event></trace></log>
"""


def written(folder, name, content):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "outcome"), [("l.csv", CSV, None), ("l.jsonl", JSONL, None), ("l.xes", XES, "end=ok")]
)
def test_the_formats_of_logs_say_the_same(tmp_path, name, content, outcome):
    log = hk.read_log(written(tmp_path, name, content), outcome=outcome)
    assert log == hk.make_log([[("key", True), ("door", True, True)], [("door", False)]])


def test_a_log_without_a_column_accepted_needs_the_users_word(tmp_path):
    path = written(tmp_path, "l.csv", "episode,event,done\n1,key,0\n1,door,1\n")
    with pytest.raises(FormatError, match=r"l\.csv: has no column accepted: say what it shows, observed='reward'"):
        hk.read_log(path)
    with pytest.raises(FormatError, match="so it does not show all attempts"):
        hk.read_log(path, observed="all")
    assert hk.read_log(path, observed="reward").observed == "reward"
    assert hk.read_log(path, observed="effective").observed == "effective"


def test_effective_events_of_a_log_with_refusals_are_those_that_were_accepted(tmp_path):
    log = hk.read_log(written(tmp_path, "l.csv", CSV), observed="effective")
    assert log.attempts == 2 and all(row.accepted for episode in log.episodes for row in episode.attempts)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: needs a column episode"),
        ("episode,event\n", "has no column accepted"),
        ("episode,event,accepted\n", "has no events"),
        ("episode,event,accepted,done\n1,a,2,0\n", "line 2, column accepted: must be 0 or 1, got '2'"),
        ("episode,event,accepted,done\n1,a,1,x\n", "line 2, column done: must be 0 or 1, got 'x'"),
        ("episode,event,accepted,done\n1,a,1,1\n1,a,1,0\n", "line 3, column done: episode 1 goes on after it was done"),
        ("episode,event,accepted,done\n1,a,0,1\n", "line 2, column done: a refused event cannot complete the task"),
        ("episode,event,accepted,done\n1,,1,0\n", "line 2, column event: "),
        ("episode,event,accepted,done\n1,a,1\n", "line 2: has 3 fields where the header has 4"),
    ],
)
def test_errors_of_a_csv_file_name_file_line_and_column(tmp_path, content, message):
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        hk.read_log(written(tmp_path, "l.csv", content))
    assert "l.csv" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not one JSON object a line"),
        ("[]\n", "line 1: must be a JSON object"),
        ('{"episode": 1, "event": 2, "accepted": 1}\n', "line 1, column event: must be a text, got 2"),
        ('{"episode": 1, "event": "a", "accepted": 1}\n{"episode": 1, "event": "a"}\n', "line 2, column accepted"),
        ("", "has no events"),
    ],
)
def test_errors_of_a_json_lines_file_name_file_line_and_column(tmp_path, content, message):
    with pytest.raises(FormatError, match=re.escape(message)):
        hk.read_log(written(tmp_path, "l.jsonl", content))


@pytest.mark.parametrize(
    ("content", "outcome", "message"),
    [
        (XES, None, "say which attribute tells that the task is complete"),
        (XES, "reward", "has no attribute 'reward' on any trace or event"),
        ("<log><trace>", "end", "is no XES file"),
        ("<log><trace><event/></trace></log>", "end", "trace 1, event 1: needs the attribute concept:name"),
    ],
)
def test_errors_of_an_xes_file_say_what_is_missing(tmp_path, content, outcome, message):
    with pytest.raises(FormatError, match=re.escape(message)):
        hk.read_log(written(tmp_path, "l.xes", content), outcome=outcome)


def test_an_xes_file_with_entities_that_expand_is_refused(tmp_path):
    bomb = (
        '<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><log><trace><string key="end" value="&b;"/></trace></log>'
    )
    with pytest.raises(FormatError, match="must not declare entities"):
        hk.read_log(written(tmp_path, "l.xes", bomb), outcome="end")


def test_a_log_of_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"the format of a log is told by its suffix, got '\.txt'"):
        hk.read_log(written(tmp_path, "l.txt", CSV))


def test_the_states_of_the_judge_are_those_of_the_team():
    team = composition(hk.load_task("warehouse"))
    assert len(reachable(team)) == len(team.machine().states)
