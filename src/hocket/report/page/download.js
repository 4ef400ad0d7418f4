// Downloads of text that the page makes.

// A row of buttons, each with a name, a description and an action.
function downloads(...offers) {
  const buttons = offers.map(([name, description, act]) =>
    make("button", { type: "button", "data-download": name, title: `Save ${description}`, onclick: act }, name));
  return make("div", { class: "downloads", role: "group", "aria-label": "Downloads" }, "save ", ...buttons);
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: address, download: name.replace(/[^A-Za-z0-9_.+-]+/g, "_") });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// Properties of a drawing that the page's style sets, which are copied to its file.
const PROPERTIES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-opacity",
  "opacity", "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "paint-order", "display",
];

// A drawing as a separate file, with its style on this page and the background.
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const [originals, copied] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  originals.forEach((element, index) => {
    const style = getComputedStyle(element);
    copied[index].setAttribute("style", PROPERTIES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    copied[index].removeAttribute("class");
  });
  const [left, top, width, height] = copy.getAttribute("viewBox").split(/[ ,]+/).map(Number);
  const paper = getComputedStyle(document.body).backgroundColor;
  copy.prepend(draw("rect", { x: left, y: top, width, height, style: `fill:${paper}` }));
  for (const [name, value] of Object.entries({ xmlns: SVG, width, height })) copy.setAttribute(name, value);
  for (const name of ["tabindex", "role"]) copy.removeAttribute(name);
  return new XMLSerializer().serializeToString(copy);
}
