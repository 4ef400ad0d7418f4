// Elements, text and numbers for all of the page. Data only ever become text or attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, content) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...content);
  return element;
}

const make = (name, attributes = {}, ...content) => fill(document.createElement(name), attributes, content);
const draw = (name, attributes = {}, ...content) => fill(document.createElementNS(SVG, name), attributes, content);

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const grouped = (value) => Math.round(value).toLocaleString("en-US");
const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// A number of test steps, as the tables write it.
function stepsText(value) {
  return value >= 100 || Number.isInteger(value) ? grouped(value) : value.toFixed(1);
}

// A row of buttons of which one is pressed; `choose` is told its value.
function segments(label, options, value, choose) {
  const buttons = options.map(([own, text]) =>
    make("button", { type: "button", "data-value": own, onclick: () => press(own, true) }, text));
  const press = (own, isChoice) => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.value === own);
    if (isChoice) choose(own);
  };
  press(value, false);
  const row = make("span", { class: "segments", role: "group", "aria-label": label }, ...buttons);
  return Object.assign(make("span", { class: "choice" }, label, row), { press });
}

// Light and dark: the system's choice, until the button is pressed.
function offerThemes() {
  const button = document.querySelector(".theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const shapes = {
    dark: "M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z",
    light: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM11 1h2v4h-2zM11 19h2v4h-2zM1 11h4v2H1zM19 11h4v2h-4zM4.2 5.6 5.6 4.2 8.4 7 7 8.4zM15.6 17l1.4-1.4 2.8 2.8-1.4 1.4zM4.2 18.4 7 15.6 8.4 17l-2.8 2.8zM15.6 7l2.8-2.8 1.4 1.4L17 8.4z",
  };
  const show = () => {
    const other = isDark() ? "light" : "dark";
    button.replaceChildren(draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: shapes[other] })));
    button.setAttribute("aria-label", `Switch to ${other} colours`);
    button.title = `Switch to ${other} colours`;
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}

// The bar says which task is being read.
function followReading() {
  const links = new Map([...document.querySelectorAll(".links a")].map((link) => [link.hash.slice(1), link]));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = links.get(entry.target.id);
      if (entry.isIntersecting) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-35% 0px -64% 0px" });
  for (const id of links.keys()) watcher.observe(document.getElementById(id));
}

offerThemes();
followReading();
