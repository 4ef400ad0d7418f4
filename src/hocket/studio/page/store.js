// The text, from which everything else follows: its history, meaning, file and drafts, and the watchers of changes.

import { ask, watchConnection } from "/api.js";
import { toast } from "/dom.js";

const MOST_STEPS = 300; // of the history
const TOGETHER = 900; // milliseconds between keys that make one step of the history
const PARTING = 2000; // milliseconds to wait for the lock of a page that is being reloaded
const HURRY = 1000; // milliseconds that a check may continue while a newer text waits
const LAG = 150; // milliseconds after which an old verdict is marked as outdated

// A file: its name, fingerprint and text when it was last read or written, and a conflicting text of another program.
// All snapshots of the history share one object per file, as undo does not change the disk.
// `positions`: of states in drawings, by part of the file and state.
const newFile = (name = null) => ({ name, fingerprint: null, saved: "", theirs: null, positions: {} });
const files = new Map(); // by name

export const store = {
  text: "",
  file: newFile(),
  world: null, // the description of the last valid text
  verdict: null, // the slower checks of that text; null until they are done
  error: null, // the error in the text
  checkedAt: null, // time of the server's last answer
  isAway: false, // the server does not answer
  revision: 0, // counts changes of the text
};

const watchers = new Set();
const past = [];
const future = [];
const LONG_AGO = -Infinity; // performance.now() counts from the loading of the page
let lastTyped = LONG_AGO;

export const watch = (watcher) => watchers.add(watcher);
const notify = (what) => watchers.forEach((watcher) => watcher(what));
export const isDirty = () => store.text !== store.file.saved;
export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;

// Changing.

const snapshot = () => ({ text: store.text, file: store.file, positions: store.file.positions });

export function type(text) {
  if (text === store.text) return;
  const now = performance.now();
  if (now - lastTyped > TOGETHER || !past.length) remember();
  lastTyped = now;
  settle(text, "typed");
}

export function change(text, world = null, file = store.file) {
  if (text === store.text && file === store.file) return;
  remember();
  lastTyped = LONG_AGO;
  store.file = file;
  settle(text, "changed", world);
}

function remember() {
  past.push(snapshot());
  if (past.length > MOST_STEPS) past.shift();
  future.length = 0;
}

function settle(text, how, world = null) {
  store.text = text;
  store.revision += 1;
  keepDraft();
  notify(how);
  if (world) understood(world);
  else understand();
}

function step(from, to) {
  if (!from.length) return;
  to.push(snapshot());
  const { text, file, positions } = from.pop();
  const isMove = text === store.text && file === store.file;
  store.file = file;
  keepPositions(positions);
  lastTyped = LONG_AGO;
  if (isMove) notify("moved");
  else settle(text, "changed");
}

// Set the positions of the states of a part; undefined lets Graphviz place them again.
export function setPositions(part, positions) {
  remember();
  keepPositions({ ...store.file.positions, [part]: positions });
  notify("moved");
}

export function keepPositions(positions, file = store.file) {
  file.positions = positions;
  if (file.name === null) return;
  try {
    localStorage.setItem(positionsKey(file.name), JSON.stringify(positions));
  } catch {} // the storage is full; no text is lost
}

const positionsKey = (name) => `hocket places ${JSON.stringify([folder, name])}`;

export const undo = () => step(past, future);
export const redo = () => step(future, past);

// Understanding.

// Sends the newest text to a job, one request at a time; a slow one is cancelled when there is a newer text.
function follower(job, take) {
  let pending = null; // the start of the current request, and its controller
  let answered = -1;
  const giveUp = (old) => setTimeout(() => old === pending && old.call.abort(), Math.max(old.since + HURRY - performance.now(), 0));
  const once = async (revision) => {
    const { text, file } = store;
    pending = { since: performance.now(), call: new AbortController() };
    try {
      const answer = await ask(job, { text, name: file.name }, pending.call.signal);
      if (revision === store.revision) take(answer);
      answered = revision;
    } catch (error) {
      if (!pending.call.signal.aborted) throw error;
    }
  };
  return {
    isBehind: () => answered !== store.revision,
    skip: () => { answered = store.revision; },
    async run() {
      if (pending) {
        giveUp(pending);
        return;
      }
      try {
        while (answered !== store.revision) await once(store.revision);
      } catch {
        answered = -1; // asked again when the connection is back
      } finally {
        pending = null;
      }
    },
  };
}

