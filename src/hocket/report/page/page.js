// Shared by all scripts of a report; elements.js comes before it.

const read = (id) => JSON.parse(document.getElementById(id).textContent);

// A number of test steps, as in the tables.
function stepsText(value) {
  return value >= 100 || Number.isInteger(value) ? grouped(value) : value.toFixed(1);
}

// A control with its label before it.
const labelled = (label, control) => make("span", { class: "choice" }, label, control);

// The navigation bar marks the task that is being read.
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

// Drawings that scroll can be reached by the keyboard.
const reachable = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const drawing of document.querySelectorAll(".drawing")) reachable.observe(drawing);

offerThemes(document.querySelector(".theme"));
followReading();
