// The picture of the map, drawn by the server as in reports, with agents and painted cells on it.

import { aroundPoint } from "/dom.js";

const SIDE = 400; // of a map, in units of the picture

export const unitOf = (map) => SIDE / Math.max(map.rows, map.columns);
export const radiusOf = (map) => Math.max(0.34 * unitOf(map), SIDE / 80); // of an agent, as in draw/map_svg.py

// The map with its agents where they start. The server has escaped every name in it.
export function drawMap(world, label = "") {
  const svg = document.importNode(new DOMParser().parseFromString(world.map.svg, "text/html").querySelector("svg"), true);
  if (label) svg.setAttribute("aria-label", label);
  return svg;
}

// Where agents stand: in the middle of a cell, or around it if there are several.
export function placeAgents(world, cells) {
  const [unit, radius] = [unitOf(world.map), radiusOf(world.map)];
  return cells.map((cell, agent) => {
    const group = [...cells.keys()].filter((other) => cells[other] === cell);
    const { x, y, size } = aroundPoint(group.indexOf(agent), group.length);
    const [row, column] = [Math.floor(cell / world.map.columns), cell % world.map.columns];
    return { x: (column + 0.5) * unit + x * radius, y: (row + 0.5) * unit + y * radius, size };
  });
}

export function moveAgent(element, { x, y, size }) {
  element.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${size.toFixed(3)})`);
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

export function cellPath(cells, map) {
  const unit = unitOf(map);
  return cells.map((cell) => `M${(cell % map.columns) * unit} ${Math.floor(cell / map.columns) * unit}h${unit}v${unit}h${-unit}z`).join("");
}
