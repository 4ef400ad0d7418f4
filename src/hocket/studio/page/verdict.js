// The verdict, and if it is negative, the counterexample step by step and buttons for repairs.

import { ask } from "/api.js";
import { find, make, redraw } from "/dom.js";
import { pictureOf, whenDrawn } from "/machines.js";
import { showOnMap } from "/map.js";
import { gesture, isBehind, store } from "/store.js";

let at = 0; // the step of the counterexample, or of the episode that stalls
let shownExample = ""; // the key of the one that is shown
const SYMBOLS = { yes: "✓", no: "✗", unknown: "?", behind: "…", note: "–" };

const line = (kind, text, attributes = {}) => make("p", { class: `answer ${kind}`, ...attributes },
  make("span", { class: "symbol", "aria-hidden": "true" }, SYMBOLS[kind]), make("span", {}, text));

// Show the verdict on the current text, or that it is outdated.
export function showVerdict() {
  const { world, error, verdict } = store;
  const root = find("verdict");
  const kind = isBehind() ? "behind" : error ? "unknown" : !world.decomposable || (verdict && !verdict.ok) ? "no" : "yes";
  const isJudged = Boolean(verdict) && kind !== "behind" && kind !== "unknown";
  keepHeight(root, isJudged);
  root.dataset.kind = kind;
  root.dataset.judged = isJudged;
  if (kind === "behind") root.replaceChildren(line(kind, behind()));
  else if (kind === "unknown") root.replaceChildren(line(kind, error.isCutOff ? error.message : "The text has errors; the picture shows its last valid version."));
  else {
    const isSame = find("repairs")?.dataset.of === JSON.stringify([world.text, kind]); // they are shown or requested
    const repairs = isSame ? find("repairs") : make("div", { id: "repairs", class: "repairs", "data-of": JSON.stringify([world.text, kind]) });
    root.replaceChildren(make("div", {}, line(world.decomposable ? "yes" : "no", world.message), judged(world, verdict)), repairs);
    if (!isSame && kind === "no") showRepairs(world, repairs);
  }
  showStall(world, kind === "no" ? verdict?.stall : null);
}

// Keep the height until all answers are there, so that nothing below moves.
function keepHeight(root, isJudged) {
  if (isJudged) root.style.minHeight = "";
  else if (root.dataset.judged === "true") root.style.minHeight = `${root.offsetHeight}px`;
}

function behind() {
  if (!store.isAway) return "Checking …";
  const since = store.checkedAt?.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return since ? `Not checked since ${since}` : "Not checked";
}

// The slower checks, which follow after decomposability.
function judged(world, verdict) {
  if (!verdict) return world.decomposable ? line("behind", world.map ? "Playing the team …" : "Checking completion …") : null;
  if (verdict.refused) return line("unknown", verdict.refused);
  const { answers, problems, warnings, notes } = verdict;
  return [
    answers.filter((answer) => answer.required).map((answer) => line(answer.ok ? "yes" : "no", answer.message)),
    problems.map((problem) => make("p", { class: "problem-line" }, problem)),
    answers.filter((answer) => !answer.required).map((answer) => line(answer.ok ? "yes" : "note", answer.message)),
    warnings.map((warning) => make("p", { class: "warning-line" }, warning)),
    notes.length ? make("details", {}, make("summary", {}, notes.length === 1 ? "1 note" : `${notes.length} notes`), make("ul", {}, notes.map((note) => make("li", {}, note)))) : null,
  ].flat();
}

// Each cheapest repair is a button.
async function showRepairs(world, root) {
  const { text, file } = store;
  const waiting = setTimeout(() => root.replaceChildren(make("span", { class: "soft" }, "looking for repairs …")), 250);
  const answer = await ask("repairs", { text, name: file.name }).catch(() => null);
  clearTimeout(waiting);
  if (!answer || store.world !== world || store.text !== text) return;
  if (answer.refused) {
    root.replaceChildren(make("p", { class: "soft" }, answer.refused));
    return;
  }
  const words = (add) => Object.entries(add).map(([agent, events]) => `${events.join(", ")} to ${agent}`).join("; ");
  root.replaceChildren(...answer.repairs.map((repair) => make("button", {
    type: "button", class: "repair", title: repair.exact ? `Cost ${repair.cost}, proved minimal` : `Cost ${repair.cost}`,
    onclick: () => gesture({ kind: "repair", add: repair.add }),
  }, "Add ", make("b", {}, words(repair.add)))));
}

// The counterexample.

export function showCounterexample(world) {
  const root = find("counterexample");
  const example = world.counterexample;
  root.hidden = !example;
  light(world);
  if (!example) return;
  const last = example.trace.length + 1;
  const isNew = begin(JSON.stringify([example.trace, example.event, example.state]), last);
  const go = (step) => {
    at = Math.min(Math.max(step, 0), last);
    showCounterexample(world);
    reveal();
  };
  const chip = (label, step, kind) => make("button", { type: "button", class: `chip ${kind}`, "data-key": `step ${step}`, "aria-current": at === step ? "step" : null, onclick: () => go(step) }, label);
  const color = (event) => `event-${world.events.find((entry) => entry.name === event)?.color ?? 0}`;
  redraw(root,
    make("div", { class: "head" }, make("h2", {}, `Counterexample: ${example.kind}`),
      make("div", { class: "trace" }, chip("start", 0, ""), example.trace.map((event, index) => chip(event, index + 1, color(event))),
        chip(example.event ?? "done?", last, `phantom ${example.event ? color(example.event) : ""}`)),
      steps(last, go)),
    make("p", { class: "telling", "aria-live": "polite" }, telling(example, at)),
    at === last ? make("ul", { class: "confusions" }, example.merged.map((sentence) => make("li", {}, sentence)), example.remark ? make("li", {}, example.remark) : null) : null);
  root.dataset.step = at;
  light(world);
  if (isNew) reveal();
}

