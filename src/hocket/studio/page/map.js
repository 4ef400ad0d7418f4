// Designing the map: brushes for walls, floor, places, starts and gates, by pointer or by keys.

import { choice, clamp, draw, field, find, hold, letGo, make, redraw, segments } from "/dom.js";
import { cellAt, cellPath, drawMap, moveAgent, placeAgents } from "/ground.js";
import { gesture, store } from "/store.js";

const BRUSHES = [["wall", "Wall"], ["floor", "Floor"], ["place", "Place"], ["start", "Start"], ["gate", "Gate"]];
const CORNERS = ["lower right", "upper left", "upper right", "lower left"];
const NEVER = ""; // stands for no event
const brush = { kind: "wall", place: "", agent: "", open: NEVER, close: NEVER, corner: CORNERS[0] };
let cursor = 0; // the cell that keys act on
let painted = null; // the cells of a stroke

let shown = ""; // the content of the picture

export function showMap(world, isRefused = false) {
  const root = find("map");
  root.hidden = !world.map;
  if (!world.map) return;
  settleBrush(world);
  const content = JSON.stringify([world.name, world.map, world.agents.map((agent) => agent.name), world.events.map((event) => event.name), brush.kind]);
  if (content === shown && !isRefused) return; // most edits do not change the map
  shown = content;
  moment = null;
  const svg = drawMap(world, `The map of ${world.name}, ${world.map.rows} rows and ${world.map.columns} columns. Arrow keys move, space paints.`);
  svg.append(draw("path", { class: "stroke" }), draw("path", { class: "cursor", d: cellPath([cursor], world.map) }));
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("role", "application");
  svg.dataset.key = "map";
  listen(svg, world);
  const where = make("p", { class: "where soft", "aria-live": "polite" }, "");
  redraw(root, make("div", { class: "head" }, make("h2", {}, "Map"), size(world)), tools(world), svg, where, legend(world));
}

let moment = null; // the step of an episode that is shown instead of the starts

// Show agents and closed areas at a step of an episode; without a step, show the starts.
export function showOnMap(world, step) {
  const svg = find("map").querySelector(".map");
  if (!svg || step === moment) return;
  moment = step;
  if (!step) {
    showMap(world, true);
    return;
  }
  const agents = svg.querySelectorAll(".starts .agent");
  placeAgents(world, step.cells).forEach((position, index) => moveAgent(agents[index], position));
  for (const area of svg.querySelectorAll("[data-area]")) area.classList.toggle("open", !step.closed.includes(Number(area.dataset.area)));
}

// Replace values of the brush that no longer exist.
function settleBrush(world) {
  const { map, agents, events } = world;
  cursor = Math.min(cursor, map.rows * map.columns - 1);
  if (!agents.some((agent) => agent.name === brush.agent)) brush.agent = agents[0].name;
  const isThere = (name) => events.some((event) => event.name === name);
  for (const key of ["open", "close"]) if (brush[key] !== NEVER && !isThere(brush[key])) brush[key] = NEVER;
  brush.place ||= Object.keys(map.places)[0] ?? "place";
  if (brush.open === NEVER && brush.close === NEVER) takeGate(world) || (brush.open = events[0]?.name ?? NEVER);
}

// Give the brush the events of an existing gate.
function takeGate(world) {
  const gate = world.map.areas.flatMap((area) => area.gates).find((each) => each.place === brush.place && each.agent === brush.agent);
  if (gate) [brush.open, brush.close] = [gate.open, gate.close];
  return gate;
}

function tools(world) {
  const refresh = () => showMap(store.world);
  const pick = segments("Brush", BRUSHES, brush.kind, (kind) => {
    brush.kind = kind;
    refresh();
  });
  for (const button of pick.querySelectorAll("button")) button.dataset.key = `brush ${button.dataset.value}`;
  return make("div", { class: "tools" }, pick, ...options(world));
}

const set = (key) => (value) => {
  brush[key] = value;
};

function options(world) {
  const place = () => {
    const list = make("datalist", { id: "places" }, Object.keys(world.map.places).map((name) => make("option", { value: name })));
    const input = make("input", { type: "text", value: brush.place, list: "places", "data-key": "brush place name", size: 12, oninput: () => change("place")(input.value) });
    return [make("label", { class: "choice" }, make("span", {}, "name"), input), list];
  };
  const change = (key) => (value) => {
    brush[key] = value;
    if (brush.kind === "gate" && takeGate(store.world)) for (const [key, select] of Object.entries(events)) select.querySelector("select").value = brush[key];
  };
  const event = (label, key) => choice(label, [[NEVER, "never"], ...world.events.map(({ name }) => [name, name])], brush[key], set(key), { "data-key": `brush ${key}` });
  const events = { open: event("opens on", "open"), close: event("closes on", "close") };
  const agent = () => choice("agent", world.agents.map(({ name }) => [name, name]), brush.agent, change("agent"), { "data-key": "brush agent" });
  const byKind = { place: () => place(), start: () => [agent()], gate: () => [...place(), agent(), events.open, events.close] };
  return byKind[brush.kind]?.() ?? [];
}

