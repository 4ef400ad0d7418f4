// Machines that another one calls are drawn as boxes, which can be closed: each is then one state.

import { make } from "/dom.js";

const closed = new Set(); // titles of pictures whose boxes are closed

export const isClosed = (picture, title) => Boolean(picture.closed) && closed.has(title);

// What is drawn of a picture, and where a state is in it: of a closed box there is one state.
export function viewOf(picture, title) {
  const whole = picture.excerpt ?? picture;
  if (!isClosed(picture, title)) return { picture: whole, indexOf: (state) => whole.states.indexOf(state) };
  return { picture: picture.closed, indexOf: (state) => picture.closed.stands_for[picture.states.indexOf(state)] ?? -1 };
}

function toggle(title, redrawAll) {
  if (!closed.delete(title)) closed.add(title);
  redrawAll();
}

// A button that closes all boxes of a picture and opens them again; none if there are none that can be closed.
export function boxesButton(picture, title, whose, redrawAll) {
  if (!picture.closed) return null;
  return make("button", { type: "button", class: "small", "aria-pressed": closed.has(title), "aria-label": `Close boxes of ${whose}`, "data-key": `boxes ${title}`, onclick: () => toggle(title, redrawAll) }, "Close boxes");
}

// A click on a box does the same.
export function makeToggles({ boxes, nodes }, title, redrawAll) {
  for (const box of [...boxes, ...nodes.filter((node) => node.matches(".closed"))]) {
    box.classList.add("toggle");
    box.addEventListener("click", () => toggle(title, redrawAll));
  }
}