const meaning = follower("understand", understood);
const judgement = follower("judge", (verdict) => {
  if (store.error) return;
  store.verdict = verdict;
  notify("judged");
});

let gestures = 0; // that wait for an answer
export const isBehind = () => store.isAway || gestures > 0 || meaning.isBehind();

// Mark the verdict as outdated unless an answer comes soon.
function expectAnswer() {
  setTimeout(() => isBehind() && notify("behind"), LAG);
}

function understand() {
  expectAnswer();
  return meaning.run();
}

function understood(world) {
  meaning.skip();
  store.checkedAt = new Date();
  if (world.refused) store.error = { message: world.refused, line: null, isCutOff: true };
  else store.error = world.error;
  if (!store.error) {
    store.world = Object.assign(world, { text: store.text }); // games are played with this text
    store.verdict = null;
    judgement.run();
  }
  notify("understood");
  document.documentElement.dataset.revision = store.revision;
}

watchConnection((state) => {
  store.isAway = state !== "here";
  if (state !== "here") notify("behind");
  else if (meaning.isBehind()) understand();
  else {
    notify("understood");
    judgement.run();
  }
});

// Gestures, one after another.

let queue = Promise.resolve();

export function gesture(what) {
  gestures += 1;
  expectAnswer();
  queue = queue.then(() => perform(what)).catch(() => {
    gestures -= 1;
    toast("The studio does not answer. Try again when it is back.");
    notify("refused");
  });
  return queue;
}

async function perform(what) {
  const refuse = (why) => {
    gestures -= 1;
    toast(why);
    notify("refused");
    return false;
  };
  if (store.error && !meaning.isBehind()) return refuse("Fix the errors in the text first.");
  const before = store.text;
  const answer = await ask("edit", { text: before, gesture: what, name: store.file.name });
  if (answer.refused) return refuse(answer.refused);
  if (store.text !== before) return refuse("The text has changed in the meantime; try again.");
  gestures -= 1;
  if (answer.text === before) notify("refused"); // nothing to change
  change(answer.text, answer.world);
  return true;
}

// Drafts: unsaved text in the browser's storage, for restarts and crashes.

const PREFIX = "hocket draft ";
let tab = sessionStorage.getItem("hocket tab");
let folder = "";

// Each tab has its own name, and holds a lock of that name while it is open. A reloaded tab may have to wait until the
// browser releases the lock of the page before; a duplicated tab never gets it, and takes a new name.
export async function nameTab(where) {
  folder = where;
  tab ??= crypto.randomUUID();
  const hold = (name) => new Promise((done) => {
    navigator.locks.request(`hocket tab ${name}`, { signal: AbortSignal.timeout(PARTING) }, () => {
      done(true);
      return new Promise(() => {});
    }).catch(() => done(false));
  });
  if (!(await hold(tab))) {
    tab = crypto.randomUUID(); // a copy of a tab
    await hold(tab);
  }
  sessionStorage.setItem("hocket tab", tab);
}

const draftKey = (name, who = tab) => `${PREFIX}${JSON.stringify([folder, name, who])}`;

// Keep unsaved text; drafts that browsers have already call its fingerprint `mark`.
function keepDraft() {
  const key = draftKey(store.file.name);
  try {
    if (isDirty()) localStorage.setItem(key, JSON.stringify({ text: store.text, mark: store.file.fingerprint, time: Date.now() }));
    else localStorage.removeItem(key);
  } catch {
    toast("The browser’s storage is full: unsaved text is not kept. Save soon.");
  }
}

// Find the draft of a file that this tab or a closed one has left.
async function findDraft(name) {
  const held = new Set((await navigator.locks.query()).held.map((lock) => lock.name));
  const drafts = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX)).flatMap((key) => {
    const [where, file, who] = JSON.parse(key.slice(PREFIX.length));
    if (where !== folder || file !== name || (who !== tab && held.has(`hocket tab ${who}`))) return [];
    return [{ key, isOwn: who === tab, ...JSON.parse(localStorage.getItem(key)) }];
  });
  return drafts.sort((one, other) => other.isOwn - one.isOwn || other.time - one.time)[0] ?? null;
}

