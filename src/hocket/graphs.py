"""Graphs as integer arrays: shortest paths, and the smallest congruence that hides some edges.

A graph here has nodes 0..n-1 and edges in three parallel arrays `source`, `label`, `target`, sorted by source, with
at most one edge per (source, label). Both algorithms exist twice: whole levels at a time in numpy for large graphs,
one edge at a time in plain Python for small or narrow ones, where numpy's fixed cost per operation would dominate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Numbers = NDArray[np.integer]
Flags = NDArray[np.bool_]
Node = TypeVar("Node", bound=Hashable)
Label = TypeVar("Label")

SMALL = 2_000  # edges; below this, plain Python is faster than numpy
NARROW = 32  # nodes per level (or merges per round) below which whole-level steps do not pay


class Graph(NamedTuple):
    """Edges sorted by (source, label); those of node `s` are `first[s]:first[s + 1]`."""

    first: Ints  # [nodes + 1]
    source: Ints  # [edges]
    label: Ints  # [edges]
    target: Ints  # [edges]

    @property
    def nodes(self) -> int:
        return len(self.first) - 1

    @property
    def is_sink(self) -> Flags:
        """Flags of the nodes without outgoing edges."""
        return np.asarray(np.diff(self.first) == 0)

    def edges(self) -> Iterator[tuple[int, int, int]]:
        """Go through the edges: source, label, target."""
        return zip(self.source.tolist(), self.label.tolist(), self.target.tolist(), strict=True)


class Reach(NamedTuple):
    """A breadth-first tree; among shortest paths, the one that comes first in edge order."""

    order: Ints  # [reached] nodes by distance from the root
    via: Ints  # [nodes] the edge by which a node was first reached; -1 for the root and where there is none


def flags_at(positions: Numbers | Sequence[int] | int, count: int) -> Flags:
    """Flag some of `count` positions."""
    flags = np.zeros(count, np.bool_)
    flags[positions] = True
    return flags


def positions_in(order: Numbers, count: int) -> Ints:
    """Find the position of each number below `count` in a list without repetitions; -1 where it is not in the list.

    >>> positions_in(np.array([2, 0]), 4).tolist()
    [1, -1, 0, -1]
    """
    position = np.full(count, -1, np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    return position


def make_graph(nodes: int, source: Ints, label: Ints, target: Ints) -> tuple[Graph, NDArray[np.intp]]:
    """Sort edges into a graph; also return the permutation that did it."""
    in_order = (source[1:] > source[:-1]) | ((source[1:] == source[:-1]) & (label[1:] > label[:-1]))
    first = np.zeros(nodes + 1, np.int32)
    np.cumsum(np.bincount(source, minlength=nodes), out=first[1:])
    if in_order.all():
        return Graph(first, source.view(), label.view(), target.view()), np.arange(len(source))
    order = np.argsort(source * np.int64(label.max() + 1) + label, kind="stable")
    return Graph(first, source[order], label[order], target[order]), order


def breadth_first(graph: Graph, root: int) -> Reach:
    """Find every node reachable from `root` and a shortest path to each."""
    if len(graph.target) < SMALL:
        return _breadth_first_by_edge(graph, root)
    first, target = graph.first, graph.target
    via = np.full(graph.nodes, -1, np.int32)
    via[root] = 0  # any edge, so that it is not reached again
    levels, reached = [np.array([root], np.int32)], 1
    while True:
        if len(levels) > 64 and reached < NARROW * len(levels):
            return _breadth_first_by_edge(graph, root)
        edges = ranges(first[levels[-1]], first[levels[-1] + 1])
        edges = edges[via[target[edges]] < 0]
        if len(edges) == 0:
            via[root] = -1
            return Reach(np.concatenate(levels), via)
        ends = target[edges]
        via[ends[::-1]] = edges[::-1]  # the last assignment wins, so the first edge does
        levels.append(ends[via[ends] == edges])
        reached += len(levels[-1])


def _breadth_first_by_edge(graph: Graph, root: int) -> Reach:
    first, target = graph.first.tolist(), graph.target.tolist()
    via = [-1] * graph.nodes
    via[root] = 0  # any edge, so that it is not reached again
    order = [root]
    for node in order:  # grows during the loop: the queue is the result
        for edge in range(first[node], first[node + 1]):
            if via[end := target[edge]] < 0:
                via[end] = edge
                order.append(end)
    via[root] = -1
    return Reach(np.array(order, np.int32), np.array(via, np.int32))


def can_reach(graph: Graph, goals: Flags) -> Flags:
    """Flag the nodes from which a path leads to one of `goals`, in any number of steps or none."""
    ends = np.flatnonzero(goals).astype(np.int32)
    root = np.full(len(ends), graph.nodes, np.int32)  # one more node, before all goals
    source, target = np.concatenate((graph.target, root)), np.concatenate((graph.source, ends))
    backward, _ = make_graph(graph.nodes + 1, source, np.zeros(len(source), np.int32), target)
    return flags_at(breadth_first(backward, graph.nodes).order, graph.nodes + 1)[:-1]


def distances_from(roots: Iterable[Node], successors: Callable[[Node], Iterable[Node]]) -> dict[Node, int]:
    """Find the nodes that can be reached from `roots`, breadth first, and their distances."""
    distance = dict.fromkeys(roots, 0)
    queue = list(distance)
    for node in queue:  # grows while it is read
        for end in successors(node):
            if end not in distance:
                distance[end] = distance[node] + 1
                queue.append(end)
    return distance


def levels(nodes: int, roots: Numbers, successors: Callable[[Numbers], Numbers]) -> Iterator[Numbers]:
    """Search breadth first: list the nodes of each distance, each once, in the order of first appearance."""
    is_reached, position, level = np.zeros(nodes, np.bool_), np.empty(nodes, np.int32), roots
    while len(level):
        is_reached[level] = True
        yield level
        ends = successors(level).ravel()
        ends = ends[~is_reached[ends]]
        positions = np.arange(len(ends), dtype=np.int32)
        position[ends[::-1]] = positions[::-1]  # the last assignment wins: that of the first appearance
        level = ends[position[ends] == positions]


def flood(nodes: int, roots: Numbers, successors: Callable[[Numbers], Numbers]) -> Flags:
    """Flag which of the nodes 0..`nodes`-1 can be reached from `roots`.

    >>> flood(4, np.array([1]), lambda level: np.minimum(level + 1, 3)).tolist()
    [False, True, True, True]
    """
    is_reached = np.zeros(nodes, np.bool_)
    for level in levels(nodes, roots, successors):
        is_reached[level] = True
    return is_reached


def search_tree(
    root: Node, moves: Callable[[Node], Iterable[tuple[Label, Node]]], goal: Node | None = None
) -> dict[Node, tuple[Node, Label] | None]:
    """Search breadth first, up to a goal if there is one; map each node to the (node, move) that first reached it."""
    tree: dict[Node, tuple[Node, Label] | None] = {root: None}
    queue = [root]
    for node in queue:  # grows while it is read
        if goal in tree:
            break
        for label, end in moves(node):
            if end not in tree:
                tree[end] = node, label
                queue.append(end)
    return tree


def path_to(tree: Mapping[Node, tuple[Node, Label] | None], node: Node) -> list[Label]:
    """Read off the moves of a search tree from its root to a node."""
    labels = []
    while (step := tree[node]) is not None:
        node, label = step
        labels.append(label)
    return labels[::-1]


def components(links: Sequence[Sequence[int]]) -> list[int]:
    """Number the strongly connected components of a graph given by the successors of each node (Tarjan's algorithm)."""
    rank, low, component = ([-1] * len(links) for _ in range(3))  # rank: in the order of discovery
    ranks, count, path = 0, 0, []  # path: discovered, and in no component yet
    for root in range(len(links)):
        work = [(root, 0)] if rank[root] < 0 else []
        while work:
            node, position = work.pop()
            if position == 0:
                rank[node] = low[node] = ranks
                ranks += 1
                path.append(node)
            else:
                low[node] = min(low[node], low[links[node][position - 1]])
            while position < len(links[node]) and rank[links[node][position]] >= 0:
                if component[end := links[node][position]] < 0:
                    low[node] = min(low[node], rank[end])
                position += 1
            if position < len(links[node]):
                work += [(node, position + 1), (links[node][position], 0)]
            elif low[node] == rank[node]:
                while component[node] < 0:
                    component[path.pop()] = count
                count += 1
    return component


def labels_to(graph: Graph, reach: Reach, node: int) -> list[int]:
    """Read off the labels on the tree's path from the root to `node`."""
    labels: list[int] = []
    while (edge := int(reach.via[node])) >= 0:
        labels.append(int(graph.label[edge]))
        node = int(graph.source[edge])
    return labels[::-1]


def ranges(starts: Ints, stops: Ints) -> Ints:
    """Concatenate the ranges `starts[k]..stops[k]-1`."""
    lengths = stops - starts
    offsets = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return (offsets + np.arange(len(offsets))).astype(np.int32)


class Congruence(NamedTuple):
    """Classes of nodes, numbered in the order of their first nodes, and the merges that made them: a spanning forest.

    A merge is a pair of edges with one label and merged sources, whose targets it merged; or, where the second one is
    -1, a hidden edge that alone merged its two nodes.
    """

    classes: Ints  # [nodes]
    merges: Ints  # [2, merges] in the order in which they were made


def congruence(graph: Graph, hidden: Flags) -> Congruence:
    """Merge nodes joined by hidden edges, then targets of edges with equal labels from merged nodes, until the graph is
    deterministic. Near-linear: rounds over all edges while many are merged, then a work list of the rest."""
    edge = np.flatnonzero(hidden).astype(np.int32)
    if len(graph.target) < SMALL:
        source, label, target = (part.tolist() for part in graph[1:])
        return _close(graph.nodes, source, label, target, [(each, -1) for each in edge.tolist()])
    classes, count, made = _components(graph.nodes, graph.source[edge], graph.target[edge])
    merges = [np.stack((edge[made], np.full(len(made), -1, np.int32)))]
    edge = np.flatnonzero(~hidden).astype(np.int32)
    source, label, target = classes[graph.source[edge]], graph.label[edge], classes[graph.target[edge]]
    labels = int(graph.label.max()) + 1
    while True:
        # Invariant: (source, label, target) are the visible edges between the classes so far.
        chosen, keeper = one_per_key(source.astype(np.int64) * labels + label, count * labels)
        clash = target[keeper] != target
        if not clash.any():
            return Congruence(classes, np.concatenate(merges, axis=1))
        left, right = keeper[clash], np.flatnonzero(clash)
        if len(left) * NARROW < len(chosen):
            work = list(zip(left.tolist(), right.tolist(), strict=True))
            rest = _close(count, source.tolist(), label.tolist(), target.tolist(), work)
            return Congruence(rest.classes[classes], np.concatenate((*merges, edge[rest.merges]), axis=1))
        merged, count, made = _components(count, target[left], target[right])
        merges.append(np.stack((edge[left[made]], edge[right[made]])))
        kept = np.sort(chosen)
        edge, source, label, target = edge[kept], source[kept], label[kept], target[kept]
        classes, source, target = merged[classes], merged[source], merged[target]


def _components(nodes: int, left: Ints, right: Ints) -> tuple[Ints, int, NDArray[np.intp]]:
    """Number the connected components of an undirected graph in the order of their first nodes; also count them, and
    list the edges of a forest that spans them."""
    root, edge = np.arange(nodes, dtype=np.int32), np.arange(len(left))
    via = np.full(nodes, -1)  # the edge by which a root was attached to another root
    while True:
        left, right = root[left], root[right]
        unmerged = left != right
        if not unmerged.any():
            break
        left, right, edge = left[unmerged], right[unmerged], edge[unmerged]
        low, high = np.minimum(left, right), np.maximum(left, right)
        root[high] = low  # always downwards, so no cycle, whichever edge of a node is the last to be assigned
        is_assigned = root[high] == low
        via[high[is_assigned]] = edge[is_assigned]
        while not np.array_equal(higher := root[root], root):
            root = higher
    is_first = root == np.arange(nodes)
    number = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    return number[root], int(np.count_nonzero(is_first)), via[via >= 0]


def one_per_key(key: NDArray[np.int64], keys: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Choose one position for each key that occurs; return those, in the order of keys, and for every position the one
    chosen for its key. Takes linear time unless keys are large.

    >>> [part.tolist() for part in one_per_key(np.array([3, 1, 3, 0]), keys=5)]
    [[3, 1, 2], [2, 1, 2, 3]]
    """
    if keys > 4 * len(key) + 1_000_000:
        _, chosen, inverse = np.unique(key, return_index=True, return_inverse=True)
        return chosen, chosen[inverse]
    slot = np.full(keys, -1, np.intp)
    slot[key] = np.arange(len(key), dtype=np.intp)
    return slot[slot >= 0], slot[key]


def _close(
    nodes: int, source: list[int], label: list[int], target: list[int], merging: list[tuple[int, int]]
) -> Congruence:
    """Merge by a union-find with a work list, which begins with the given merges."""
    root = list(range(nodes))
    edges: list[dict[int, int]] = [{} for _ in range(nodes)]  # of each root: label -> a visible edge of its class
    hidden = {edge for edge, also in merging if also < 0}
    for edge, (start, name) in enumerate(zip(source, label, strict=True)):
        if edge not in hidden:
            edges[start][name] = edge
    merges: tuple[list[int], list[int]] = [], []
    work = deque(merging)  # first in, first out: proofs stay short
    while work:
        left, right = work.popleft()
        ends = (source[left], target[left]) if right < 0 else (target[left], target[right])
        a, b = find_root(root, ends[0]), find_root(root, ends[1])
        if a == b:
            continue
        merges[0].append(left)
        merges[1].append(right)
        if len(edges[a]) < len(edges[b]):
            a, b = b, a
        root[b] = a
        known = edges[a]
        for name, edge in edges[b].items():
            other = known.setdefault(name, edge)
            if other != edge:
                work.append((other, edge))
        edges[b] = {}
    number: dict[int, int] = {}
    classes = [number.setdefault(find_root(root, node), len(number)) for node in range(nodes)]
    return Congruence(np.array(classes, np.int32), np.array(merges, np.int32))


def find_root(root: list[int], node: int) -> int:
    """Find the root of a node in a union-find, halving the path to it."""
    while root[node] != node:
        root[node] = node = root[root[node]]
    return node


def hidden_path(graph: Graph, hidden: Flags, start: int, goals: Flags) -> tuple[int, list[int]] | None:
    """Find a goal that is nearest to a node along edges with hidden labels, in either direction, and a path to it."""
    usable = hidden[graph.label]
    source, label, target = graph.source[usable], graph.label[usable], graph.target[usable]
    ends, labels = np.concatenate(((source, target), (target, source)), axis=1), (label, label + len(hidden))
    undirected, _ = make_graph(graph.nodes, ends[0], np.concatenate(labels), ends[1])
    reach = breadth_first(undirected, start)
    reached_goals = reach.order[goals[reach.order]]
    if len(reached_goals) == 0:
        return None
    goal = int(reached_goals[0])
    return goal, [label % len(hidden) for label in labels_to(undirected, reach, goal)]


def hidden_reasons(graph: Graph, merges: Ints, one: int, other: int) -> list[int]:
    """List the labels of the hidden edges because of which a congruence merged two nodes."""
    left, right = merges
    ends = np.where(right < 0, graph.source[left], graph.target[left]), graph.target[np.where(right < 0, left, right)]
    links: dict[int, list[tuple[int, int]]] = {}
    for merge, (a, b) in enumerate(zip(*(nodes.tolist() for nodes in ends), strict=True)):
        links.setdefault(a, []).append((merge, b))
        links.setdefault(b, []).append((merge, a))
    reasons: dict[int, None] = {}
    used: set[int] = set()
    open_pairs = [(one, other)]
    while open_pairs:
        one, other = open_pairs.pop()
        for merge in path_to(search_tree(one, links.__getitem__, other), other):
            if merge in used:
                continue
            used.add(merge)
            edge, also = merges[:, merge]
            if also < 0:
                reasons[int(graph.label[edge])] = None
            else:
                open_pairs.append((int(graph.source[edge]), int(graph.source[also])))
    return list(reasons)