function size({ map }) {
  const apply = () => gesture({ kind: "resize", rows: Number(rows.value), columns: Number(columns.value), corner: brush.corner });
  const count = (label, value) => field({ type: "number", min: 1, max: 32000, value, "aria-label": label, "data-key": label }, apply);
  const rows = count("Rows", map.rows);
  const columns = count("Columns", map.columns);
  const corner = choice("at", CORNERS.map((corner) => [corner, corner]), brush.corner, set("corner"), { "aria-label": "Corner at which the map grows or shrinks", "data-key": "corner" });
  return make("span", { class: "size" }, rows, make("span", { "aria-hidden": "true" }, "×"), columns, corner);
}

// Painting.

function listen(svg, world) {
  const { map } = world;
  const stroke = svg.querySelector(".stroke");
  const show = () => stroke.setAttribute("d", painted ? cellPath([...painted], map) : "");
  const take = (event) => {
    const cell = cellAt(svg, map, event);
    if (cell === null) return;
    moveCursor(svg, world, cell);
    if (brush.kind === "start") painted.clear();
    painted.add(cell);
    show();
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    hold();
    painted = new Set();
    svg.setPointerCapture(event.pointerId);
    take(event);
  });
  svg.addEventListener("pointermove", (event) => {
    if (painted) take(event);
  });
  const finish = (isMeant) => {
    const cells = painted;
    painted = null;
    show();
    if (isMeant && cells?.size) paint([...cells], map);
    letGo();
  };
  svg.addEventListener("pointerup", () => finish(true));
  svg.addEventListener("pointercancel", () => finish(false));
  svg.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (steps[event.key]) {
      const [down, right] = steps[event.key];
      const row = Math.min(Math.max(Math.floor(cursor / map.columns) + down, 0), map.rows - 1);
      const column = Math.min(Math.max((cursor % map.columns) + right, 0), map.columns - 1);
      moveCursor(svg, world, row * map.columns + column);
    } else if (event.key === " " || event.key === "Enter") paint([cursor], map);
    else return;
    event.preventDefault();
  });
}

function moveCursor(svg, world, cell) {
  const { map } = world;
  cursor = cell;
  svg.querySelector(".cursor").setAttribute("d", cellPath([cell], map));
  const [row, column] = [Math.floor(cell / map.columns), cell % map.columns];
  const names = Object.entries(map.places).flatMap(([name, cells]) => (cells.includes(cell) ? [name] : []));
  const what = map.walls.includes(cell) ? ["wall"] : names.length ? names : ["floor"];
  const who = world.agents.filter((agent) => agent.start === cell).map((agent) => `start of ${agent.name}`);
  find("map").querySelector(".where").textContent = `row ${row}, column ${column}: ${[...what, ...who].join(", ")}`;
}

function paint(cells, map) {
  const pairs = cells.map((cell) => [Math.floor(cell / map.columns), cell % map.columns]);
  const byKind = {
    wall: { kind: "paint", brush: "wall", cells: pairs },
    floor: { kind: "paint", brush: "floor", cells: pairs },
    place: { kind: "paint", brush: "place", place: brush.place, cells: pairs },
    start: { kind: "start", agent: brush.agent, cells: pairs.slice(-1) },
    gate: { kind: "gate", place: brush.place, agent: brush.agent, open: brush.open, close: brush.close, cells: pairs },
  };
  gesture(byKind[brush.kind]);
}

// The name of a place, as a field.
function placeName(name) {
  return field({ class: "editable-name", value: name, title: name, size: clamp(name.length, 4, 18), "aria-label": `Name of the place ${name}`, "data-key": `place ${name}` }, async (value) => {
    const next = value.trim();
    const isDone = await gesture({ kind: "rename place", place: name, name: next });
    if (isDone && brush.place === name) brush.place = next;
    return isDone;
  });
}

function legend(world) {
  const items = world.map.areas.filter((area) => area.names.length).toReversed().map((area) => make("li", {},
    make("button", {
      type: "button", class: "swatch", color: area.color, "data-key": `area ${area.names[0]}`, title: `Paint ${area.names[0]}`,
      onclick: () => {
        [brush.kind, brush.place] = ["place", area.names[0]];
        showMap(store.world, true);
      },
    }, area.tag || "·"),
    make("span", {}, area.names.map((name) => placeName(name)), area.gates.map((gate) => make("small", {},
      `closed to ${gate.agent} ${gate.when} `,
      make("button", {
        type: "button", class: "link", "aria-label": `Remove the gate of ${gate.place} for ${gate.agent}`, "data-key": `gate ${gate.place} ${gate.agent}`,
        onclick: () => gesture({ kind: "gate", place: gate.place, agent: gate.agent }),
      }, "remove"))))));
  return make("ul", { class: "legend" }, items);
}
