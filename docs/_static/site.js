// A button on every piece of code that copies what is to be typed: without prompts, and without what is printed.
function typed(text) {
  const lines = text.split("\n");
  const prompt = ["$ ", ">>> "].find((start) => lines.some((line) => line.startsWith(start)));
  if (prompt === undefined) return text;
  const more = prompt === ">>> " ? /^(>>> |\.\.\. ?)/ : /^\$ /;
  return `${lines.filter((line) => more.test(line)).map((line) => line.replace(more, "")).join("\n")}\n`;
}

for (const block of document.querySelectorAll("div.highlight")) {
  const code = block.querySelector("pre");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(typed(code.textContent));
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}

// What the theme leaves out for those who cannot see the page, or have no mouse.
for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.setAttribute("aria-level", "2");
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
for (const box of document.querySelectorAll("pre, .table-wrapper")) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}