// Show a new counterexample or episode at its last step, where it fails.
function begin(key, last) {
  const isNew = key !== shownExample;
  if (isNew) [shownExample, at] = [key, last];
  at = Math.min(at, last);
  return isNew;
}

const steps = (last, go) => make("span", { class: "group", role: "group", "aria-label": "Steps" },
  make("button", { type: "button", class: "small", "data-key": "back", disabled: at === 0, onclick: () => go(at - 1) }, "Back"),
  make("button", { type: "button", class: "small", "data-key": "forward", disabled: at === last, onclick: () => go(at + 1) }, "Next"));

// The episode that stalls, on the map and in the agents' machines.
function showStall(world, stall) {
  const root = find("stall");
  const isShown = !root.hidden;
  root.hidden = !stall;
  if (!stall) {
    if (isShown) showOnMap(world, null);
    return;
  }
  const last = stall.steps.length - 1;
  begin(JSON.stringify([world.text, last]), last);
  const go = (step) => {
    at = Math.min(Math.max(step, 0), last);
    showStall(world, stall);
  };
  const now = stall.steps[at];
  const slider = make("input", { type: "range", min: 0, max: last, value: at, "aria-label": "Step of the episode", "data-key": "walk", oninput: () => go(Number(slider.value)) });
  redraw(root, make("div", { class: "head" }, make("h2", {}, "The team stalls"), slider, steps(last, go)),
    make("p", { class: "telling", "aria-live": "polite" }, `Step ${stall.first + at + 1}${now.events.length ? `: ${now.events.join(", ")}` : ""}.`),
    at === last ? make("ul", { class: "confusions" }, stall.waits.map((sentence) => make("li", {}, `${sentence}.`))) : null);
  root.dataset.step = at;
  showOnMap(world, now);
  light(world);
}

// Scroll wide pictures to the highlighted states.
function reveal() {
  for (const box of document.querySelectorAll("#design .drawing")) {
    const node = box.querySelector(".node.lit");
    if (!node || box.scrollWidth <= box.clientWidth) continue;
    const [position, frame] = [node.getBoundingClientRect(), box.getBoundingClientRect()];
    if (position.left < frame.left || position.right > frame.right) box.scrollLeft += position.left - frame.left - frame.width / 2;
  }
}

whenDrawn(light);

function telling(example, step) {
  if (step > example.trace.length) return example.message.replace(/^Counterexample \([^)]*\): a/, "A");
  const where = Object.entries(example.agents).map(([agent, states]) => `${agent} in ${states[step]}`).join(", ");
  const what = step ? `After ${example.trace.slice(0, step).join(", ")}` : "At the start";
  return `${what} the team is in ${example.team[step]}, ${where}.`;
}

// The shown step: machine states, the last event, and at the end the states that projections confuse.
function now(world) {
  const example = world.counterexample;
  if (example) {
    const step = Math.min(at, example.trace.length);
    const stateOf = (title, number) => (title === "team" ? example.team : example.agents[title])?.[number];
    return { stateOf, step, event: example.trace[step - 1], confusions: at > example.trace.length ? example.confusions : [] };
  }
  const stall = store.verdict?.stall;
  if (!stall || !stall.steps[at]) return null;
  return { stateOf: (title, number) => stall.steps[number]?.states[title], step: at, event: null, confusions: [] };
}

// Highlight the current states of the machines and, at the end, those that are confused.
function light(world) {
  const current = now(world);
  const proposing = new Set(current?.confusions.map((confusion) => confusion.agent));
  for (const title of ["team", ...world.agents.map((agent) => agent.name)]) {
    const shown = pictureOf(title);
    if (!shown?.picture.layout) continue;
    const { picture, root, indexOf } = shown;
    const [from, index] = current ? [current.step - 1, current.step].map((number) => indexOf(current.stateOf(title, number))) : [-1, -1];
    const confused = new Set(current?.confusions.map((confusion) => indexOf(confusion.merged_with)));
    root.querySelectorAll(".node").forEach((node) => {
      const number = Number(node.dataset.state);
      node.classList.toggle("lit", number === index);
      node.classList.toggle("confused", title === "team" ? confused.has(number) : proposing.has(title) && number === index);
    });
    root.querySelectorAll(".edge").forEach((edge) => edge.classList.toggle("taken", Boolean(current?.event) && !current.confusions.length && edge.dataset.edge === `${from}-${index}` && takes(picture, edge.dataset.edge, current.event)));
    if (title !== "team") root.classList.toggle("proposing", proposing.has(title));
  }
}

function takes(picture, name, event) {
  const [from, to] = name.split("-").map(Number);
  return picture.edges.some((edge) => edge.from === from && edge.to === to && edge.events.includes(event));
}
