// Training: learner and settings, tests while it runs, stop and continue, and the report with its episodes.

import { ask, follow } from "/api.js";
import { choice, draw, find, grouped, make, redraw, toast } from "/dom.js";
import { store, watch } from "/store.js";

const WIDTH = 760;
const HEIGHT = 250;
const TOGETHER = 10; // tests in a moving average
const MOST_POINTS = 500; // of a curve
const BUSY = ["starting", "compiling", "training", "reviewing"];
const EDGE = { left: 56, right: 14, top: 22, bottom: 40 };

const training = { id: null, now: "", before: null, step: 0, steps: 0, most: 1000, tests: [], report: null, text: "" }; // before: its state when the last command was sent
const asked = { learner: null, steps: 50_000, seeds: 3, settings: {}, kind: "softmax" };
let known = null; // the learners
let parts = null;

export const trainingId = () => training.id;

watch((what) => {
  if (what === "understood" && !find("train").hidden) show();
});

export async function show() {
  const root = find("train");
  if (!known) root.replaceChildren(make("p", { class: "soft" }, "Loading the learners …"));
  known ??= await ask("learners").catch(() => null);
  if (!known) return;
  asked.learner ??= known.default;
  lay(root);
  showNow();
}

function lay(root) {
  const learner = known.learners.find((candidate) => candidate.name === asked.learner);
  const field = (label, key, most) => {
    const input = make("input", { type: "number", min: 1, max: most, value: asked[key], "aria-label": label, "data-key": key, oninput: () => { asked[key] = Number(input.value); } });
    return make("label", { class: "choice" }, make("span", {}, label), input);
  };
  const start = make("button", { type: "button", class: "main", id: "start", onclick: begin }, "Train");
  const steer = make("button", { type: "button", id: "steer", onclick: stopOrGo }, "Stop");
  const status = make("p", { class: "status", id: "training", "aria-live": "polite" });
  const chart = make("div", { class: "chart" });
  const report = make("div", { class: "report" });
  parts = { start, steer, status, chart, report };
  const isOpen = root.querySelector("details")?.open ?? false;
  redraw(root,
    make("div", { class: "card" },
      make("div", { class: "tools" },
        choice("learner", known.learners.map((learner) => [learner.name, learner.name]), asked.learner, (name) => {
          Object.assign(asked, { learner: name, settings: {} });
          lay(root);
          showNow();
        }, { id: "learner" }),
        field("steps", "steps", 10_000_000), field("seeds", "seeds", 16), start, steer),
      make("p", { class: "soft" }, `${learner.summary[0].toUpperCase()}${learner.summary.slice(1)}.`),
      make("p", { class: "soft" }, "Runs of the studio are deleted when it ends. To keep runs, save the task and use ", make("code", {}, "hocket train"), "."),
      make("details", { open: isOpen }, make("summary", {}, "Settings"), make("div", { class: "settings" }, learner.settings.map(setting)))),
    make("div", { class: "card" }, make("div", { class: "head" }, make("h2", {}, "Tests"), kinds()), status, chart), report);
  drawChart();
  showReport();
}

function kinds() {
  return choice("policy", [["softmax", "softmax"], ["greedy", "greedy"]], asked.kind, (kind) => {
    asked.kind = kind;
    drawChart();
  });
}

function setting(meta) {
  const isFlag = typeof meta.default === "boolean";
  const value = asked.settings[meta.name] ?? meta.default;
  const read = typeof meta.default === "string" ? String : Number;
  const input = isFlag
    ? make("input", { type: "checkbox", checked: value, onchange: () => { asked.settings[meta.name] = input.checked; } })
    : make("input", { type: "text", value, size: 8, "data-key": `setting ${meta.name}`, oninput: () => { asked.settings[meta.name] = read(input.value); } });
  return make("label", { title: meta.rule }, make("span", {}, meta.name.replaceAll("_", " ")), input, make("small", {}, `${meta.meaning}${unitOf(meta)}`));
}

