// Events and who knows them: a row for each event, a check mark for each agent.

import { disc, field, find, make, redraw } from "/dom.js";
import { gesture, store } from "/store.js";

export function showEvents(world) {
  const { agents, events } = world;
  const head = make("tr", {}, make("th", { scope: "col" }, "event"),
    world.map ? make("th", { scope: "col" }, "happens when") : null,
    agents.map((agent) => make("th", { scope: "col", title: agent.name }, disc(agent), make("span", { class: "hidden" }, agent.name))),
    make("td", {}));
  const table = make("table", { class: "knowing" }, make("thead", {}, head), make("tbody", {}, events.map((event) => row(world, event))));
  const name = nextName(agents);
  redraw(find("events"),
    make("div", { class: "head" }, make("h2", {}, "Local event sets"),
      world.map && world.written.machine !== "parts" ? make("button", { type: "button", class: "small", "data-key": "add agent", onclick: () => gesture({ kind: "agent", agent: name }) }, "Add agent") : null),
    make("div", { class: "scrolling", tabindex: "0", role: "region", "aria-label": "Local event sets" }, table),
    make("p", { class: "soft" }, "A dot marks events that the agent must know: it controls them, or they open or close a gate for it."));
}

let guessed = null; // the new event whose condition is a guess

// A new event has a guessed condition; focus the field in which the user can change it.
export function askCondition(event) {
  guessed = event;
  showEvents(store.world);
  const field = find("events").querySelector(`[data-key="sentence ${CSS.escape(event)}"]`);
  field?.focus();
  field?.select();
}

function nextName(agents) {
  let number = agents.length + 1;
  while (agents.some((agent) => agent.name === `A${number}`)) number += 1;
  return `A${number}`;
}

function row(world, event) {
  const sentence = event.sentence === null ? null : field({
    class: "sentence", value: event.sentence, "data-key": `sentence ${event.name}`, "aria-label": `When ${event.name} happens`,
    onkeydown: (key) => key.key === "Enter" && settleGuess(event.name),
  }, (value) => gesture({ kind: "condition", event: event.name, sentence: value }));
  const isGuess = guessed === event.name;
  return make("tr", {},
    make("th", { scope: "row", class: `event-${event.color}` }, event.name),
    sentence ? make("td", { class: isGuess ? "guess" : null }, sentence, isGuess ? make("small", {}, "A guess. When does it happen?") : null) : null,
    world.agents.map((agent) => {
      const isNeeded = event.needs.includes(agent.name);
      const box = make("input", {
        type: "checkbox", checked: agent.knows.includes(event.name), "data-key": `know ${agent.name} ${event.name}`,
        "aria-label": `${agent.name} knows ${event.name}${isNeeded ? " (required)" : ""}`,
        onchange: async () => {
          const done = await gesture({ kind: "know", agent: agent.name, event: event.name, known: box.checked });
          if (!done) box.checked = agent.knows.includes(event.name);
        },
        onkeydown: (key) => step(key, box),
      });
      return make("td", { class: isNeeded ? "needed" : null, color: agent.color }, box);
    }),
    make("td", {}, world.written.team ? null : make("button", {
      type: "button", class: "link remove", title: `Remove ${event.name}`, "aria-label": `Remove the event ${event.name}`, "data-key": `remove ${event.name}`,
      onclick: () => gesture({ kind: "remove event", event: event.name }),
    }, "×")));
}

function settleGuess(event) {
  if (guessed !== event) return;
  guessed = null;
  const cell = find("events").querySelector(".guess");
  cell?.querySelector("small")?.remove();
  cell?.classList.remove("guess");
}

// Arrow keys go from check mark to check mark.
function step(key, box) {
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key.key];
  if (!by) return;
  key.preventDefault();
  const cell = box.closest("td");
  const table = cell.closest("tbody");
  const line = table.rows[cell.parentElement.rowIndex - 1 + by[0]];
  line?.cells[cell.cellIndex + by[1]]?.querySelector("input[type=checkbox]")?.focus();
}
