// The text editor: line numbers, syntax colours, and errors underlined in their line.

import { find, make } from "/dom.js";
import { redo, store, type, undo, watch } from "/store.js";

const MOST_COLORED = 4000; // lines
const MOST_WRAPPED = 50_000; // characters
const TOKEN = /(#.*$)|("""|''')|("(?:[^"\\]|\\.)*"|'[^']*')|(\b(?:true|false)\b|[-+]?\b\d[\d_.eE+-]*\b)/g;
const KEY = /^(\s*)((?:[\w-]+|"(?:[^"\\]|\\.)*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"(?:[^"\\]|\\.)*"|'[^']*'))*)(?=\s*=)/;
const HEADING = /^\s*\[.*?\]\]?(?=\s*(?:#|$))/;

const gutter = make("pre", { class: "gutter", "aria-hidden": "true" }); // of lines that are not wrapped
const paint = make("pre", { class: "paint", "aria-hidden": "true" });
const area = make("textarea", { spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-label": "Task file", "aria-describedby": "problem" });
let shown = []; // of each line: its text, the quotes that are open before it, those after it, and its element

export function startEditor() {
  find("editor").append(make("div", { class: "sheet" }, gutter, paint, area));
  new ResizeObserver(([{ contentRect }]) => {
    columns = contentRect.width / (parseFloat(getComputedStyle(area).fontSize) * 0.6) - 8;
    wrap();
  }).observe(find("editor"));
  area.readOnly = true; // until a text is loaded, which would replace earlier input
  area.addEventListener("input", () => {
    type(area.value);
    color();
  });
  area.addEventListener("beforeinput", (event) => {
    if (event.inputType !== "historyUndo" && event.inputType !== "historyRedo") return;
    event.preventDefault();
    (event.inputType === "historyUndo" ? undo : redo)();
  });
  watch((what) => {
    if (what === "opened") area.readOnly = false;
    if (what === "changed") put(store.text);
    if (what === "understood") mark(store.error);
  });
}

// Show another text, with the caret at the end of the change.
function put(text) {
  const before = area.value;
  if (text === before) return;
  let end = 0;
  while (end < text.length && end < before.length && text.at(-1 - end) === before.at(-1 - end)) end += 1;
  const hadFocus = document.activeElement === area;
  area.value = text;
  if (hadFocus) area.setSelectionRange(text.length - end, text.length - end);
  color();
  if (before) flash(new Set(before.split("\n")));
}

// Show for a moment which lines are new.
function flash(before) {
  const fresh = shown.filter((line) => !before.has(line.text));
  for (const line of fresh) line.element.classList.add("fresh");
  if (fresh.length) scrollToLine(shown.indexOf(fresh[0]));
  setTimeout(() => {
    for (const line of shown) line.element.classList.remove("fresh");
  }, 1200);
}

function scrollToLine(line) {
  const root = find("editor");
  const element = shown[line]?.element;
  if (!element) return;
  const top = element.offsetTop;
  if (top < root.scrollTop + 20 || top > root.scrollTop + root.clientHeight - 40) root.scrollTop = top - root.clientHeight / 3;
}

function color() {
  const lines = area.value.split("\n");
  const isPlain = lines.length > MOST_COLORED;
  let open = "";
  const next = lines.map((text, index) => {
    const old = shown[index];
    if (old && old.text === text && old.before === open) {
      open = old.after;
      return old;
    }
    const element = make("span", { class: "line" });
    const after = isPlain ? "" : tokens(element, text, open);
    if (isPlain) element.append(text);
    element.append("\n");
    const line = { text, before: open, after, element };
    open = after;
    return line;
  });
  const kept = Math.min(shown.length, next.length);
  for (let index = 0; index < kept; index += 1) {
    if (next[index] !== shown[index]) shown[index].element.replaceWith(next[index].element);
  }
  for (const line of shown.slice(kept)) line.element.remove();
  paint.append(...next.slice(kept).map((line) => line.element));
  shown = next;
  wrap();
}

let columns = 80; // characters in a line of the editor

// Long lines are wrapped, unless that would break a map or take long.
function wrap(isLong = area.value.length > MOST_WRAPPED) {
  const isUnwrapped = isLong || shown.some((line) => line.before && line.text.length > columns);
  find("editor").classList.toggle("unwrapped", isUnwrapped);
  const numbers = isUnwrapped ? shown.map((_, index) => index + 1).join("\n") : "";
  if (gutter.textContent !== numbers) gutter.textContent = numbers;
  if (isUnwrapped) paint.parentElement.style.setProperty("--columns", shown.reduce((most, line) => Math.max(most, line.text.length), 0));
}

// Colour a line; `open` are the quotes of the multi-line string in which it begins. Return those open at its end.
function tokens(element, text, open) {
  const add = (kind, content) => content && element.append(kind ? make("span", { class: kind }, content) : content);
  let at = 0;
  if (open) {
    const end = text.indexOf(open);
    if (end < 0) {
      add("string", text);
      return open;
    }
    at = end + 3;
    add("string", text.slice(0, at));
  } else {
    const head = HEADING.exec(text) ?? KEY.exec(text);
    if (head) {
      at = head[0].length;
      add(head[0].trimStart().startsWith("[") && !KEY.test(text) ? "heading" : "key", head[0]);
    }
  }
  TOKEN.lastIndex = at;
  for (let token = TOKEN.exec(text); token; token = TOKEN.exec(text)) {
    add("", text.slice(at, token.index));
    at = TOKEN.lastIndex;
    if (token[2]) {
      const end = text.indexOf(token[2], at);
      if (end < 0) {
        add("string", text.slice(token.index));
        return token[2];
      }
      at = end + 3;
      TOKEN.lastIndex = at;
      add("string", text.slice(token.index, at));
    } else add(token[1] ? "comment" : token[3] ? "string" : "number", token[0]);
  }
  add("", text.slice(at));
  return "";
}

// Underline the line of an error, and show its message below.
function mark(error) {
  for (const line of shown) line.element.classList.remove("wrong");
  const root = find("problem");
  root.hidden = !error;
  area.setAttribute("aria-invalid", Boolean(error));
  if (!error) {
    root.replaceChildren();
    return;
  }
  const line = error.line ? shown[Math.min(error.line, shown.length) - 1] : null;
  line?.element.classList.add("wrong");
  root.replaceChildren(...(error.line ? [make("button", { type: "button", class: "link", onclick: () => goToLine(error.line) }, `line ${error.line}`), " "] : []), error.message);
}

function goToLine(number) {
  const at = shown.slice(0, number - 1).reduce((sum, line) => sum + line.text.length + 1, 0);
  area.focus();
  area.setSelectionRange(at, at + (shown[number - 1]?.text.length ?? 0));
  scrollToLine(number - 1);
}
