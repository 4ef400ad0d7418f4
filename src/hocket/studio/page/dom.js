// Elements, fields and messages of the studio; elements.js has those that reports use, too.

import { grouped, make } from "/elements.js";

export * from "/elements.js";

export const find = (id) => document.getElementById(id);
export const counted = (value, what) => `${grouped(value)} ${what}${value === 1 ? "" : "s"}`;

export function choice(label, options, value, choose, attributes = {}) {
  const select = make("select", { ...attributes, onchange: () => choose(select.value) },
    options.map(([option, text]) => make("option", { value: option }, text)));
  select.value = value;
  return make("label", { class: "choice" }, make("span", {}, label), select);
}

// A field whose value is committed at Enter or when the focus leaves; if it is refused, the old value returns.
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
const isTyped = (input) => input.value !== input.defaultValue && input.dataset.sent !== input.value;

// Redraw a part of the page. Focus and unfinished input stay in the element with the same data-key, and pictures with the
// same data-title keep their scroll position.
export function redraw(root, ...content) {
  const active = root.contains(document.activeElement) ? document.activeElement : null;
  const range = active?.matches("input[type=text]") ? [active.selectionStart, active.selectionEnd] : null;
  const typed = new Map([...root.querySelectorAll("input:is([type=text], [type=number])[data-key]")].filter(isTyped).map((input) => [input.dataset.key, input.value]));
  const scrolled = new Map([...root.querySelectorAll("[data-title]")].filter((box) => box.scrollLeft).map((box) => [box.dataset.title, box.scrollLeft]));
  isRedrawing = true; // blur events of removed elements are ignored
  root.replaceChildren(...content.flat().filter(Boolean));
  isRedrawing = false;
  if (scrolled.size) for (const box of root.querySelectorAll("[data-title]")) box.scrollLeft = scrolled.get(box.dataset.title) ?? 0;
  for (const element of root.querySelectorAll("[data-key]")) {
    if (typed.has(element.dataset.key)) element.value = typed.get(element.dataset.key);
    if (!active || element.dataset.key !== active.dataset.key) continue;
    element.focus({ preventScroll: true });
    if (range && element.setSelectionRange) element.setSelectionRange(...range.map((at) => Math.min(at, element.value.length)));
  }
}

// While something is dragged, redrawing is postponed.
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

// Show a message for six seconds.
export function toast(message) {
  const root = find("toast");
  root.textContent = message;
  root.classList.add("shown");
  clearTimeout(clearing);
  clearing = setTimeout(() => root.classList.remove("shown"), 6000);
}
