// The map as a picture: floor, areas, gates, walls and agents. Used to design, to play and in the gallery.

import { draw } from "/dom.js";

const SIDE = 400; // of a map, in units of the picture
const MOST_LINES = 60; // cells in a row up to which lines between them are drawn
const WIDEST = 1.55; // radii of an agent: the circle on which many agents in one cell stand

export const unitOf = (map) => SIDE / Math.max(map.rows, map.columns);

// One path around many cells, row by row.
function runs(cells, columns, unit) {
  const sorted = [...cells].sort((one, other) => one - other);
  const parts = [];
  for (let index = 0; index < sorted.length;) {
    let end = index;
    while (sorted[end + 1] === sorted[end] + 1 && sorted[end + 1] % columns) end += 1;
    const [row, column] = [Math.floor(sorted[index] / columns), sorted[index] % columns];
    const wide = (end - index + 1) * unit;
    parts.push(`M${(column * unit).toFixed(2)} ${(row * unit).toFixed(2)}h${wide.toFixed(2)}v${unit.toFixed(2)}h${(-wide).toFixed(2)}z`);
    index = end + 1;
  }
  return parts.join("");
}

// The middle of the largest run of an area, where its tag is written.
function middle(cells, columns, unit) {
  const own = new Set(cells);
  let best = [cells[0], 0];
  for (const cell of cells) {
    let wide = 1;
    while ((cell + wide) % columns && own.has(cell + wide)) wide += 1;
    let high = 1;
    while (own.has(cell + high * columns) && own.has(cell + high * columns + wide - 1)) high += 1;
    if (wide * high > best[1]) best = [cell, wide * high, wide, high];
  }
  const [cell, , wide, high] = best;
  return [(cell % columns + wide / 2) * unit, (Math.floor(cell / columns) + high / 2) * unit];
}

export function drawMap(world, { label = "", closed = null, areas = true } = {}) {
  const { map } = world;
  const unit = unitOf(map);
  const [width, height] = [map.columns * unit, map.rows * unit];
  const svg = draw("svg", { class: "map", viewBox: `-2 -2 ${width + 4} ${height + 4}`, role: "img", "aria-label": label || `The map of ${world.name}` });
  svg.append(draw("rect", { class: "floor", width, height }));
  const occupied = new Set(world.agents.map((agent) => agent.start));
  const seen = new Map(); // the area that is seen in a cell: of several the last, which is the smallest
  for (const area of map.areas) for (const cell of area.cells) seen.set(cell, area);
  for (const area of areas ? map.areas : []) {
    const path = runs(area.cells, map.columns, unit);
    const group = draw("g", {}, draw("title", {}, area.names.join(", ")), draw("path", { class: "area", own: area.color, d: path }));
    if (area.gates.length && (!closed || area.names.some((name) => closed.has(name)))) group.append(draw("path", { class: "closed", d: path }));
    svg.append(group);
  }
  if (Math.max(map.rows, map.columns) <= MOST_LINES) {
    const down = Array.from({ length: map.columns - 1 }, (_, index) => `M${((index + 1) * unit).toFixed(2)} 0V${height}`);
    const across = Array.from({ length: map.rows - 1 }, (_, index) => `M0 ${((index + 1) * unit).toFixed(2)}H${width}`);
    svg.append(draw("path", { class: "lines", d: [...down, ...across].join("") }));
  }
  svg.append(draw("path", { class: "wall", d: runs(map.walls, map.columns, unit) }));
  for (const area of map.areas.filter((own) => own.tag)) {
    const visible = area.cells.filter((cell) => seen.get(cell) === area);
    const free = visible.filter((cell) => !occupied.has(cell));
    if (!visible.length) continue;
    const [x, y] = middle(free.length ? free : visible, map.columns, unit);
    const size = Math.max(Math.min(unit > 8 ? unit : SIDE / 16, SIDE / 14) * 0.42, 5);
    svg.append(draw("text", { class: "tag", x: x.toFixed(1), y: y.toFixed(1), "font-size": size.toFixed(1) }, area.tag));
  }
  svg.append(draw("rect", { class: "border", width, height }));
  return svg;
}

// Agents in one cell stand around its middle, the more the smaller.
export function placeAgents(world, cells) {
  const unit = unitOf(world.map);
  const together = new Map();
  world.agents.forEach((agent, index) => together.set(cells[index], [...(together.get(cells[index]) ?? []), index]));
  const spots = [];
  for (const [cell, group] of together) {
    const count = group.length;
    const x = (cell % world.map.columns + 0.5) * unit;
    const y = (Math.floor(cell / world.map.columns) + 0.5) * unit;
    const touching = Math.sin(Math.PI / count) / 1.06;
    const wanted = count === 1 ? 1 : Math.min(Math.max(0.7 - 0.05 * count, 0.44), 0.6);
    const reach = count === 1 ? 0 : Math.min(wanted / touching, WIDEST) * 0.34 * unit;
    const size = count === 1 ? 1 : Math.max(Math.min(wanted, (reach / (0.34 * unit)) * touching), 0.24);
    group.forEach((agent, index) => {
      const angle = (2 * Math.PI * index) / count - Math.PI * (count === 2 ? 1 : 0.5);
      spots[agent] = { x: x + reach * Math.cos(angle), y: y + reach * Math.sin(angle), size };
    });
  }
  return spots;
}

export function drawAgent(agent, unit) {
  const radius = 0.34 * unit;
  return draw("g", { class: "agent", own: agent.color },
    draw("title", {}, agent.name),
    draw("circle", { class: "halo", r: radius + 3.2 }), draw("circle", { class: "ring", r: radius + 3.2 }),
    draw("circle", { class: "body", r: radius }),
    draw("text", { "font-size": (radius * (agent.number.length < 3 ? 1.15 : 0.8)).toFixed(1) }, agent.number));
}

export function moveAgent(element, { x, y, size }) {
  element.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${size.toFixed(3)})`);
}

export function drawStarts(world) {
  const unit = unitOf(world.map);
  const spots = placeAgents(world, world.agents.map((agent) => agent.start));
  return draw("g", { class: "starts" }, world.agents.map((agent, index) => {
    const element = drawAgent(agent, unit);
    moveAgent(element, spots[index]);
    return element;
  }));
}

// The cell under the pointer, or null.
export function cellAt(svg, map, event) {
  const box = svg.getBoundingClientRect();
  const unit = unitOf(map);
  const scale = (map.columns * unit + 4) / box.width;
  const column = Math.floor(((event.clientX - box.left) * scale - 2) / unit);
  const row = Math.floor(((event.clientY - box.top) * scale - 2) / unit);
  return row >= 0 && row < map.rows && column >= 0 && column < map.columns ? row * map.columns + column : null;
}

export const cellPath = (cells, map) => runs(cells, map.columns, unitOf(map));
