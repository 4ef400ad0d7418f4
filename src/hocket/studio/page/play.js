// A game: the user controls agents by keys; the others act at random, by optimal policies, or as trained.

import { ask } from "/api.js";
import { choice, counted, disc, drawAgent, find, isCalm, make, toast } from "/dom.js";
import { drawMap, moveAgent, placeAgents, radiusOf } from "/ground.js";
import { drawMachine } from "/machine.js";
import { store, watch } from "/store.js";
import { trainingId } from "/train.js";

const KEYS = {
  ArrowUp: "up", w: "up", k: "up", ArrowRight: "right", d: "right", l: "right",
  ArrowDown: "down", s: "down", j: "down", ArrowLeft: "left", a: "left", h: "left", " ": "stay", ".": "stay",
};
const PAD = [["up", "▲"], ["left", "◀"], ["stay", "•"], ["right", "▶"], ["down", "▼"]];
const DELAY = 180; // milliseconds between steps when the team runs

const game = { mates: {}, moves: [], seed: 0, turn: {}, moment: null, world: null, run: null };
let parts = null;

watch((what) => {
  if (what === "understood" && !find("play").hidden) show();
});

export function show(isMeant = false) {
  const { world, error } = store;
  const root = find("play");
  if (!world?.map || error) {
    root.replaceChildren(make("p", { class: "soft" }, error ? "Fix the errors in the text first." : "Only a task can be played: this text is a machine without a map."));
    return;
  }
  if (game.world !== world) {
    game.world = world;
    const names = world.agents.map((agent) => agent.name);
    game.mates = Object.fromEntries(names.map((name, index) => [name, game.mates[name] ?? (index ? "optimal" : "me")]));
    restart();
  }
  lay(world);
  if (isMeant) parts.map.focus({ preventScroll: true }); // keys move at once
  if (!game.moment) parts.status.textContent = "Loading the teammates …";
  fetchMoment();
}

const drivers = () => game.world.agents.filter((agent) => game.mates[agent.name] === "me").map((agent) => agent.name);
const request = () => ({ text: game.world.text, name: store.file.name, mates: game.mates, moves: game.moves, seed: game.seed, training: Object.values(game.mates).includes("trained") ? trainingId() : null });

function restart() {
  Object.assign(game, { moves: [], turn: {}, moment: null, run: null });
}

// The parts of the page, once for each world.
function lay(world) {
  const map = make("div", { class: "board", tabindex: "0", role: "application", "aria-label": "The game. Arrow keys move the agent whose turn it is, space stays, backspace goes one step back.", onkeydown: onKey });
  const agents = world.agents.map((agent) => drawAgent(agent, radiusOf(world.map)));
  const svg = drawMap(world);
  map.append(svg);
  const log = make("ol", { class: "log", "aria-label": "Events" });
  const status = make("p", { class: "status", "aria-live": "polite" });
  const run = make("button", { type: "button", id: "run", onclick: toggle }, "Run");
  const again = (by) => () => {
    restart();
    game.seed += by;
    show();
    parts.map.focus();
  };
  const kinds = [["me", "me"], ["random", "random"], ["optimal", "optimal"], ["trained", "trained"]];
  const crew = world.agents.map((agent) => {
    const state = make("span", { class: "state" });
    const row = make("li", { "data-agent": agent.name }, disc(agent), make("b", {}, agent.name),
      choice("", kinds, game.mates[agent.name], (kind) => {
        game.mates[agent.name] = kind;
        again(0)();
      }, { "aria-label": `Who plays ${agent.name}`, "data-key": `mate ${agent.name}` }), state);
    return { row, state, agent };
  });
  const machines = world.agents.map((agent) => figure(world, agent));
  parts = { map, svg, agents, log, status, run, crew, machines };
  find("play").replaceChildren(make("div", { class: "game" },
    make("div", {}, map, status,
      make("div", { class: "controls" }, run, make("button", { type: "button", onclick: stepBack }, "Back"),
        make("button", { type: "button", onclick: again(0) }, "Restart"), make("button", { type: "button", onclick: again(1) }, "Next seed"), make("span", { class: "soft" }, `seed ${game.seed}`)),
      make("div", { class: "pad", role: "group", "aria-label": "Moves" }, PAD.map(([action, sign]) => make("button", { type: "button", class: `pad-${action}`, "aria-label": action, onclick: () => drivers().length && act(action) }, sign))),
      make("p", { class: "soft keys" }, make("kbd", {}, "arrows"), ", ", make("kbd", {}, "wasd"), " or ", make("kbd", {}, "hjkl"), " move, ", make("kbd", {}, "space"), " stays, ", make("kbd", {}, "backspace"), " goes one step back. Every agent played by “me” moves in each step.")),
    make("div", {}, make("ul", { class: "mates" }, crew.map(({ row }) => row)), make("div", { class: "watched" }, machines.map(({ root }) => root)), make("h2", {}, "Events"), log)));
}

