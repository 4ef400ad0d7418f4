// Drawing a machine: states placed by Graphviz or by the user, and transitions between them.

import { counted, draw, grouped, make } from "/dom.js";

const WIDEST_LINE = 20; // characters of a state's name in a line
const MOST_ROWS = 6; // lines of an edge's label
const PAD = 14;
const SCALE = 1.15; // pixels of a point
const LEAST = 0.65; // of that scale; wider drawings are scrolled
const NODE = [46, 36]; // default width and height of a state
const NEAR = 1.5; // points that do not count as a move
const MARGIN = 7; // of a box around its states
const TITLE = 15; // height of a box's title
const LETTER = 6.4; // about the width of its letters

export function lines(name) {
  const pieces = name.length <= WIDEST_LINE ? [name] : name.match(name.includes("|") ? /[^|]*\|+|[^|]+$/g : /[^ ,]*[ ,]+|[^ ,]+$/g) ?? [name];
  const rows = [""];
  for (const piece of pieces) {
    if (rows.at(-1) && (rows.at(-1) + piece).length > WIDEST_LINE) rows.push("");
    rows[rows.length - 1] += piece;
  }
  return rows.map((row) => (row.length > 28 ? `${row.slice(0, 27)}…` : row));
}

// Choose positions of states: known states stay, new ones keep their distance from a known neighbour.
export function settlePins(picture, pins) {
  const { states, layout, edges } = picture;
  const isNew = !states.some((state) => pins.has(state));
  states.forEach((state, index) => {
    if (isNew) pins.set(state, layout.nodes[index].slice(0, 2));
  });
  for (let round = 0; round < states.length; round += 1) {
    const index = states.findIndex((state) => !pins.has(state));
    if (index < 0) break;
    const links = edges.filter((edge) => edge.from === index || edge.to === index).map((edge) => (edge.from === index ? edge.to : edge.from));
    const anchor = links.find((other) => pins.has(states[other])) ?? states.findIndex((state) => pins.has(state));
    const [node, base] = [layout.nodes[index], layout.nodes[anchor]];
    const from = pins.get(states[anchor]);
    pins.set(states[index], freePosition([from[0] + node[0] - base[0], from[1] + node[1] - base[1]], pins));
  }
  for (const state of [...pins.keys()]) if (!states.includes(state)) pins.delete(state);
}

function freePosition([x, y], pins) {
  const isFree = (position) => [...pins.values()].every(([left, top]) => Math.abs(left - position[0]) > 55 || Math.abs(top - position[1]) > 42);
  for (let step = 0; step < 40; step += 1) {
    const position = [x, y + (step % 2 ? -1 : 1) * Math.ceil(step / 2) * 26];
    if (isFree(position)) return position;
  }
  return [x, y];
}

export function drawMachine(picture, { styles, label, pins = null }) {
  const { states, layout } = picture;
  const positions = states.map((state, index) => pins?.get(state) ?? layout.nodes[index].slice(0, 2));
  const isLaidOut = positions.every(([x, y], index) => Math.hypot(x - layout.nodes[index][0], y - layout.nodes[index][1]) < NEAR);
  const sizes = layout.nodes.map(([, , wide, high]) => [wide || NODE[0], high || NODE[1]]);
  const svg = draw("svg", { class: "machine", role: "img", "aria-label": label });
  const routes = picture.edges.map((edge, index) => (isLaidOut ? layout.routes[index] : keptRoute(picture, edge, positions, pins) ?? route(edge, positions, sizes, picture.edges)));
  if (pins) keepRoutes(picture, positions, routes, pins);
  const edges = picture.edges.map((edge, index) => drawEdge(edge, routes[index], styles));
  const nodes = states.map((state, index) => drawState(picture, index, positions[index], sizes[index]));
  const frames = framesOf(picture, positions, sizes);
  const boxes = frames.map(drawBox);
  svg.append(...boxes, ...edges, drawInitial(positions[picture.initial], sizes[picture.initial]), ...nodes);
  const around = box(positions, sizes, routes, frames);
  const [left, top, right, bottom] = around;
  const [width, height] = [right - left, bottom - top];
  svg.setAttribute("viewBox", `${left.toFixed(1)} ${top.toFixed(1)} ${width.toFixed(1)} ${height.toFixed(1)}`);
  for (const [name, length] of [["width", width * SCALE], ["height", height * SCALE]]) {
    svg.setAttribute(name, Math.ceil(length));
    svg.style.setProperty(`--least-${name}`, `${Math.ceil(length * LEAST)}px`);
  }
  return { svg, nodes, edges, boxes, positions, sizes };
}