const unitOf = ({ unit }) => (unit ? `, ${unit.startsWith("per ") ? unit : `in ${unit}`}` : "");

// Training.

async function begin() {
  if (store.error) {
    toast("Fix the errors in the text first.");
    return;
  }
  if (BUSY.includes(training.now)) return;
  const { learner, steps, seeds, settings } = asked;
  const before = { ...training };
  Object.assign(training, { now: "starting", id: null });
  showNow();
  const answer = await ask("train", { text: store.text, name: store.file.name, learner, steps, seeds, settings }).catch(() => ({ refused: "The studio does not answer." }));
  if (answer.refused) {
    toast(answer.refused);
    Object.assign(training, before);
    showNow();
    return;
  }
  Object.assign(training, { id: answer.training, now: "starting", step: 0, steps, tests: [], report: null, text: store.text });
  showReport();
  showNow();
  const { id } = training;
  follow("follow", { training: id }, (message) => {
    if (training.id === id) receive(message);
  }).catch(() => {
    if (training.id === id && training.now !== "done") receive({ now: "lost" });
  });
}

function receive(message) {
  if (message.refused) {
    training.now = "refused";
    training.reason = message.refused;
  }
  if (message.now) training.now = message.now;
  if (training.now !== training.before) training.before = null;
  if (message.most) training.most = message.most;
  if (message.step) training.step = message.step;
  if (message.tests) training.tests.push({ step: message.step, tests: message.tests });
  if (message.report) {
    training.report = message.report;
    showReport();
  }
  showNow();
  if (message.tests) scheduleChart();
}

async function stopOrGo() {
  const command = training.now === "stopped" ? "continue" : "stop";
  training.before = training.now;
  showNow();
  const answer = await ask("steer", { training: training.id, command }).catch(() => ({ refused: "The studio does not answer." }));
  if (!answer.refused) return; // the stream of messages shows the effect
  toast(answer.refused);
  training.before = null;
  showNow();
}

function showNow() {
  if (!parts) return;
  const { now, step, steps, reason } = training;
  const words = {
    "": "Each agent trains alone; the team is tested regularly. Fewer steps are better.",
    starting: "Starting …", compiling: "Compiling the learner for this machine …", training: `Training: ${grouped(step)} of ${grouped(steps)} steps.`,
    reviewing: `Stopped at ${grouped(step)} steps; running test episodes for the report …`,
    stopped: `Stopped at ${grouped(step)} of ${grouped(steps)} steps. Continue, or read the report below.`, done: `Done: ${grouped(step)} steps.`,
    ended: "The training has ended.", lost: "The studio was restarted; the training is lost.", refused: reason,
  };
  parts.status.textContent = `${words[now]}${training.id && training.text !== store.text ? " The text has changed since." : ""}`;
  parts.status.dataset.now = now;
  parts.start.disabled = BUSY.includes(now);
  parts.steer.textContent = now === "stopped" ? "Continue" : "Stop";
  parts.steer.disabled = !["training", "stopped"].includes(now) || now === training.before;
}

// The latest report, with curves and episodes, in a frame.
function showReport() {
  if (!parts) return;
  const { id, report } = training;
  const old = parts.report.querySelector("iframe");
  if (!report) {
    parts.report.replaceChildren();
    return;
  }
  const address = `/report/${id}/${report}`;
  if (old?.dataset.address === address) return;
  const frame = make("iframe", { title: "Report of the training, with episodes to watch", sandbox: "allow-scripts", src: `${address}#replay-1`, "data-address": address });
  parts.report.replaceChildren(make("div", { class: "head" }, make("h2", {}, "Report and replay")), frame);
}

// The chart: the steps of each test, a thin line for each seed, and their median.

let scheduled = false;

function scheduleChart() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    drawChart();
  });
}

