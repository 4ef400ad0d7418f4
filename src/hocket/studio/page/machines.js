// The team machine, which can be edited in its drawing, and the agents' machines, which follow from it.

import { ask } from "/api.js";
import { clamp, disc, draw, field, find, hold, letGo, make, redraw, whenFree } from "/dom.js";
import { boxesButton, isClosed, makeToggles, viewOf } from "/boxes.js";
import { drawMachine, drawSummary, settlePins } from "/machine.js";
import { askCondition } from "/events.js";
import { gesture, keepPositions, setPositions, store } from "/store.js";

const placed = new Map(); // by part: the positions of states, and the value of the store that they were made from
const stops = new Map(); // by part: the key of the state or transition that Tab leads to
let selected = null; // { part, state } or { part, edge: [from, to] }
const drawn = new Map(); // by title: the latest picture, for counterexamples and games

let light = () => {}; // highlights the states of a counterexample in new pictures

export const pictureOf = (title) => drawn.get(title);
export const whenDrawn = (act) => { light = act; };
const stylesOf = (world) => new Map(world.events.map((event) => [event.name, event]));

let shownFile = null;

// The positions of the states of a part of the file.
function pinsOf(part) {
  const positions = store.file.positions[part];
  const known = placed.get(part);
  if (known && known.positions === positions) return known.pins;
  const pins = new Map(Object.entries(positions ?? {}));
  placed.set(part, { pins, positions });
  return pins;
}

// Keep the positions of new states, without a step in the history.
function keepPins(part) {
  const { pins } = placed.get(part);
  const positions = Object.fromEntries(pins);
  if (JSON.stringify(positions) !== JSON.stringify(store.file.positions[part])) keepPositions({ ...store.file.positions, [part]: positions });
  placed.set(part, { pins, positions: store.file.positions[part] });
}

export function showMachines(world) {
  drawMachines(world);
  const isLate = [world.machines.team, ...Object.values(world.machines.agents)].some((machine) => machine.later);
  if (isLate) fetchLate(world);
}

function drawMachines(world) {
  drawn.clear();
  if (store.file !== shownFile) selected = null; // of another file
  shownFile = store.file;
  showTeam(world, world.machines.team);
  showAgents(world, world.machines.agents);
  light(world);
}

// Fetch the layouts of large machines later, so that the verdict does not wait for them.
async function fetchLate(world) {
  const { text, file } = store;
  const answer = await ask("pictures", { text, name: file.name }).catch(() => null);
  if (!answer?.machines || store.world !== world || store.text !== text) return;
  world.machines = answer.machines;
  whenFree(() => drawMachines(world));
}

// The part of the text that a drawing edits; null if it cannot be edited.
function partOf(world, agent, picture) {
  if (world.written.team || isClosed(picture, agent ?? "team")) return null;
  if (agent === null) return world.written.machine === "transitions" ? "" : null;
  return world.written.machine === "parts" ? agent : null;
}

function showTeam(world, picture) {
  const part = partOf(world, null, picture);
  const { machine } = world.written;
  const origin = { parts: "composed of the agents’ parts", file: "in a separate file" }[machine];
  const head = make("div", { class: "head" }, make("h2", {}, "Team machine"), origin ? make("span", { class: "soft" }, origin) : null,
    part !== null && picture.layout ? make("button", { type: "button", class: "small", "data-key": "tidy", onclick: () => tidy("") }, "Tidy") : null,
    boxesButton(picture, "team", "the team machine", () => drawMachines(world)));
  redraw(find("team"), head, sentence(world), panel(world, picture, "team", "Team machine", part), part === null ? null : inspector(world, picture, part));
  drawn.set("team", { ...viewOf(picture, "team"), root: find("team") });
}

function tidy(part) {
  placed.delete(part);
  setPositions(part, undefined);
}

// The formula or expression of a machine, which can be edited here, too.
function sentence(world) {
  const { machine, sentence: text } = world.written;
  if (!text) return null;
  const input = field({
    value: text, class: "sentence", "data-key": "sentence", "aria-label": `The ${machine} that the machine is made from`, readonly: machine === "declare",
  }, (value) => gesture({ kind: "sentence", sentence: value }));
  return make("label", { class: "choice wide" }, make("span", {}, machine), input);
}

