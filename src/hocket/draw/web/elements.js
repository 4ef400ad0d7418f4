// Elements, controls and agents, for the pages of reports and of the studio. Data only ever become text or attributes.
// The studio imports this file; a report has it inline, without the word `export`.

export const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, content) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "color") element.style.setProperty("--color", value);
    else if (name === "value") element.defaultValue = element.value = value;
    else if (name === "checked") element.checked = value;
    else if (name.startsWith("aria-") && typeof value === "boolean") element.setAttribute(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...content.flat().filter((child) => child != null && child !== false));
  return element;
}

export const make = (name, attributes = {}, ...content) => fill(document.createElement(name), attributes, content);
export const draw = (name, attributes = {}, ...content) => fill(document.createElementNS(SVG, name), attributes, content);
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const grouped = (value) => Math.round(value).toLocaleString("en-US");
export const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// A row of buttons of which one is pressed; `choose` is called with its value.
export function segments(label, options, value, choose) {
  const buttons = options.map(([option, text]) =>
    make("button", { type: "button", "data-value": option, onclick: () => { press(option); choose(option); } }, text));
  const press = (chosen) => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.value === chosen);
  };
  press(value);
  return Object.assign(make("span", { class: "segments", role: "group", "aria-label": label }, buttons), { press });
}

const THEME_ICONS = {
  dark: "M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z",
  light: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM11 1h2v4h-2zM11 19h2v4h-2zM1 11h4v2H1zM19 11h4v2h-4zM4.2 5.6 5.6 4.2 8.4 7 7 8.4zM15.6 17l1.4-1.4 2.8 2.8-1.4 1.4zM4.2 18.4 7 15.6 8.4 17l-2.8 2.8zM15.6 7l2.8-2.8 1.4 1.4L17 8.4z",
};

// Light and dark: the system's choice, until the button is pressed; `storage` keeps what was chosen.
export function offerThemes(button, storage = null) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const kept = storage?.getItem("hocket theme");
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    const other = isDark() ? "light" : "dark";
    button.replaceChildren(draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: THEME_ICONS[other] })));
    button.setAttribute("aria-label", `Switch to ${other} colours`);
    button.title = `Switch to ${other} colours`;
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    storage?.setItem("hocket theme", root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}

// Agents.

export const disc = (agent) => make("span", { class: "disc", color: agent.color, "aria-hidden": "true" }, agent.number);

export function drawAgent(agent, radius, attributes = {}) {
  return draw("g", { class: "agent", color: agent.color, ...attributes },
    draw("title", {}, agent.name),
    draw("circle", { class: "halo", r: radius + 3.2 }), draw("circle", { class: "ring", r: radius + 3.2 }),
    draw("circle", { class: "body", r: radius }),
    draw("text", { "font-size": (radius * (agent.number.length < 3 ? 1.15 : 0.8)).toFixed(1) }, agent.number));
}

const WIDEST = 1.55; // radii of an agent: the circle on which many agents at one point stand

// Agents at one point stand on a circle around it: where the index-th of `count` is, in radii of an agent, and its size.
export function aroundPoint(index, count) {
  if (count === 1) return { x: 0, y: 0, size: 1 };
  const touching = Math.sin(Math.PI / count) / 1.06; // how large discs may be on a circle of radius 1
  const wanted = clamp(0.7 - 0.05 * count, 0.44, 0.6);
  const reach = Math.min(wanted / touching, WIDEST);
  const angle = (2 * Math.PI * index) / count - Math.PI * (count === 2 ? 1 : 0.5);
  return { x: reach * Math.cos(angle), y: reach * Math.sin(angle), size: Math.max(Math.min(wanted, reach * touching), 0.24) };
}
