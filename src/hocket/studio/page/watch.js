// A team that runs as processes: cells, machine states and events from its logs, updated every second.

import { ask } from "/api.js";
import { choice, counted, disc, drawAgent, find, isCalm, make } from "/dom.js";
import { drawMap, moveAgent, placeAgents, radiusOf } from "/ground.js";

const EVERY = 1000; // milliseconds between updates
const LATEST = ""; // stands for the latest run

let chosen = LATEST;
let world = null; // map, agents and key of the run that is shown
let laid = ""; // the content of the page
let parts = null;
let round = null; // of updates; a new one ends the one before

export async function show() {
  const mine = {};
  round = mine;
  while (round === mine && !find("watch").hidden) {
    if (!document.hidden) {
      const answer = await ask("runs", { run: chosen, known: world?.key ?? null }).catch(() => null);
      if (round === mine && answer) showAnswer(answer);
    }
    await new Promise((done) => setTimeout(done, EVERY));
  }
}

function showAnswer({ runs = [], name = "", run = null, refused = null }) {
  if (run?.world) world = { key: run.key, ...run.world };
  const made = JSON.stringify([runs, chosen, refused, run && run.key]);
  if (made !== laid) lay(runs, refused, Boolean(run));
  laid = made;
  if (run) showMoment(name, run);
}

// The parts of the page, once for each run and list of runs.
function lay(runs, refused, isRun) {
  const start = make("code", {}, "hocket run TASK --policies FOLDER --out runs/live");
  const options = [[LATEST, "the latest"], ...runs.map((name) => [name, name])];
  const select = choice("run", options, chosen, (name) => {
    chosen = name;
    show();
  }, { id: "watched-run" });
  const status = make("p", { class: "status", "aria-live": "polite" }, refused ?? "");
  parts = { status };
  const head = runs.length ? make("div", { class: "tools" }, select) : make("p", { class: "soft" }, "No team has run in this folder yet. Start one there with ", start, ".");
  find("watch").replaceChildren(head, isRun ? board() : status);
}

function board() {
  const map = make("div", { class: "board" });
  const svg = drawMap(world, `Where the agents of ${world.name} are`);
  const agents = world.agents.map((agent) => drawAgent(agent, radiusOf(world.map)));
  svg.querySelector(".starts").replaceChildren(...agents);
  map.append(svg);
  const crew = world.agents.map((agent) => {
    const state = make("span", { class: "state" });
    return { state, row: make("li", { "data-agent": agent.name }, disc(agent), make("b", {}, agent.name), state) };
  });
  const log = make("ol", { class: "log", "aria-label": "Events" });
  Object.assign(parts, { map, svg, agents, crew, log });
  return make("div", { class: "game" }, make("div", {}, map, parts.status),
    make("div", {}, make("ul", { class: "mates" }, crew.map(({ row }) => row)), make("h2", {}, "Events"), log));
}

function showMoment(name, run) {
  for (const area of parts.svg.querySelectorAll("[data-area]")) area.classList.toggle("open", !run.closed.includes(Number(area.dataset.area)));
  placeAgents(world, run.cells).forEach((position, index) => moveAgent(parts.agents[index], position));
  run.agents.forEach((agent, index) => {
    const { state, row } = parts.crew[index];
    const killed = agent.kills ? [`came back after ${counted(agent.kills, "kill")}`] : [];
    state.textContent = [agent.state, agent.now, counted(agent.steps, "step"), counted(agent.events, "event"), ...killed].join(" · ");
    row.classList.toggle("done", agent.final);
    row.dataset.now = agent.now;
  });
  parts.log.replaceChildren(...run.events.toReversed().map(([seconds, event, who]) => make("li", { title: `decided by ${who}` }, make("time", {}, `${seconds.toFixed(1)} s`), make("b", { class: `event-${world.events[event] ?? 0}` }, event))));
  parts.map.classList.toggle("calm", isCalm());
  const alive = `runs; the last entry of its logs is ${Math.round(run.quiet)} s old`;
  const how = run.complete ? "the task is complete" : run.alive ? alive : run.seconds ? "stopped, and the task is not complete" : "not started yet";
  const words = `${name}: ${how}. ${counted(run.happened, "event")} in ${run.seconds.toFixed(1)} s.`;
  if (parts.status.textContent !== words) parts.status.textContent = words;
  parts.status.classList.toggle("won", run.complete);
}