function panel(world, all, title, label, part) {
  const picture = isClosed(all, title) ? all.closed : all;
  if (picture.summary) {
    const summary = drawSummary(picture.summary);
    if (!picture.excerpt) return summary;
    const shown = drawMachine(picture.excerpt, { styles: stylesOf(world), label: "The states of the counterexample and their neighbours" });
    return make("div", {}, summary, make("p", { class: "soft" }, `The ${picture.excerpt.states.length} states of the counterexample and next to it:`), make("div", { class: "drawing", "data-title": title }, shown.svg));
  }
  if (!picture.layout) return make("p", { class: "soft" }, picture.states ? `Laying out ${picture.states.length} states …` : "Counting states …");
  const pins = part === null ? null : pinsOf(part);
  if (pins) {
    settlePins(picture, pins);
    keepPins(part);
  }
  const shown = drawMachine(picture, { styles: stylesOf(world), label, pins });
  if (part !== null) makeEditable(world, picture, shown, part);
  if (all.closed) makeToggles(shown, title, () => drawMachines(world));
  return make("div", { class: "drawing", "data-title": title }, shown.svg);
}

// The name of an agent, which can be edited unless it belongs to a team of identical agents.
function agentName(world, name) {
  if (world.written.team) return make("b", {}, name);
  return field({ class: "editable-name", value: name, title: name, size: clamp(name.length, 2, 18), "aria-label": `Name of the agent ${name}`, "data-key": `agent ${name}` },
    (value) => gesture({ kind: "rename agent", agent: name, name: value.trim() }));
}

function showAgents(world, machines) {
  const cards = world.agents.slice(0, 24).map((agent) => {
    const picture = machines[agent.name];
    const part = partOf(world, agent.name, picture);
    const card = make("figure", { class: "card machine-figure", "data-agent": agent.name },
      make("figcaption", {}, disc(agent), agentName(world, agent.name), make("span", { class: "soft" }, `knows ${agent.knows.join(", ") || "nothing"}`),
        boxesButton(picture, agent.name, agent.name, () => drawMachines(world)),
        world.written.team || world.agents.length < 2 ? null : make("button", { type: "button", class: "link remove", title: `Remove ${agent.name}`, "aria-label": `Remove the agent ${agent.name}`, "data-key": `remove agent ${agent.name}`, onclick: () => gesture({ kind: "remove agent", agent: agent.name }) }, "×")),
      panel(world, picture, agent.name, `Local reward machine of ${agent.name}`, part),
      part !== null && selected?.part === part ? inspector(world, picture, part) : null);
    card.style.setProperty("--agent", agent.color);
    drawn.set(agent.name, { ...viewOf(picture, agent.name), root: card });
    return card;
  });
  const more = world.agents.length - cards.length;
  redraw(find("agents"), cards, more > 0 ? make("p", { class: "soft" }, `… and ${more} more agents`) : null);
}

// Editing a drawing: drag a state by its middle to move it, by its handle to add a transition.

function makeEditable(world, picture, { svg, nodes, edges, positions, sizes }, part) {
  svg.classList.add("editable");
  svg.setAttribute("role", "group");
  nodes.forEach((node, index) => {
    const name = picture.states[index];
    node.setAttribute("role", "button");
    node.setAttribute("aria-label", `State ${name}${picture.final.includes(index) ? ", final" : ""}${picture.initial === index ? ", initial" : ""}`);
    node.dataset.key = `state ${part} ${name}`;
    node.classList.toggle("selected", selected?.part === part && selected.state === name);
    const [x, y] = positions[index];
    const handle = draw("circle", { class: "handle", cx: x + sizes[index][0] / 2, cy: y, r: 5 }, draw("title", {}, "Drag to another state, or to an empty spot for a new one"));
    node.append(handle);
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") choose(world, { part, state: name }, "name");
      else if (event.key === "Delete") gesture({ kind: "remove state", part, state: name });
      else if (!step(event.key, node)) return;
      event.preventDefault();
    });
    node.addEventListener("dblclick", () => choose(world, { part, state: name }, "name"));
    node.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      event.preventDefault();
      node.focus({ preventScroll: true });
      if (event.target === handle) dragTransition(world, picture, svg, part, index, nodes, positions, sizes);
      else dragState(world, picture, svg, part, name, event);
    });
  });
  edges.forEach((group, index) => {
    const edge = picture.edges[index];
    const ends = [picture.states[edge.from], picture.states[edge.to]];
    group.setAttribute("role", "button");
    group.setAttribute("aria-label", `Transition from ${ends[0]} to ${ends[1]} on ${edge.events.join(", ")}`);
    group.dataset.key = `edge ${part} ${ends.join(" ")}`;
    group.classList.toggle("selected", selected?.part === part && selected.edge?.join(" ") === ends.join(" "));
    group.addEventListener("click", () => choose(world, { part, edge: ends }));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") choose(world, { part, edge: ends }, "event");
      else if (event.key === "Delete") gesture({ kind: "cut", part, state: ends[0], event: edge.events[0] });
      else if (!step(event.key, group)) return;
      event.preventDefault();
    });
  });
  rove([...nodes, ...edges], part, nodes[picture.initial]);
}