// Files.

export async function open(name, fallback = "") {
  const answer = name === null ? { text: null, fingerprint: null } : await ask("open", { name });
  if (answer.refused) {
    toast(answer.refused);
    return false;
  }
  if (name !== null && answer.name === null) {
    const draft = store.text ? null : await findDraft(null);
    begin(draft?.isOwn ? draft.text : answer.text); // a reloaded page keeps its text
    notify("opened");
    toast(`${name} was converted to TOML. Save it to write a file.`);
    return true;
  }
  const draft = await findDraft(name);
  const saved = answer.text ?? "";
  const file = Object.assign(files.get(name) ?? { ...newFile(name), positions: savedPositions(name) }, { fingerprint: answer.fingerprint, saved, theirs: null });
  if (name !== null) files.set(name, file);
  if (draft && draft.text !== saved) {
    if (draft.mark === answer.fingerprint) file.restored = saved;
    else Object.assign(file, { fingerprint: draft.mark, theirs: { text: answer.text, fingerprint: answer.fingerprint } });
    change(draft.text, null, file);
    localStorage.removeItem(draft.key);
    keepDraft();
  } else change(answer.text ?? fallback, null, file);
  if (!past.some((version) => version.text)) past.length = 0; // the first text is not undone
  notify("opened");
  return true;
}

function savedPositions(name) {
  try {
    return JSON.parse(localStorage.getItem(positionsKey(name))) ?? {};
  } catch {
    return {};
  }
}

// Keep a restored draft, or return to the file on disk; undo then restores the draft.
export function settleDraft(isKept) {
  const { restored } = store.file;
  delete store.file.restored;
  if (!isKept) change(restored);
  notify("file");
}

// Begin with a text that has no file yet.
export const begin = (text) => change(text, null, newFile());

export const theirs = () => store.file.theirs;

let writing = Promise.resolve(); // one save after another, as else the first would look like a change by another program
let writes = 0; // counts beginnings and ends of saves

export function save(name = store.file.name) {
  const { text, file } = store; // later input does not belong to this save
  const turn = writing.then(() => write(name, text, file));
  writing = turn.catch(() => {});
  return turn;
}

async function write(name, text, file) {
  writes += 1;
  const answer = await ask("save", { name, text, expected: name === file.name ? file.fingerprint : null }).finally(() => (writes += 1));
  if (answer.refused) toast(answer.refused);
  else if (answer.conflict) {
    if (name === file.name) conflict(file, answer.conflict);
    else toast(`The file ${name} already exists; open it, or choose another name.`);
  } else {
    localStorage.removeItem(draftKey(file.name));
    Object.assign(file, { name, fingerprint: answer.fingerprint, saved: text, theirs: null });
    delete file.restored;
    files.set(name, file);
    keepDraft();
    keepPositions(file.positions, file);
    notify("file");
    return true;
  }
  return false;
}

function conflict(file, { text, fingerprint }) {
  file.theirs = { text, fingerprint };
  notify("conflict");
}

// Resolve a conflict by either text; undo restores the other one.
export function keepMine() {
  const { fingerprint, text } = theirs();
  Object.assign(store.file, { fingerprint, saved: text ?? "", theirs: null });
  keepDraft();
  notify("file");
  return save();
}

export function takeTheirs() {
  const { fingerprint, text } = theirs();
  Object.assign(store.file, { fingerprint, saved: text ?? "", theirs: null });
  change(text ?? "");
  notify("file");
}

// Check whether another program has changed the file: reload it, or report a conflict if there is unsaved text.
export async function lookAtDisk() {
  const { file } = store;
  const { name, fingerprint } = file;
  const before = writes;
  const isMoot = () => store.file !== file || file.fingerprint !== fingerprint || file.theirs || writes !== before || writes % 2;
  if (name === null || isMoot()) return;
  const seen = await ask("fingerprint", { name });
  if (seen.refused || seen.fingerprint === fingerprint || isMoot()) return;
  const answer = await ask("open", { name });
  if (answer.refused || isMoot()) return;
  if (!isDirty() && answer.text !== null) {
    Object.assign(file, { fingerprint: answer.fingerprint, saved: answer.text });
    change(answer.text);
    notify("file");
    toast("The file has changed on disk and was reloaded.");
  } else conflict(file, answer);
}
