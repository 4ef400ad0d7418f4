// Files: open or create one, or start from a task of the gallery.

import { ask } from "/api.js";
import { find, make, toast } from "/dom.js";
import { drawMap } from "/ground.js";
import { begin, open, save, store } from "/store.js";

let gallery = null;

export async function showStart() {
  const dialog = make("dialog", { class: "start", "aria-label": "Open or start", onclose: () => dialog.remove() });
  const name = make("input", { type: "text", placeholder: "name of a file", "aria-label": "File in the studio’s folder or below", size: 24, oninput: () => showFiles() });
  const files = make("ul", { class: "files" });
  const list = make("div", { class: "gallery" }, make("p", { class: "soft" }, "…"));
  let known = [];
  const openFile = async (wanted, text = null) => {
    if (await open(wanted, text ?? "").catch(() => false)) dialog.close();
  };
  const matches = () => known.filter((file) => file.toLowerCase().includes(name.value.trim().toLowerCase()));
  const showFiles = () => {
    const wanted = withSuffix(name.value.trim());
    const isNew = wanted && !known.includes(wanted);
    files.replaceChildren(...matches().map((file) => make("li", {}, make("button", { type: "button", class: "link", onclick: () => openFile(file) }, file))),
      ...(isNew && wanted.endsWith(".toml") ? [make("li", {}, make("button", { type: "button", class: "small create", onclick: async () => openFile(wanted, await startWith("new task")) }, `Create ${wanted}`))] : []));
  };
  const submit = async (event) => {
    event.preventDefault();
    await listed;
    const wanted = withSuffix(name.value.trim());
    if (known.includes(wanted) || /\.\.|^\//.test(wanted) || !wanted.endsWith(".toml")) openFile(wanted);
    else if (matches().length === 1) openFile(matches()[0]);
    else files.querySelector(".create")?.focus();
  };
  const listed = ask("files").catch(() => null).then((answer) => {
    known = answer?.files ?? [];
    showFiles();
  });
  dialog.append(
    make("div", { class: "head" }, make("h2", {}, "Open a file"), make("button", { type: "button", class: "small", onclick: () => dialog.close() }, "Close")),
    make("form", { class: "choice", onsubmit: submit }, name, make("button", { class: "main" }, "Open")), files,
    make("h2", {}, "Start from"), list);
  document.body.append(dialog);
  dialog.showModal();
  name.focus();
  await listed;
  gallery ??= (await ask("gallery").catch(() => null))?.starts ?? null;
  list.replaceChildren(...(gallery ?? []).map((start) => card(start, dialog)));
}

function card({ name, map, description }, dialog) {
  const picture = map ? drawMap({ map }) : make("span", { class: "no-map" }, "u0 → u1");
  picture.setAttribute("aria-hidden", "true");
  return make("button", { type: "button", class: "start-card", onclick: () => beginWith(name, dialog) },
    picture, make("b", {}, name), make("small", {}, description || "A machine without a map."));
}

async function beginWith(name, dialog) {
  const { text } = await ask("start", { name });
  begin(text);
  dialog.close();
}

const SUFFIXES = /\.(toml|json|txt|dot|gv|hoa)$/i; // of files that can be read
export const withSuffix = (name) => (!name || SUFFIXES.test(name) ? name : `${name}.toml`);

// Save the file; ask for a name if it has none.
export function saveOrAsk() {
  if (store.file.name !== null) return save().catch(() => toast("The studio does not answer. Nothing is lost; try again when it is back."));
  const proposed = `${(store.world?.name ?? "task").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "task"}.toml`;
  const input = make("input", { type: "text", value: proposed, "aria-label": "Name of the file", size: 26 });
  const dialog = make("dialog", { class: "small-dialog centred", "aria-label": "Save", onclose: () => dialog.remove() },
    make("form", {
      onsubmit: async (event) => {
        event.preventDefault();
        if (await save(withSuffix(input.value.trim())).catch(() => false)) dialog.close();
      },
    }, make("span", {}, "Save as "), input, make("button", { class: "main" }, "Save")));
  document.body.append(dialog);
  dialog.showModal();
  input.select();
  return null;
}

export const startWith = (name) => ask("start", { name }).then(({ text }) => text);