// Tab focuses one state or transition of a machine, the last one that had the focus; arrow keys focus the others.
function rove(elements, part, first) {
  const stop = elements.find((element) => element.dataset.key === stops.get(part)) ?? first;
  for (const element of elements) {
    element.setAttribute("tabindex", element === stop ? 0 : -1);
    element.addEventListener("focus", () => {
      for (const other of elements) other.setAttribute("tabindex", other === element ? 0 : -1);
      stops.set(part, element.dataset.key);
    });
  }
}

// Move the focus to the nearest state or transition in a direction.
function step(key, from) {
  const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  if (!direction) return false;
  const middle = (element) => {
    const box = (element.matches(".edge") ? element.querySelector("text") ?? element : element).getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x, y] = middle(from);
  const far = (element) => {
    const [u, v] = middle(element);
    const along = (u - x) * direction[0] + (v - y) * direction[1];
    const aside = Math.abs((u - x) * direction[1]) + Math.abs((v - y) * direction[0]);
    return along > 1 && aside <= 3 * along ? along + 2 * aside : Infinity;
  };
  const next = [...from.parentElement.querySelectorAll("[role=button]")].filter((element) => element !== from).map((element) => [far(element), element]).sort((one, other) => one[0] - other[0])[0];
  if (next && next[0] < Infinity) next[1].focus();
  return true;
}

function choose(world, what, focus = null) {
  selected = what;
  showMachines(world);
  if (focus) document.querySelector(`.inspector [data-focus="${focus}"]`)?.focus();
}

function pointIn(svg, event) {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [point.x, point.y];
}

function follow(move, finish) {
  hold();
  const end = (last) => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
    removeEventListener("pointercancel", end);
    finish(last.type === "pointerup" ? last : null);
    letGo();
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
}

function dragState(world, picture, svg, part, name, event) {
  const begin = pointIn(svg, event);
  const pins = pinsOf(part);
  const from = pins.get(name);
  const before = svg.getScreenCTM().inverse();
  let [shown, isMoved] = [svg, false];
  follow((now) => {
    const at = new DOMPoint(now.clientX, now.clientY).matrixTransform(before);
    const by = [at.x - begin[0], at.y - begin[1]];
    isMoved ||= Math.hypot(...by) > 4;
    if (!isMoved) return;
    pins.set(name, [from[0] + by[0], from[1] + by[1]]);
    const next = drawMachine(picture, { styles: stylesOf(world), label: "", pins }).svg; // redraws its transitions, too
    for (const attribute of ["viewBox", "width", "height", "class"]) next.setAttribute(attribute, svg.getAttribute(attribute));
    next.style.cssText = svg.style.cssText;
    shown.replaceWith(next);
    shown = next;
  }, (last) => {
    if (last && !isMoved) choose(world, { part, state: name });
    else if (last) setPositions(part, Object.fromEntries(pins));
    else {
      pins.set(name, from);
      showMachines(world);
    }
  });
}

function dragTransition(world, picture, svg, part, index, nodes, positions, sizes) {
  const [x, y] = [positions[index][0] + sizes[index][0] / 2, positions[index][1]];
  const line = draw("path", { class: "thread" });
  svg.append(line);
  const under = ([left, top]) => positions.findIndex(([u, v], index) => Math.hypot((u - left) / sizes[index][0], (v - top) / sizes[index][1]) < 0.55);
  const light = (target) => nodes.forEach((node, number) => node.classList.toggle("target", number === target));
  follow((now) => {
    const at = pointIn(svg, now);
    line.setAttribute("d", `M${x} ${y}L${at.join(" ")}`);
    light(under(at));
  }, (last) => {
    line.remove();
    light(-1);
    if (!last) return;
    const at = pointIn(svg, last);
    const target = under(at);
    const name = target < 0 ? freshName(picture.states) : picture.states[target];
    if (target < 0 && Math.hypot(at[0] - x, at[1] - y) < 12) return;
    askEvent(world, part, picture.states[index], name, last, target < 0 ? at : null);
  });
}

// Add a transition, with the position of a new state; ask for the condition of a new event.
async function addTransition(world, what, position = null) {
  const isNew = world.map && !world.events.some((event) => event.name === what.event);
  if (position) pinsOf(what.part).set(what.target, position);
  const isDone = await gesture({ kind: "transition", ...what });
  if (position && !isDone) pinsOf(what.part).delete(what.target);
  if (isDone && isNew) askCondition(what.event);
  return isDone;
}

function freshName(states) {
  let number = states.length;
  while (states.includes(`u${number}`)) number += 1;
  return `u${number}`;
}

