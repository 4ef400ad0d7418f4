// The verdict and, where it is no, a counterexample to play step by step, and buttons that repair it.

import { ask } from "/api.js";
import { find, make, redraw } from "/dom.js";
import { pictureOf, whenDrawn } from "/machines.js";
import { gesture, store } from "/store.js";

let at = 0; // the step of the example
let told = ""; // which example

export function showVerdict(world, error) {
  const root = find("verdict");
  const verdict = world?.verdict;
  const isStale = Boolean(error);
  const kind = isStale ? "unknown" : verdict.ok ? "yes" : "no";
  const symbol = { yes: "✓", no: "✗", unknown: "?" }[kind];
  root.className = `verdict ${kind}`;
  const said = isStale ? (error.isCutOff ? error.message : "The text has errors; the picture shows its last valid version.") : headline(verdict);
  const problems = isStale ? [] : verdict.problems;
  root.replaceChildren(
    make("span", { class: "symbol", "aria-hidden": "true" }, symbol),
    make("div", {},
      make("p", { class: "said" }, said),
      isStale ? null : verdict.answers.map((answer) => make("p", { class: answer.ok ? "said" : "problem-line" }, answer.said)),
      problems.map((problem) => make("p", { class: "problem-line" }, problem)),
      isStale ? null : verdict.warnings.map((warning) => make("p", { class: "warning-line" }, warning)),
      isStale || !verdict.notes.length ? null : make("details", {}, make("summary", {}, verdict.notes.length === 1 ? "1 note" : `${verdict.notes.length} notes`), make("ul", {}, verdict.notes.map((note) => make("li", {}, note))))),
    make("div", { id: "repairs", class: "repairs" }));
  root.dataset.kind = kind;
  if (!isStale && !verdict.decomposable) showRepairs(world);
}

function headline(verdict) {
  if (verdict.ok || !verdict.decomposable) return verdict.said;
  return `${verdict.said} But the task does not pass all checks:`;
}

// Each cheapest repair is a button.
async function showRepairs(world) {
  const { text, file } = store;
  const waiting = setTimeout(() => find("repairs").replaceChildren(make("span", { class: "soft" }, "looking for repairs …")), 250);
  const answer = await ask("repairs", { text, name: file.name }).catch(() => null);
  clearTimeout(waiting);
  if (!answer || store.world !== world || store.text !== text) return;
  const root = find("repairs");
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
  if (!example) {
    light(world, null);
    return;
  }
  const key = JSON.stringify([example.trace, example.event, example.state]);
  const isNew = key !== told;
  if (isNew) [told, at] = [key, example.trace.length + 1]; // the end comes first: what goes wrong
  at = Math.min(at, example.trace.length + 1);
  const last = example.trace.length + 1;
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
      make("span", { class: "group", role: "group", "aria-label": "Steps" },
        make("button", { type: "button", class: "small", "data-key": "back", disabled: at === 0, onclick: () => go(at - 1) }, "Back"),
        make("button", { type: "button", class: "small", "data-key": "forward", disabled: at === last, onclick: () => go(at + 1) }, "Next"))),
    make("p", { class: "telling", "aria-live": "polite" }, telling(example, at)),
    at === last ? make("ul", { class: "confusions" }, example.merged.map((sentence) => make("li", {}, sentence)), example.remark ? make("li", {}, example.remark) : null) : null);
  root.dataset.step = at;
  light(world, example);
  if (isNew) reveal();
}

// Scroll wide pictures to where their machines are.
function reveal() {
  for (const box of document.querySelectorAll("#design .drawing")) {
    const node = box.querySelector(".node.lit");
    if (!node || box.scrollWidth <= box.clientWidth) continue;
    const [spot, frame] = [node.getBoundingClientRect(), box.getBoundingClientRect()];
    if (spot.left < frame.left || spot.right > frame.right) box.scrollLeft += spot.left - frame.left - frame.width / 2;
  }
}

whenDrawn((world) => light(world, world.counterexample));

function telling(example, step) {
  if (step > example.trace.length) return example.said.replace(/^Counterexample \([^)]*\): a/, "A");
  const where = Object.entries(example.agents).map(([agent, states]) => `${agent} in ${states[step]}`).join(", ");
  const what = step ? `After ${example.trace.slice(0, step).join(", ")}` : "At the start";
  return `${what} the team is in ${example.team[step]}, ${where}.`;
}

// Light the states in which the machines are and, in the end, those that are confused.
function light(world, example) {
  const last = example ? example.trace.length + 1 : 0;
  const step = Math.min(at, example?.trace.length ?? 0);
  const isEnd = at === last;
  const lit = { team: example?.team[step], ...Object.fromEntries(Object.entries(example?.agents ?? {}).map(([agent, states]) => [agent, states[step]])) };
  const before = { team: example?.team[step - 1], ...Object.fromEntries(Object.entries(example?.agents ?? {}).map(([agent, states]) => [agent, states[step - 1]])) };
  const confused = new Set(isEnd && example ? example.confusions.map((confusion) => confusion.merged_with) : []);
  const proposing = new Set(isEnd && example ? example.confusions.map((confusion) => confusion.agent) : []);
  for (const title of ["team", ...world.agents.map((agent) => agent.name)]) {
    const shown = pictureOf(title);
    if (!shown?.picture.layout) continue;
    const { picture, root } = shown;
    const index = picture.states.indexOf(lit[title]);
    root.querySelectorAll(".node").forEach((node) => {
      const number = Number(node.dataset.state);
      node.classList.toggle("lit", Boolean(example) && number === index);
      node.classList.toggle("confused", title === "team" ? confused.has(picture.states[number]) : proposing.has(title) && number === index);
    });
    const from = picture.states.indexOf(before[title]);
    root.querySelectorAll(".edge").forEach((edge) => edge.classList.toggle("taken", Boolean(example) && !isEnd && edge.dataset.edge === `${from}-${index}` && takes(picture, edge.dataset.edge, example.trace[step - 1])));
    if (title !== "team") root.classList.toggle("proposing", proposing.has(title));
  }
}

function takes(picture, name, event) {
  const [from, to] = name.split("-").map(Number);
  return picture.edges.some((edge) => edge.from === from && edge.to === to && edge.events.includes(event));
}
