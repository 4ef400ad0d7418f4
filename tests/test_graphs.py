"""The integer graph algorithms: both ways of doing each agree, and match their definitions."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket import graphs
from strategies import quick

HUGE = 10**9
LONG = 20_000

# (SMALL, NARROW) that send all work one way: plain Python, whole levels or rounds in numpy, or a change in between.
WAYS = {"plain": (HUGE, 32), "numpy": (0, 0), "rounds": (0, HUGE), "mixed": (0, 32)}


@contextmanager
def forced(way: str):
    """Set the thresholds so that one implementation does the work."""
    with pytest.MonkeyPatch.context() as patch:
        small, narrow = WAYS[way]
        patch.setattr(graphs, "SMALL", small)
        patch.setattr(graphs, "NARROW", narrow)
        yield


def make(nodes: int, edges: list[tuple[int, int, int]]) -> graphs.Graph:
    """Build a graph from (source, label, target)."""
    source, label, target = np.array(edges, np.int32).reshape(-1, 3).T
    return graphs.make_graph(nodes, source, label, target)[0]


def chain(length: int) -> graphs.Graph:
    """Build a path 0 -> 1 -> ... with one label."""
    return make(length, [(node, 0, node + 1) for node in range(length - 1)])


def parallel_chains(length: int) -> graphs.Graph:
    """Build two paths of even and odd nodes whose first nodes a last label joins: hiding it merges rung by rung."""
    edges = [(node, node // 2 % 3, node + 2) for node in range(2 * length - 2)]
    return make(2 * length, [*edges, (0, 3, 1)])


def star(rays: int) -> graphs.Graph:
    """Build one node with an edge of its own label to each of many."""
    return make(rays + 1, [(0, ray, ray + 1) for ray in range(rays)])


def hide(graph: graphs.Graph, labels: set[int]) -> np.ndarray:
    """Flag the edges that have one of some labels."""
    return np.isin(graph.label, list(labels))


@st.composite
def random_graphs(draw: st.DrawFn, max_nodes: int = 12, max_labels: int = 4) -> graphs.Graph:
    """Draw a graph with at least one edge; its labels may be far apart."""
    nodes = draw(st.integers(1, max_nodes))
    ends = st.integers(0, nodes - 1)
    spacing = draw(st.sampled_from([1, 1, 400_000]))
    keys = st.tuples(ends, st.integers(0, max_labels - 1))
    moves = draw(st.dictionaries(keys, ends, min_size=1, max_size=nodes * max_labels))
    return make(nodes, [(source, label * spacing, target) for (source, label), target in moves.items()])


@st.composite
def partly_hidden(draw: st.DrawFn) -> tuple[graphs.Graph, set[int]]:
    """Draw a graph and some of its labels to hide."""
    graph = draw(random_graphs())
    return graph, draw(st.sets(st.sampled_from(sorted(set(graph.label.tolist())))))


def distances(graph: graphs.Graph, root: int) -> dict[int, int]:
    """Find how far each node is by relaxing all edges until nothing changes."""
    found = {root: 0}
    while True:
        longer = dict(found)
        for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
            if source in found:
                longer[target] = min(longer.get(target, HUGE), found[source] + 1)
        if longer == found:
            return found
        found = longer


def congruence_by_definition(graph: graphs.Graph, hidden: np.ndarray) -> list[int]:
    """Merge one pair at a time, as the definition says, and number classes by their first nodes."""
    classes = list(range(graph.nodes))
    edges = list(zip(*(part.tolist() for part in graph[1:]), hidden.tolist(), strict=True))

    def clash() -> tuple[int, int] | None:
        led: dict[tuple[int, int], int] = {}
        for source, label, target, is_hidden in edges:
            first = classes[source] if is_hidden else led.setdefault((classes[source], label), classes[target])
            if first != classes[target]:
                return first, classes[target]
        return None

    while (pair := clash()) is not None:
        classes = [pair[0] if found == pair[1] else found for found in classes]
    number: dict[int, int] = {}
    return [number.setdefault(found, len(number)) for found in classes]


# Breadth-first search.


@pytest.mark.parametrize("way", ["numpy", "mixed", "rounds"])
@quick
@given(graph=random_graphs(), data=st.data())
def test_breadth_first_finds_the_same_tree_whichever_way(way, graph, data):
    root = data.draw(st.integers(0, graph.nodes - 1))
    with forced("plain"):
        plain = graphs.breadth_first(graph, root)
    with forced(way):
        other = graphs.breadth_first(graph, root)
    assert plain.order.tolist() == other.order.tolist()
    assert plain.via.tolist() == other.via.tolist()


@pytest.mark.parametrize("way", ["plain", "numpy"])
@quick
@given(graph=random_graphs(), data=st.data())
def test_breadth_first_reaches_every_node_over_a_shortest_way(way, graph, data):
    root = data.draw(st.integers(0, graph.nodes - 1))
    with forced(way):
        reach = graphs.breadth_first(graph, root)
    away = distances(graph, root)
    assert set(reach.order.tolist()) == set(away)
    assert [away[node] for node in reach.order.tolist()] == sorted(away.values())
    moves = {(s, e): t for s, e, t in zip(*(part.tolist() for part in graph[1:]), strict=True)}
    for node, distance in away.items():
        labels = graphs.labels_to(graph, reach, node)
        assert len(labels) == distance
        end = root
        for label in labels:
            end = moves[end, label]
        assert end == node


@pytest.mark.parametrize(
    "graph", [chain(LONG), star(LONG), parallel_chains(LONG)], ids=["chain", "star", "parallel chains"]
)
@pytest.mark.parametrize("root", [0, 5])
def test_breadth_first_agrees_on_long_and_on_wide_graphs(graph, root):
    trees = []
    for way in ("plain", "numpy", "mixed"):
        with forced(way):
            trees.append(graphs.breadth_first(graph, root))
    for tree in trees[1:]:
        assert np.array_equal(tree.order, trees[0].order)
        assert np.array_equal(tree.via, trees[0].via)


def test_breadth_first_walks_a_chain_from_end_to_end():
    for way in WAYS:
        with forced(way):
            reach = graphs.breadth_first(chain(300), 0)
        assert reach.order.tolist() == list(range(300))
        assert reach.via.tolist() == list(range(-1, 299))


# The smallest congruence.


@pytest.mark.parametrize("way", WAYS)
@quick
@given(case=partly_hidden())
def test_congruence_is_what_its_definition_says_whichever_way(way, case):
    graph, labels = case
    hidden = hide(graph, labels)
    with forced(way):
        classes = graphs.congruence(graph, hidden).classes
    assert classes.tolist() == congruence_by_definition(graph, hidden)


@pytest.mark.parametrize("way", WAYS)
def test_congruence_merges_two_parallel_chains_rung_by_rung(way):
    length = LONG if way != "rounds" else 1_000  # each round merges one rung
    graph = parallel_chains(length)
    with forced(way):
        classes = graphs.congruence(graph, hide(graph, {3})).classes
    assert np.array_equal(classes, np.repeat(np.arange(length), 2))


@pytest.mark.parametrize("way", WAYS)
def test_congruence_of_a_chain_with_everything_hidden_is_one_class(way):
    graph = chain(LONG)
    with forced(way):
        assert not graphs.congruence(graph, hide(graph, {0})).classes.any()


@pytest.mark.parametrize("way", WAYS)
def test_congruence_of_a_chain_with_nothing_hidden_merges_nothing(way):
    graph = chain(LONG)
    with forced(way):
        assert np.array_equal(graphs.congruence(graph, hide(graph, set())).classes, np.arange(LONG))


@pytest.mark.parametrize("way", WAYS)
def test_congruence_of_a_star_merges_the_middle_with_the_hidden_rays(way):
    graph = star(LONG)
    with forced(way):
        classes = graphs.congruence(graph, graph.label % 2 == 0).classes
    assert not classes[1::2].any() and classes[0] == 0
    assert np.array_equal(classes[2::2], np.arange(1, LONG // 2 + 1))


@pytest.mark.parametrize("way", WAYS)
def test_congruence_carries_a_merge_from_the_middle_of_a_star_to_all_of_its_ends(way):
    edges = [(hub, ray, 2 + 2 * ray + hub) for ray in range(2_000) for hub in (0, 1)]
    graph = make(4_002, [*edges, (0, 2_000, 1)])
    with forced(way):
        classes = graphs.congruence(graph, hide(graph, {2_000})).classes
    assert np.array_equal(classes, np.repeat(np.arange(2_001), 2))


@pytest.mark.parametrize("way", WAYS)
def test_congruence_folds_a_chain_onto_a_cycle(way):
    # Hiding the one edge from node 7 back to node 0 makes every seventh node of the chain the same.
    graph = make(3_001, [(node, 0, node + 1) for node in range(3_000)] + [(7, 1, 0)])
    with forced(way):
        classes = graphs.congruence(graph, hide(graph, {1})).classes
    assert np.array_equal(classes, np.arange(3_001) % 7)


@given(st.lists(st.integers(0, 9)), st.sampled_from([10, 10**7]))
def test_a_place_of_each_key_is_chosen_however_many_keys_there_may_be(keys, most):
    chosen, keeper = graphs.one_per_key(np.array(keys, np.int64), most)
    assert [keys[place] for place in chosen] == sorted({*keys})
    assert [keys[place] for place in keeper] == keys and {*keeper} == {*chosen}


# Reasons for merges.


@pytest.mark.parametrize("way", WAYS)
@quick
@given(case=partly_hidden())
def test_there_are_as_many_merges_as_classes_are_fewer_than_nodes(way, case):
    graph, labels = case
    with forced(way):
        merged = graphs.congruence(graph, hide(graph, labels))
    assert merged.merges.shape == (2, graph.nodes - len(set(merged.classes.tolist())))


@pytest.mark.parametrize("way", WAYS)
@quick
@given(case=partly_hidden())
def test_hiding_only_the_reasons_still_merges_the_two_nodes(way, case):
    graph, labels = case
    with forced(way):
        merged = graphs.congruence(graph, hide(graph, labels))
    for left in range(graph.nodes):
        for right in range(left + 1, graph.nodes):
            if merged.classes[left] == merged.classes[right]:
                reasons = set(graphs.hidden_reasons(graph, merged.merges, left, right))
                assert reasons and reasons <= labels
                alone = congruence_by_definition(graph, hide(graph, reasons))
                assert alone[left] == alone[right]


@pytest.mark.parametrize("way", WAYS)
def test_the_reason_for_the_last_rung_of_parallel_chains_is_the_first(way):
    graph = parallel_chains(2_000)
    with forced(way):
        merged = graphs.congruence(graph, hide(graph, {3}))
    assert graphs.hidden_reasons(graph, merged.merges, 3_998, 3_999) == [3]


def test_reasons_leave_out_what_is_hidden_elsewhere():
    graph = make(4, [(0, 0, 1), (2, 1, 3)])
    merged = graphs.congruence(graph, hide(graph, {0, 1}))
    assert graphs.hidden_reasons(graph, merged.merges, 0, 1) == [0]
    assert graphs.hidden_reasons(graph, merged.merges, 2, 3) == [1]


@quick
@given(partly_hidden(), st.data())
def test_a_hidden_path_is_a_shortest_way_along_hidden_edges(case, data):
    graph, labels = case
    start = data.draw(st.integers(0, graph.nodes - 1))
    goals = np.zeros(graph.nodes, np.bool_)
    goals[list(data.draw(st.sets(st.integers(0, graph.nodes - 1))))] = True
    hidden = np.zeros(int(graph.label.max()) + 1, np.bool_)
    hidden[list(labels)] = True
    found = graphs.hidden_path(graph, hidden, start, goals)

    moves = [(s, e, t) for s, e, t in zip(*(part.tolist() for part in graph[1:]), strict=True) if e in labels]
    both_ways = moves + [(t, e, s) for s, e, t in moves]
    away = {start: 0}
    for _ in range(graph.nodes):
        for source, _, target in both_ways:
            if source in away:
                away[target] = min(away.get(target, HUGE), away[source] + 1)
    near = [away[node] for node in np.flatnonzero(goals).tolist() if node in away]
    if not near:
        assert found is None
        return
    goal, path = found
    assert goals[goal] and len(path) == away[goal] == min(near)
    ends = {start}
    for label in path:
        ends = {target for source, edge, target in both_ways if source in ends and edge == label}
    assert goal in ends


# Small parts.


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6))))
def test_ranges_are_the_concatenation_of_each(pairs):
    starts = np.array([start for start, _ in pairs], np.int32)
    stops = np.array([start + length for start, length in pairs], np.int32)
    expected = [value for start, length in pairs for value in range(start, start + length)]
    assert graphs.ranges(starts, stops).tolist() == expected


@quick
@given(random_graphs())
def test_a_graph_is_sorted_by_source_and_label_and_indexed_by_source(graph):
    keys = list(zip(graph.source.tolist(), graph.label.tolist(), strict=True))
    assert keys == sorted(keys)
    for node in range(graph.nodes):
        row = graph.source[graph.first[node] : graph.first[node + 1]].tolist()
        assert row == [node] * graph.source.tolist().count(node)


def test_the_permutation_of_a_new_graph_sorts_what_belongs_to_its_edges():
    source, label, target = (np.array(part, np.int32) for part in ([1, 0, 1], [1, 0, 0], [0, 1, 1]))
    graph, order = graphs.make_graph(2, source, label, target)
    assert np.array(["b", "a", "c"])[order].tolist() == ["a", "c", "b"]
    assert graph.target.tolist() == [1, 1, 0]