// Ask at the pointer for the event of a new transition.
function askEvent(world, part, state, target, at, position) {
  const list = make("datalist", { id: "event-names" }, world.events.map((event) => make("option", { value: event.name })));
  const input = make("input", { type: "text", list: "event-names", required: true, "aria-label": `Event of the transition from ${state} to ${target}`, placeholder: "event", size: 12 });
  const dialog = make("dialog", { class: "small-dialog", onclose: () => dialog.remove() },
    make("form", {
      method: "dialog",
      onsubmit: () => addTransition(world, { part, state, target, event: input.value.trim() }, position),
    }, make("span", {}, `${state} → ${target} on `), input, list, make("button", { class: "main" }, "Add")));
  document.body.append(dialog);
  dialog.showModal();
  dialog.style.setProperty("left", `${Math.min(at.clientX, innerWidth - dialog.offsetWidth - 8)}px`);
  dialog.style.setProperty("top", `${Math.min(at.clientY, innerHeight - dialog.offsetHeight - 8)}px`);
  input.focus();
}

// Fields and buttons for the selected state or transition.
function inspector(world, picture, part) {
  if (!picture.states) return null;
  if (selected?.part !== part) return part === "" ? hint() : null;
  if (selected.edge) return edgeInspector(picture, part, ...selected.edge);
  if (!picture.states.includes(selected.state)) return hint();
  return stateInspector(world, picture, part, selected.state);
}

const hint = () => make("p", { class: "soft hint" }, "Select a state or a transition to edit it. Drag from the right edge of a state to add a transition; drag its middle to move it.");

function stateInspector(world, picture, part, state) {
  const index = picture.states.indexOf(state);
  const name = field({ value: state, "aria-label": "Name of the state", "data-focus": "name", "data-key": "state name", size: 12 }, async (value) => {
    const next = value.trim();
    const position = pinsOf(part).get(state);
    if (position) pinsOf(part).set(next, position);
    const before = selected;
    if (before?.part === part && before.state === state) selected = { part, state: next };
    const isDone = await gesture({ kind: "rename state", part, state, name: next });
    if (!isDone && selected?.state === next) selected = before;
    return isDone;
  });
  const event = make("input", { type: "text", list: "all-events", "aria-label": "Event of a new transition", placeholder: "event", "data-key": `new event ${part} ${state}`, "data-focus": "new event", size: 9 });
  const target = make("input", { type: "text", list: "all-states", "aria-label": "State that it leads to", placeholder: "state", "data-key": `new target ${part} ${state}`, "data-focus": "new target", size: 9 });
  const add = async () => {
    const added = { event: event.value.trim(), target: target.value.trim() };
    if (!added.event || !added.target) return;
    for (const input of [event, target]) input.dataset.sent = input.value;
    if (!(await addTransition(world, { part, state, ...added }))) for (const input of [event, target]) delete input.dataset.sent;
  };
  return make("div", { class: "inspector", role: "group", "aria-label": `State ${state}` },
    make("label", { class: "choice" }, make("span", {}, "state"), name),
    make("label", { class: "choice" }, make("input", { type: "checkbox", checked: picture.final.includes(index), "data-key": "final", onchange: (change) => gesture({ kind: "final", part, state, final: change.target.checked }) }), make("span", {}, "final")),
    make("button", { type: "button", class: "small", disabled: picture.initial === index, "data-key": "initial", onclick: () => gesture({ kind: "initial", part, state }) }, "Make initial"),
    make("button", { type: "button", class: "small", "data-key": "remove state", onclick: () => gesture({ kind: "remove state", part, state }) }, "Remove"),
    make("form", { class: "choice", onsubmit: (submit) => { submit.preventDefault(); add(); } },
      make("span", {}, "transition on"), event, make("span", {}, "to"), target, make("button", { class: "small" }, "Add")),
    make("datalist", { id: "all-events" }, world.events.map((entry) => make("option", { value: entry.name }))),
    make("datalist", { id: "all-states" }, picture.states.map((name) => make("option", { value: name }))));
}

function edgeInspector(picture, part, from, to) {
  const edge = picture.edges.find((candidate) => picture.states[candidate.from] === from && picture.states[candidate.to] === to);
  if (!edge) return hint();
  return make("div", { class: "inspector", role: "group", "aria-label": `Transitions from ${from} to ${to}` },
    make("span", {}, `${from} → ${to}`),
    edge.events.map((event, index) => {
      const name = field({
        value: event, "aria-label": `Name of the event ${event}`, "data-key": `event ${event}`, "data-focus": index ? null : "event", size: 9,
      }, (value) => gesture({ kind: "rename event", event, name: value.trim() }));
      return make("span", { class: "choice" }, name,
        make("button", { type: "button", class: "small", "data-key": `cut ${event}`, "aria-label": `Remove the transition on ${event}`, onclick: () => gesture({ kind: "cut", part, state: from, event }) }, "Remove"));
    }));
}