// The frames of boxes around states, the outer boxes first, wherever the states are.
function framesOf({ boxes = [] }, positions, sizes) {
  const frames = [];
  for (const { name, label, states } of [...boxes].reverse()) {
    const inner = frames.filter((frame) => frame.name.startsWith(`${name} ›`));
    const xs = [...states.flatMap((at) => [positions[at][0] - sizes[at][0] / 2, positions[at][0] + sizes[at][0] / 2]), ...inner.flatMap(({ left, right }) => [left, right])];
    const ys = [...states.flatMap((at) => [positions[at][1] - sizes[at][1] / 2, positions[at][1] + sizes[at][1] / 2]), ...inner.flatMap(({ top, bottom }) => [top, bottom])];
    const [from, to] = [Math.min(...xs), Math.max(...xs)];
    const wide = Math.max(to - from, short(label).length * LETTER) / 2 + MARGIN;
    frames.unshift({ name, label, left: (from + to) / 2 - wide, right: (from + to) / 2 + wide, top: Math.min(...ys) - MARGIN - TITLE, bottom: Math.max(...ys) + MARGIN });
  }
  return frames;
}

function drawBox({ name, label, left, top, right, bottom }) {
  return draw("g", { class: "box", "data-box": name }, draw("title", {}, name),
    draw("rect", { x: left, y: top, width: right - left, height: bottom - top, rx: 6 }), draw("text", { x: (left + right) / 2, y: top + TITLE / 2 + 2 }, short(label)));
}

// Keep the routes of edges whose ends have not moved.
const edgeName = (picture, edge) => JSON.stringify([picture.states[edge.from], picture.states[edge.to]]);

function keepRoutes(picture, positions, routes, pins) {
  pins.routes = new Map(picture.edges.map((edge, index) => [edgeName(picture, edge), { ends: [positions[edge.from], positions[edge.to]], route: routes[index] }]));
}

function keptRoute(picture, edge, positions, pins) {
  const kept = pins?.routes?.get(edgeName(picture, edge));
  const isThere = ([x, y], [u, v]) => Math.hypot(x - u, y - v) < NEAR;
  return kept && isThere(kept.ends[0], positions[edge.from]) && isThere(kept.ends[1], positions[edge.to]) ? kept.route : null;
}

function box(positions, sizes, routes, frames) {
  const xs = positions.flatMap(([x], index) => [x - sizes[index][0] / 2, x + sizes[index][0] / 2]);
  const ys = positions.flatMap(([, y], index) => [y - sizes[index][1] / 2, y + sizes[index][1] / 2]);
  for (const { curve, label } of routes) {
    xs.push(...curve.map(([x]) => x), label[0] - 20, label[0] + 20);
    ys.push(...curve.map(([, y]) => y), label[1] - 10, label[1] + 10);
  }
  for (const { left, top, right, bottom } of frames) {
    xs.push(left, right);
    ys.push(top, bottom);
  }
  return [Math.min(...xs) - PAD - 14, Math.min(...ys) - PAD, Math.max(...xs) + PAD, Math.max(...ys) + PAD];
}

function drawState(picture, index, [x, y], [wide, high]) {
  const name = picture.states[index];
  const isFinal = picture.final.includes(index);
  const members = picture.members[name];
  const rows = lines(picture.labels?.[index] ?? name);
  const isBox = picture.closed_boxes?.includes(index);
  const outline = (kind, inside) => (isBox
    ? draw("rect", { class: kind, x: x - wide / 2 + inside, y: y - high / 2 + inside, width: wide - 2 * inside, height: high - 2 * inside, rx: 6 })
    : draw("ellipse", { class: kind, cx: x, cy: y, rx: wide / 2 - inside, ry: high / 2 - inside }));
  const group = draw("g", { class: `node${isFinal ? " final" : ""}${isBox ? " closed" : ""}`, "data-state": index, "data-name": name },
    draw("title", {}, members ? `${name} = {${members.join(", ")}}` : name), outline("outline", 0));
  if (isFinal) group.append(outline("inner", 4));
  rows.forEach((row, at) => group.append(draw("text", { x, y: (y + (at - (rows.length - 1) / 2) * 13).toFixed(1) }, row)));
  return group;
}

function drawInitial([x, y], [wide]) {
  const tip = x - wide / 2;
  return draw("g", { class: "edge initial" },
    draw("path", { d: `M${tip - 22} ${y}H${tip - 7}` }), draw("polygon", { points: `${tip - 8},${y - 3} ${tip},${y} ${tip - 8},${y + 3}` }));
}

