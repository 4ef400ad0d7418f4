// Events and who knows them: a row for each event, a check mark for each agent.

import { disc, field, find, make, redraw } from "/dom.js";
import { gesture } from "/store.js";

export function showEvents(world) {
  const { agents, events } = world;
  const head = make("tr", {}, make("th", { scope: "col" }, "event"),
    world.map ? make("th", { scope: "col" }, "happens when") : null,
    agents.map((agent) => make("th", { scope: "col", title: agent.name }, disc(agent), make("span", { class: "hidden" }, agent.name))));
  const table = make("table", { class: "knowing" }, make("thead", {}, head), make("tbody", {}, events.map((event) => row(world, event))));
  const name = nextName(agents);
  redraw(find("events"),
    make("div", { class: "head" }, make("h2", {}, "Local event sets"),
      world.map && world.written.machine !== "parts" ? make("button", { type: "button", class: "small", "data-key": "add agent", onclick: () => gesture({ kind: "agent", agent: name }) }, "Add agent") : null),
    make("div", { class: "scrolling", tabindex: "0", role: "region", "aria-label": "Local event sets" }, table),
    make("p", { class: "soft" }, "A dot marks events that the agent must know: it controls them, or they open or close a gate for it."));
}

function nextName(agents) {
  let number = agents.length + 1;
  while (agents.some((agent) => agent.name === `A${number}`)) number += 1;
  return `A${number}`;
}

function row(world, event) {
  const sentence = event.sentence === null ? null : field({
    class: "sentence", value: event.sentence, "data-key": `sentence ${event.name}`, "aria-label": `When ${event.name} happens`,
  }, (said) => gesture({ kind: "condition", event: event.name, sentence: said }));
  return make("tr", {},
    make("th", { scope: "row", class: `event-${event.color}` }, event.name),
    sentence ? make("td", {}, sentence) : null,
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
    }));
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
