// Called machines are drawn as boxes; a closed box is drawn as one state.

import { make } from "/dom.js";

const closed = new Set(); // titles of pictures whose boxes are closed

export const isClosed = (picture, title) => Boolean(picture.closed) && closed.has(title);

// The picture that is drawn, with open or closed boxes, and the index in it of a state.
export function viewOf(picture, title) {
  const whole = picture.excerpt ?? picture;
  if (!isClosed(picture, title)) return { picture: whole, indexOf: (state) => whole.states.indexOf(state) };
  return { picture: picture.closed, indexOf: (state) => picture.closed.stands_for[picture.states.indexOf(state)] ?? -1 };
}

function toggle(title, redrawAll) {
  if (!closed.delete(title)) closed.add(title);
  redrawAll();
}

// A button that closes and opens all boxes of a picture; null if it has none that can be closed.
export function boxesButton(picture, title, owner, redrawAll) {
  if (!picture.closed) return null;
  return make("button", { type: "button", class: "small", "aria-pressed": closed.has(title), "aria-label": `Close boxes of ${owner}`, "data-key": `boxes ${title}`, onclick: () => toggle(title, redrawAll) }, "Close boxes");
}

// Let a click on a box do the same.
export function makeToggles({ boxes, nodes }, title, redrawAll) {
  for (const box of [...boxes, ...nodes.filter((node) => node.matches(".closed"))]) {
    box.classList.add("toggle");
    box.addEventListener("click", () => toggle(title, redrawAll));
  }
}