function figure(world, agent) {
  const picture = world.machines.agents[agent.name];
  const root = make("figure", { class: "card machine-figure", "data-agent": agent.name });
  root.style.setProperty("--agent", agent.color);
  if (!picture.layout) return { root: "", nodes: [], picture };
  root.append(make("figcaption", {}, disc(agent), make("b", {}, agent.name)));
  const { svg, nodes } = drawMachine(picture, { styles: new Map(world.events.map((event) => [event.name, event])), label: `Local reward machine of ${agent.name}` });
  root.append(make("div", { class: "drawing" }, svg));
  return { root, nodes, picture };
}

// Playing.

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Backspace") stepBack();
  else if (KEYS[event.key] && drivers().length) act(KEYS[event.key]);
  else if (event.key === "Enter") toggle();
  else return;
  event.preventDefault();
}

function act(action) {
  if (!game.moment || game.moment.outcome) return;
  const waiting = drivers().filter((name) => !(name in game.turn));
  game.turn[waiting[0]] = action;
  if (waiting.length > 1) showTurn();
  else advance();
}

let pending = Promise.resolve();
let last = 0; // counts requests: only the answer to the last one is shown

function fetchMoment() {
  last += 1;
  const number = last;
  pending = ask("play", request()).then((moment) => {
    if (number === last) showMoment(moment);
  }).catch(() => toast("The studio does not answer. The game continues when it is back."));
  return pending;
}

function advance() {
  game.moves = [...game.moves, game.turn];
  game.turn = {};
  return fetchMoment();
}

function stepBack() {
  game.run = null;
  if (!game.moves.length) return;
  game.moves = game.moves.slice(0, -1);
  game.turn = {};
  fetchMoment();
}

// Run the team until it is paused or the game ends.
async function toggle() {
  const run = game.run ? null : {};
  game.run = run;
  parts.run.textContent = run ? "Pause" : "Run";
  if (!run) return;
  await pending;
  while (game.run === run && game.moment && !game.moment.outcome && !find("play").hidden) {
    await advance();
    await new Promise((done) => setTimeout(done, DELAY));
  }
  if (game.run === run) game.run = null;
  if (!game.run) parts.run.textContent = "Run";
}

// Showing.

function showMoment(moment) {
  if (moment.refused) {
    toast(moment.refused);
    parts.status.textContent = moment.refused;
    game.run = null;
    return;
  }
  const { world } = game;
  game.moment = moment;
  if (moment.outcome) game.moves = game.moves.slice(0, moment.time); // moves after the end do not count
  parts.svg.querySelector(".starts").replaceChildren(...parts.agents);
  for (const area of parts.svg.querySelectorAll("[data-area]")) area.classList.toggle("open", !moment.closed.includes(Number(area.dataset.area)));
  const positions = placeAgents(world, moment.cells);
  const latest = moment.events.filter(([step]) => step === moment.time).map(([, event]) => event);
  world.agents.forEach((agent, index) => {
    moveAgent(parts.agents[index], positions[index]);
    const isInvolved = latest.some((event) => agent.knows.includes(event));
    parts.agents[index].classList.toggle("flash", isInvolved);
    const { state, row } = parts.crew[index];
    const [event, ...others] = moment.waiting[agent.name] ?? [];
    state.textContent = moment.finished[agent.name] ? `${moment.states[agent.name]}, done` : event ? `${moment.states[agent.name]}; ${event} waits for ${others.join(", ")}` : moment.states[agent.name];
    row.classList.toggle("done", moment.finished[agent.name]);
    const { nodes, picture, root } = parts.machines[index];
    nodes.forEach((node) => node.classList.toggle("lit", picture.states[Number(node.dataset.state)] === moment.states[agent.name]));
    if (root) root.classList.toggle("flash", isInvolved);
  });
  parts.log.replaceChildren(...moment.events.toReversed().slice(0, 60).map(([step, event]) => make("li", {}, make("time", {}, step), make("b", { class: `event-${world.events.find(({ name }) => name === event)?.color ?? 0}` }, event))));
  parts.map.classList.toggle("calm", isCalm());
  find("play").dataset.time = moment.time;
  showTurn();
}

function showTurn() {
  const { moment, world } = game;
  const who = drivers().find((name) => !(name in game.turn));
  const ends = {
    completed: `Completed in ${counted(moment.time, "step")}.`,
    disagreed: "All local reward machines are final, but the team machine is not.",
    "ran out": `Not completed within ${counted(moment.time, "step")}.`,
  };
  const turn = who ? `${who} moves.` : "Press Run to watch.";
  parts.status.textContent = `step ${moment.time}: ${ends[moment.outcome] ?? `the team is in ${moment.team}. ${turn}`}${moment.sound ? "" : " The task is not sound: local and team machines may disagree."}`;
  parts.status.classList.toggle("won", moment.outcome === "completed");
  world.agents.forEach((agent, index) => parts.crew[index].row.classList.toggle("turn", agent.name === who && !moment.outcome));
}
