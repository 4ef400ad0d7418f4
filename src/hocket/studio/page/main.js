// The page: banners, tabs, global keys, and updates when the text has changed.

import { ask, watchConnection } from "/api.js";
import { find, make, offerThemes, whenFree } from "/dom.js";
import { startEditor } from "/editor.js";
import { showEvents } from "/events.js";
import { acceptLogs } from "/log.js";
import { showMachines } from "/machines.js";
import { showMap } from "/map.js";
import { saveOrAsk, showStart, startWith } from "/start.js";
import { startDivider } from "/divider.js";
import { canRedo, canUndo, isDirty, keepMine, lookAtDisk, nameTab, open, redo, settleDraft, store, takeTheirs, theirs, undo, watch } from "/store.js";
import { showCounterexample, showVerdict } from "/verdict.js";

const LOOK_EVERY = 2000; // milliseconds between checks of the file on disk

function showWorld() {
  const { world, error } = store;
  find("world").classList.toggle("stale", Boolean(error));
  if (!world) {
    find("verdict").replaceChildren(make("p", { class: "soft" }, error ? "The task is shown here once the text has no errors." : ""));
    offerStart();
    return;
  }
  if (!error) {
    showMachines(world);
    showMap(world);
    showEvents(world);
    showCounterexample(world);
  }
  showVerdict();
  offerStart();
}

// Offer other texts to start from if the text is empty.
function offerStart() {
  if (!store.text.trim()) find("verdict").append(make("button", { type: "button", class: "main", onclick: showStart }, "Start from a task"));
}

// Redraw after a refused gesture, which may have left changes on the page.
function showAgain() {
  showMachines(store.world);
  showMap(store.world, true);
  showEvents(store.world);
  showVerdict();
}

function showFile() {
  const { file, world } = store;
  const name = file.name ?? "untitled";
  find("file-name").textContent = name;
  find("saved").textContent = isDirty() ? "not saved" : "saved";
  find("saved").classList.toggle("dirty", isDirty());
  find("undo").disabled = !canUndo();
  find("redo").disabled = !canRedo();
  document.title = `${isDirty() ? "• " : ""}${file.name ?? world?.name ?? "hocket"} – hocket studio`;
}

function banner(id, ...content) {
  find(id)?.remove();
  if (content.length) find("banners").append(make("div", { id, class: "banner", role: "alert" }, content));
}

// Offer to keep or discard unsaved text that was restored.
function showRestored() {
  if (store.file.restored === undefined) banner("restored");
  else if (!find("restored")) {
    banner("restored", make("span", {}, "Your unsaved text was restored."),
      make("button", { type: "button", onclick: () => settleDraft(true) }, "Keep it"),
      make("button", { type: "button", onclick: () => settleDraft(false) }, "Discard it (undo brings it back)"));
  }
}

let shownConflict = null;

function showConflict() {
  if (theirs() === shownConflict) return;
  shownConflict = theirs();
  if (!theirs()) {
    banner("conflict");
    return;
  }
  const gone = theirs().text === null;
  banner("conflict", make("span", {}, gone ? "The file was deleted on disk." : "The file was changed on disk."),
    make("button", { type: "button", onclick: () => keepMine() }, "Keep my version and save it"),
    gone ? null : make("button", { type: "button", onclick: () => takeTheirs() }, "Load the version on disk (undo brings mine back)"));
}

watch((what) => {
  if (what === "understood") whenFree(showWorld);
  if (what === "moved" && store.world) whenFree(() => showMachines(store.world));
  if ((what === "behind" || what === "judged") && store.world) showVerdict();
  if (what === "refused" && store.world && !store.error) whenFree(showAgain);
  showRestored();
  showConflict();
  showFile();
});

watchConnection((state) => {
  if (state === "here") banner("connection");
  else if (state === "away") banner("connection", make("span", {}, "The studio does not answer. What you type is kept in this browser; checks continue when it is back."));
  else banner("connection", make("span", {}, "Open the address that `hocket studio` has printed, with its token. What you typed is kept."));
});

// Tabs.

const TABS = ["design", "play", "train", "watch"];
const panels = { design: null, play: () => import("/play.js"), train: () => import("/train.js"), watch: () => import("/watch.js") };

async function showTab(name, isMeant = false) {
  for (const tabName of TABS) {
    const tab = find(`tab-${tabName}`);
    tab.setAttribute("aria-selected", tabName === name);
    tab.tabIndex = tabName === name ? 0 : -1;
    find(tabName).hidden = tabName !== name;
  }
  const module = await panels[name]?.();
  if (!find(name).hidden) module?.show(isMeant);
  if (isMeant && matchMedia("(max-width: 600px)").matches) find(`tab-${name}`).parentElement.scrollIntoView(); // on a phone the text is above
}

for (const name of TABS) {
  find(`tab-${name}`).addEventListener("click", () => showTab(name, true));
  find(`tab-${name}`).addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const next = TABS[(TABS.indexOf(name) + by + TABS.length) % TABS.length];
    showTab(next);
    find(`tab-${next}`).focus();
  });
}

// Keys that work everywhere.

addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
  const key = event.key.toLowerCase();
  const isField = event.target.matches("input[type=text], input:not([type])") && event.target.value !== event.target.defaultValue;
  const acts = { s: saveOrAsk, o: showStart, ...(isField ? {} : { z: event.shiftKey ? redo : undo, y: redo }) };
  if (!acts[key]) return;
  event.preventDefault();
  acts[key]();
});

find("undo").addEventListener("click", undo);
find("redo").addEventListener("click", redo);
find("save").addEventListener("click", saveOrAsk);
find("file").addEventListener("click", showStart);

// Beginning.

async function begin() {
  offerThemes(find("theme"), localStorage);
  startEditor();
  startDivider();
  acceptLogs();
  const hello = await untilAnswered("hello");
  await nameTab(hello.folder);
  const fresh = await startWith("new task");
  if (!(await open(hello.name, fresh))) await open(null, fresh); // the file cannot be read; a message says why
  const look = () => document.hidden || lookAtDisk().catch(() => {});
  setInterval(look, LOOK_EVERY);
  document.addEventListener("visibilitychange", look);
}

async function untilAnswered(name) {
  for (;;) {
    try {
      return await ask(name);
    } catch {
      await new Promise((done) => setTimeout(done, 700));
    }
  }
}

begin();