function drawChart() {
  if (!parts) return;
  const { tests, steps, most } = training;
  if (!tests.length) {
    parts.chart.replaceChildren();
    return;
  }
  const rows = thinned(smoothed(tests.map(({ step, tests: episodes }) => [step, episodes.filter(([kind]) => kind === asked.kind).map(([, taken]) => taken)])));
  const all = rows.flatMap(([, values]) => values);
  const [bottom, top] = [Math.max(1, all.reduce((one, other) => Math.min(one, other)) * 0.7), Math.max(10, all.reduce((one, other) => Math.max(one, other)))];
  const span = spanOf(rows.at(-1)[0], steps);
  const x = (step) => EDGE.left + ((WIDTH - EDGE.left - EDGE.right) * step) / span;
  const y = (taken) => EDGE.top + (HEIGHT - EDGE.top - EDGE.bottom) * (1 - Math.log(Math.max(taken, bottom) / bottom) / Math.log(top / bottom));
  const path = (values) => values.map(([step, taken], index) => `${index ? "L" : "M"}${x(step).toFixed(1)} ${y(taken).toFixed(1)}`).join("");
  const median = (values) => [...values].sort((one, other) => one - other)[Math.floor((values.length - 1) / 2)];
  const medians = rows.map(([step, values]) => [step, median(values)]);
  const last = medians.at(-1);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Steps in tests; the last median is ${last[1]} after ${last[0]} training steps` });
  for (const mark of ticks(bottom, top)) svg.append(draw("path", { class: "gridline", d: `M${EDGE.left} ${y(mark)}H${WIDTH - EDGE.right}` }), draw("text", { x: EDGE.left - 8, y: y(mark), class: "end" }, grouped(mark)));
  for (const share of [0, 0.25, 0.5, 0.75, 1]) svg.append(draw("text", { x: x(span * share), y: HEIGHT - 22, class: share === 1 ? "end" : "middle" }, grouped(span * share)));
  svg.append(draw("text", { x: WIDTH - EDGE.right, y: HEIGHT - 2, class: "end name" }, "training steps"), draw("text", { x: EDGE.left, y: 6, class: "begin name" }, "steps of a test episode"));
  const seeds = rows[0][1].length;
  for (let seed = 0; seed < seeds && seeds > 1; seed += 1) svg.append(draw("path", { class: "seed", d: path(rows.filter(([, values]) => values.length > seed).map(([step, values]) => [step, values[seed]])) }));
  svg.append(draw("path", { class: "median", d: path(medians) }), draw("circle", { class: "now", cx: x(last[0]), cy: y(last[1]), r: 4 }));
  parts.chart.replaceChildren(svg, make("p", { class: "soft" }, `Test steps (limit ${grouped(most)}), averaged over the last ten tests: each seed, and the median over seeds. Latest: ${grouped(last[1])}.`));
}

// Round numbers with given leading digits.
const roundNumbers = (digits) => [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000].flatMap((power) => digits.map((digit) => digit * power));

function ticks(bottom, top) {
  const within = (digits) => roundNumbers(digits).filter((mark) => mark <= top && mark >= bottom);
  const few = within([1, 2, 5]);
  return few.length > 2 ? few : within([1, 1.5, 2, 2.5, 3, 4, 5, 7]);
}

// The range of the step axis: a round number above the steps so far.
const spanOf = (done, steps) => Math.min(roundNumbers([1, 2, 4, 6, 8]).find((number) => number >= done * 1.1) ?? steps, steps || 1);

// The mean of the last tests of each seed, as in reports.
function smoothed(rows) {
  const sums = rows[0][1].map(() => 0);
  return rows.map(([step, values], index) => {
    const old = index >= TOGETHER ? rows[index - TOGETHER][1] : null;
    const count = Math.min(index + 1, TOGETHER);
    return [step, values.map((taken, seed) => {
      sums[seed] += taken - (old?.[seed] ?? 0);
      return sums[seed] / count;
    })];
  });
}

// Leave out points of a long curve.
function thinned(rows) {
  const every = Math.ceil(rows.length / MOST_POINTS);
  return rows.filter((_, index) => index % every === 0 || index === rows.length - 1);
}
