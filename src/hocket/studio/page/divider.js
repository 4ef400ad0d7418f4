// The divider between text and drawings, moved by pointer or keys; its position is kept.

import { clamp, find } from "/dom.js";

const KEPT = "hocket divider";
const [LEAST, MOST] = [18, 70]; // width of the text, in per cent of the page

export function startDivider() {
  const divider = find("divider");
  const move = (share) => {
    const kept = clamp(Math.round(share), LEAST, MOST);
    divider.setAttribute("aria-valuenow", kept);
    divider.parentElement.style.setProperty("--text", `${kept}%`);
    localStorage.setItem(KEPT, kept);
  };
  const now = () => Number(divider.getAttribute("aria-valuenow"));
  const kept = Number(localStorage.getItem(KEPT));
  if (kept) move(kept);
  divider.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    divider.setPointerCapture(event.pointerId);
  });
  divider.addEventListener("pointermove", (event) => {
    if (divider.hasPointerCapture(event.pointerId)) move((100 * event.clientX) / innerWidth);
  });
  divider.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -2, ArrowRight: 2, Home: -100, End: 100 }[event.key];
    if (!by) return;
    event.preventDefault();
    move(now() + by);
  });
  const proof = document.querySelector(".proof");
  new ResizeObserver(() => find("world").style.setProperty("--proof", `${proof.offsetHeight}px`)).observe(proof);
}
