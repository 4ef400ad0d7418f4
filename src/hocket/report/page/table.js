// Sortable tables: a click on a column's head sorts by it, a second one in reverse; missing values come last.

function sortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const arrow = make("span", { class: "arrow", "aria-hidden": "true" });
    const button = make("button", { type: "button" }, ...head.childNodes);
    const title = button.firstChild;
    title.after(arrow);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const isRising = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) {
        other.removeAttribute("aria-sort");
        other.querySelector(".arrow").textContent = "";
      }
      head.setAttribute("aria-sort", isRising ? "ascending" : "descending");
      arrow.textContent = isRising ? "↑" : "↓";
      body.append(...sorted([...body.rows], column, head.dataset.sort === "number", isRising));
    });
  });
}

function sorted(rows, column, isNumber, isRising) {
  const value = (row) => row.cells[column].dataset.value;
  const compare = isNumber
    ? (one, other) => Number(one) - Number(other)
    : (one, other) => one.localeCompare(other, "en", { numeric: true });
  const known = rows.filter((row) => value(row) !== "");
  const missing = rows.filter((row) => value(row) === "");
  known.sort((one, other) => (isRising ? 1 : -1) * compare(value(one), value(other)));
  return [...known, ...missing];
}

document.querySelectorAll("table[data-sortable]").forEach(sortable);
