// A log that is dropped on the page: the machines that explain it, or why the local event sets do not.

import { ask } from "/api.js";
import { find, make } from "/dom.js";
import { store, watch } from "/store.js";

const SUFFIXES = [".csv", ".jsonl", ".ndjson", ".xes"];
let log = null; // its name and text, and what it shows

export function acceptLogs() {
  addEventListener("dragover", (event) => {
    if ([...event.dataTransfer.items].some((item) => item.kind === "file")) event.preventDefault();
  });
  addEventListener("drop", async (event) => {
    const file = [...event.dataTransfer.files].find((each) => SUFFIXES.some((suffix) => each.name.toLowerCase().endsWith(suffix)));
    if (!file) return;
    event.preventDefault();
    log = { name: file.name, text: await file.text(), observed: "", outcome: "" };
    explain();
  });
  watch((what) => {
    if (what === "understood" && log && !store.error) explain();
  });
}

async function explain() {
  const { text, file } = store;
  const asked = log;
  const answer = await ask("log", { text, name: file.name, log: log.text, log_name: log.name, observed: log.observed, outcome: log.outcome }).catch(() => null);
  if (!answer || log !== asked || store.text !== text) return;
  show(answer);
}

function show(answer) {
  const root = find("log");
  const choose = (observed) => {
    log = { ...log, observed };
    explain();
  };
  const close = () => {
    log = null;
    root.hidden = true;
  };
  const kinds = [["", "as the log says"], ["all", "all attempts"], ["reward", "rewards only"], ["effective", "accepted events only"]];
  const select = make("select", { "aria-label": "What the log shows", onchange: (event) => choose(event.target.value) },
    kinds.map(([value, label]) => make("option", { value, selected: value === log.observed }, label)));
  const outcome = log.name.toLowerCase().endsWith(".xes") ? make("input", {
    type: "text", value: log.outcome, placeholder: "attribute that tells completion", "aria-label": "Outcome",
    onchange: (event) => { log = { ...log, outcome: event.target.value }; explain(); },
  }) : null;
  const message = answer.refused ?? answer.message;
  const verdict = answer.refused ? "cannot be read" : answer.explained ? "can be explained with these local event sets" : "cannot be explained with these local event sets";
  root.hidden = false;
  root.dataset.explained = String(Boolean(answer.explained));
  root.replaceChildren(
    make("div", { class: "head" }, make("h2", {}, `${log.name} ${verdict}`), select, outcome, make("button", { type: "button", onclick: close }, "Close")),
    answer.picture ? make("img", { src: answer.picture, alt: "The machines that explain the log; ×n says how many episodes show a transition" }) : "",
    ...(answer.questions ?? []).map((question) => make("p", {}, make("b", {}, "Try next: "), question)),
    make("p", { class: answer.explained ? "soft" : "problem-line" }, message));
}