function drawEdge(edge, { curve, tip, label }, styles) {
  const style = edge.events.length === 1 ? styles.get(edge.events[0]) : null;
  const kind = style ? `event-${style.color} ${style.line}` : "plain";
  const group = draw("g", { class: `edge ${kind}`, "data-edge": `${edge.from}-${edge.to}` },
    draw("title", {}, edge.events.join(", ")));
  const [first, ...rest] = curve;
  const d = `M${first.join(" ")}C${rest.map((point) => point.join(" ")).join(" ")}`;
  const from = curve.at(-1);
  const angle = Math.atan2(tip[1] - from[1], tip[0] - from[0]);
  const corner = (side) => [tip[0] - 8 * Math.cos(angle) + side * 3 * Math.sin(angle), tip[1] - 8 * Math.sin(angle) - side * 3 * Math.cos(angle)];
  group.append(draw("path", { class: "hit", d }), draw("path", { d }),
    draw("polygon", { points: [corner(1), tip, corner(-1)].map((point) => point.map((value) => value.toFixed(1)).join(",")).join(" ") }));
  const perRow = Math.ceil(edge.events.length / MOST_ROWS);
  const rows = [];
  for (let at = 0; at < edge.events.length; at += perRow) rows.push(edge.events.slice(at, at + perRow));
  rows.forEach((row, index) => {
    const y = label[1] + (index - (rows.length - 1) / 2) * 13;
    group.append(draw("text", { x: label[0], y: y.toFixed(1) }, row.flatMap((event, at) => [at ? ", " : "", draw("tspan", { class: `event-${styles.get(event)?.color ?? 0}` }, short(event))])));
  });
  return group;
}

const short = (text) => (text.length > 24 ? `${text.slice(0, 23)}…` : text);

// The route of an edge between states that the user has moved: straight if no state is in between, else around it.
function route({ from, to }, positions, sizes, edges) {
  const [x, y] = positions[from];
  if (from === to) {
    const [rx, ry] = [sizes[from][0] / 2, sizes[from][1] / 2];
    const curve = [[x - rx * 0.5, y - ry * 0.86], [x - rx * 1.3, y - ry - 34], [x + rx * 1.3, y - ry - 34], [x + rx * 0.62, y - ry * 0.95 - 4]];
    return { curve, tip: [x + rx * 0.5, y - ry * 0.86], label: [x, y - ry - 34] };
  }
  const [u, v] = positions[to];
  const length = Math.hypot(u - x, v - y) || 1;
  const across = [-(v - y) / length, (u - x) / length];
  const hasReverse = edges.some((edge) => edge.from === to && edge.to === from);
  const bends = hasReverse ? [22, 44, 70, 100] : [0, -34, 34, -64, 64, -96, 96];
  const isFree = (bend) => positions.every(([left, top], index) => {
    if (index === from || index === to) return true;
    return [0.25, 0.5, 0.75].every((share) => {
      const side = 4 * share * (1 - share) * bend;
      const at = [x + (u - x) * share + across[0] * side, y + (v - y) * share + across[1] * side];
      return Math.abs(at[0] - left) > sizes[index][0] / 2 + 4 || Math.abs(at[1] - top) > sizes[index][1] / 2 + 4;
    });
  });
  const bend = bends.find(isFree) ?? bends[0];
  const control = (share) => [x + (u - x) * share + across[0] * bend * 1.33, y + (v - y) * share + across[1] * bend * 1.33];
  const [one, other] = [control(0.25), control(0.75)];
  const start = rim(positions[from], sizes[from], one, 0);
  const tip = rim(positions[to], sizes[to], other, 0);
  const end = rim(positions[to], sizes[to], other, 8);
  const middle = [x + (u - x) * 0.5 + across[0] * (bend + (bend < 0 ? -9 : 9)), y + (v - y) * 0.5 + across[1] * (bend + (bend < 0 ? -9 : 9))];
  return { curve: [start, one, other, end], tip, label: middle };
}

// The point on the outline of a state towards another point, or slightly outside.
function rim([x, y], [wide, high], towards, outside) {
  const angle = Math.atan2((towards[1] - y) / high, (towards[0] - x) / wide);
  return [x + (wide / 2 + outside) * Math.cos(angle), y + (high / 2 + outside) * Math.sin(angle)];
}

// A bar chart for a machine that is too large to be drawn: the number of states at each distance from the initial state.
export function drawSummary(summary) {
  if (summary.parts) return make("p", { class: "soft" }, `A composition of ${summary.parts} parts, with up to ${summary.most_states} states; it is never enumerated.`);
  const most = Math.max(...summary.layers);
  const words = `${counted(summary.states, "state")}, ${counted(summary.transitions, "transition")}, ${grouped(summary.final)} final. Bars: states by their distance from the initial one, in events; the highest is ${counted(most, "state")} (square-root scale).`;
  const wide = Math.max(6, Math.min(26, 620 / summary.layers.length));
  const svg = draw("svg", { class: "layers", viewBox: `0 0 ${wide * summary.layers.length} 96`, role: "img", "aria-label": words });
  summary.layers.forEach((count, distance) => {
    const high = Math.max(2, 70 * Math.sqrt(count / most));
    svg.append(draw("rect", { class: summary.final_layers[distance] ? "bar-final" : "bar-state", x: distance * wide + 1, y: 76 - high, width: wide - 2, height: high, rx: 1.5 }, draw("title", {}, `distance ${distance}: ${count} states`)));
    if (distance % Math.ceil(summary.layers.length / 12) === 0) svg.append(draw("text", { x: (distance + 0.5) * wide, y: 91 }, distance));
  });
  return make("div", {}, make("p", { class: "soft" }, words), svg);
}
