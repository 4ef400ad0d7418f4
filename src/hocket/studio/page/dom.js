// Elements, text and small things for all of the page. What comes from files only ever becomes text or attributes.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, content) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "own") element.style.setProperty("--own", value);
    else if (name === "value") element.defaultValue = element.value = value;
    else if (name === "checked") element.checked = value;
    else if (name.startsWith("aria-") && typeof value === "boolean") element.setAttribute(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...content.flat().filter((own) => own != null && own !== false));
  return element;
}

export const make = (name, attributes = {}, ...content) => fill(document.createElement(name), attributes, content);
export const draw = (name, attributes = {}, ...content) => fill(document.createElementNS(SVG, name), attributes, content);
export const find = (id) => document.getElementById(id);
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const grouped = (value) => Math.round(value).toLocaleString("en-US");
export const counted = (value, what) => `${grouped(value)} ${what}${value === 1 ? "" : "s"}`;
export const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function disc(agent) {
  return make("span", { class: "disc", own: agent.color, "aria-hidden": "true" }, agent.number);
}

// A row of buttons of which one is pressed; `choose` is told its value.
export function segments(label, options, value, choose) {
  const buttons = options.map(([own, text]) =>
    make("button", { type: "button", "data-value": own, "aria-pressed": own === value, onclick: () => press(own) }, text));
  const press = (own) => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.value === own);
    choose(own);
  };
  return make("span", { class: "segments", role: "group", "aria-label": label }, buttons);
}

export function choice(label, options, value, choose, attributes = {}) {
  const select = make("select", { ...attributes, onchange: () => choose(select.value) },
    options.map(([own, text]) => make("option", { value: own }, text)));
  select.value = value;
  return make("label", { class: "choice" }, make("span", {}, label), select);
}

// A field whose value counts when it is left, or at Enter; one that is refused is as it was before.
export function field(attributes, commit) {
  const input = make("input", { type: "text", ...attributes });
  const settle = async () => {
    if (isRedrawing || input.value === input.defaultValue || input.dataset.sent === input.value) return;
    input.dataset.sent = input.value;
    if (await commit(input.value)) return;
    delete input.dataset.sent;
    input.value = input.defaultValue;
  };
  input.addEventListener("blur", settle);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") settle();
    if (event.key === "Escape") input.value = input.defaultValue;
  });
  return input;
}

let isRedrawing = false;
const isTyped = (own) => own.value !== own.defaultValue && own.dataset.sent !== own.value;

// Draw a part of the page anew; the focus, and what somebody is just typing, stay in what has the same key, and pictures
// of the same title stay where they were scrolled to.
export function redraw(root, ...content) {
  const active = root.contains(document.activeElement) ? document.activeElement : null;
  const range = active?.matches("input[type=text]") ? [active.selectionStart, active.selectionEnd] : null;
  const typed = new Map([...root.querySelectorAll("input:is([type=text], [type=number])[data-key]")].filter(isTyped).map((own) => [own.dataset.key, own.value]));
  const scrolled = new Map([...root.querySelectorAll("[data-title]")].filter((own) => own.scrollLeft).map((own) => [own.dataset.title, own.scrollLeft]));
  isRedrawing = true; // what is taken away has not been left
  root.replaceChildren(...content.flat().filter(Boolean));
  isRedrawing = false;
  if (scrolled.size) for (const own of root.querySelectorAll("[data-title]")) own.scrollLeft = scrolled.get(own.dataset.title) ?? 0;
  for (const own of root.querySelectorAll("[data-key]")) {
    if (typed.has(own.dataset.key)) own.value = typed.get(own.dataset.key);
    if (!active || own.dataset.key !== active.dataset.key) continue;
    own.focus({ preventScroll: true });
    if (range && own.setSelectionRange) own.setSelectionRange(...range.map((at) => Math.min(at, own.value.length)));
  }
}

// While somebody drags something, nothing is drawn anew under the pointer.
let isHeld = false;
let putOff = null;

export function whenFree(act) {
  if (isHeld) putOff = act;
  else act();
}

export function hold() {
  isHeld = true;
}

export function letGo() {
  isHeld = false;
  const act = putOff;
  putOff = null;
  act?.();
}

let clearing = null;

// Say something for a while.
export function toast(message) {
  const root = find("toast");
  root.textContent = message;
  root.classList.add("shown");
  clearTimeout(clearing);
  clearing = setTimeout(() => root.classList.remove("shown"), 6000);
}

const SHAPES = {
  dark: "M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z",
  light: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM11 1h2v4h-2zM11 19h2v4h-2zM1 11h4v2H1zM19 11h4v2h-4zM4.2 5.6 5.6 4.2 8.4 7 7 8.4zM15.6 17l1.4-1.4 2.8 2.8-1.4 1.4zM4.2 18.4 7 15.6 8.4 17l-2.8 2.8zM15.6 7l2.8-2.8 1.4 1.4L17 8.4z",
};

// Light and dark: the system's choice, until the button is pressed.
export function offerThemes(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const kept = localStorage.getItem("hocket theme");
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    const other = isDark() ? "light" : "dark";
    button.replaceChildren(draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: SHAPES[other] })));
    button.setAttribute("aria-label", `Switch to ${other} colours`);
    button.title = `Switch to ${other} colours`;
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("hocket theme", root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}
