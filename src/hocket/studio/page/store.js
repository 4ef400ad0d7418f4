// The text, which is the one truth: its history, what it means, where it is kept, and who is told.

import { ask, watchConnection } from "/api.js";
import { toast } from "/dom.js";

const MOST_STEPS = 300; // of the history
const TOGETHER = 900; // milliseconds between keys that make one step of the history
const PARTING = 2000; // milliseconds that a page which is loaded again may take to let go of its name
const HURRY = 1000; // milliseconds that a check may go on for while a newer text waits
const LAG = 150; // milliseconds after which what is shown no longer counts as the answer to the text

// A file: its name, what it had when it was read or written, the text that it has, and what somebody else has written.
// There is one value for each, which all moments of the history share: what is on disk does not change with it.
// `places` says where states were put: by part of the file, by state.
const newFile = (name = null) => ({ name, mark: null, saved: "", theirs: null, places: {} });
const files = new Map(); // by name

export const store = {
  text: "",
  file: newFile(),
  world: null, // the last meaning that there was
  verdict: null, // what was played and searched for that world; null until then
  error: null, // why the text means nothing now
  checkedAt: null, // when the server last said what a text means
  isAway: false, // nobody answers
  revision: 0, // counts the texts
};

const watchers = new Set();
const past = [];
const future = [];
const LONG_AGO = -Infinity; // times are counted from the loading of the page
let lastTyped = LONG_AGO;

export const watch = (watcher) => watchers.add(watcher);
const tell = (what) => watchers.forEach((watcher) => watcher(what));
export const isDirty = () => store.text !== store.file.saved;
export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;

// Changing.

const moment = () => ({ text: store.text, file: store.file, places: store.file.places });

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
  past.push(moment());
  if (past.length > MOST_STEPS) past.shift();
  future.length = 0;
}

function settle(text, how, world = null) {
  store.text = text;
  store.revision += 1;
  keepDraft();
  tell(how);
  if (world) understood(world);
  else understand();
}

function step(from, to) {
  if (!from.length) return;
  to.push(moment());
  const { text, file, places } = from.pop();
  const isMove = text === store.text && file === store.file;
  store.file = file;
  keepPlaces(places);
  lastTyped = LONG_AGO;
  if (isMove) tell("moved");
  else settle(text, "changed");
}

// Put a state of a part somewhere else, or let all of them be laid out anew.
export function place(part, spots) {
  remember();
  keepPlaces({ ...store.file.places, [part]: spots });
  tell("moved");
}

export function keepPlaces(places, file = store.file) {
  file.places = places;
  if (file.name === null) return;
  try {
    localStorage.setItem(placesKey(file.name), JSON.stringify(places));
  } catch {} // a full storage loses no text
}

const placesKey = (name) => `hocket places ${JSON.stringify([folder, name])}`;

export const undo = () => step(past, future);
export const redo = () => step(future, past);

// Understanding.

// Has the newest text answered: one request after another, of which one that takes long is given up for a newer text.
function follower(job, take) {
  let pending = null; // since when, and how to give it up
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
        answered = -1; // the connection is back some time, and then it is asked again
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
  tell("judged");
});

let gestures = 0; // that wait for their text
export const isBehind = () => store.isAway || gestures > 0 || meaning.isBehind();

// What is shown is marked as old unless an answer comes soon.
function expectAnswer() {
  setTimeout(() => isBehind() && tell("behind"), LAG);
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
    store.world = Object.assign(world, { text: store.text }); // a game is played by what is shown
    store.verdict = null;
    judgement.run();
  }
  tell("understood");
  document.documentElement.dataset.revision = store.revision;
}

watchConnection((state) => {
  store.isAway = state !== "here";
  if (state !== "here") tell("behind");
  else if (meaning.isBehind()) understand();
  else {
    tell("understood");
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
    tell("refused");
  });
  return queue;
}

async function perform(what) {
  const refuse = (why) => {
    gestures -= 1;
    toast(why);
    tell("refused");
    return false;
  };
  if (store.error && !meaning.isBehind()) return refuse("Fix the errors in the text first.");
  const before = store.text;
  const answer = await ask("edit", { text: before, gesture: what, name: store.file.name });
  if (answer.refused) return refuse(answer.refused);
  if (store.text !== before) return refuse("The text has changed in the meantime; try again.");
  gestures -= 1;
  if (answer.text === before) tell("refused"); // nothing to change
  change(answer.text, answer.world);
  return true;
}

// Drafts: what was typed and not saved, so that neither a restart nor a crash loses it.

const PREFIX = "hocket draft ";
let tab = sessionStorage.getItem("hocket tab");
let folder = "";

// Each tab has a name of its own, and holds a lock of that name as long as it lives. One that is loaded again may have to
// wait for the lock, as the browser takes it from what was there before in its own time; a copy of a tab waits in vain.
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

function keepDraft() {
  const key = draftKey(store.file.name);
  try {
    if (isDirty()) localStorage.setItem(key, JSON.stringify({ text: store.text, mark: store.file.mark, time: Date.now() }));
    else localStorage.removeItem(key);
  } catch {
    toast("The browser’s storage is full: unsaved text is not kept. Save soon.");
  }
}

// Find what was typed into a file and not saved: by this tab, or by one that is gone.
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
  const answer = name === null ? { text: null, mark: null } : await ask("open", { name });
  if (answer.refused) {
    toast(answer.refused);
    return false;
  }
  if (name !== null && answer.name === null) {
    const draft = store.text ? null : await findDraft(null);
    begin(draft?.isOwn ? draft.text : answer.text); // a page that is loaded again goes on where it was
    tell("opened");
    toast(`${name} was converted to TOML. Save it to write a file.`);
    return true;
  }
  const draft = await findDraft(name);
  const saved = answer.text ?? "";
  const file = Object.assign(files.get(name) ?? { ...newFile(name), places: keptPlaces(name) }, { mark: answer.mark, saved, theirs: null });
  if (name !== null) files.set(name, file);
  if (draft && draft.text !== saved) {
    if (draft.mark === answer.mark) file.restored = saved;
    else Object.assign(file, { mark: draft.mark, theirs: { text: answer.text, mark: answer.mark } });
    change(draft.text, null, file);
    localStorage.removeItem(draft.key);
    keepDraft();
  } else change(answer.text ?? fallback, null, file);
  if (!past.some((version) => version.text)) past.length = 0; // there is nothing before the first text
  tell("opened");
  return true;
}

function keptPlaces(name) {
  try {
    return JSON.parse(localStorage.getItem(placesKey(name))) ?? {};
  } catch {
    return {};
  }
}

// A restored draft is kept, or the file as it is comes back, and undo has the draft.
export function settleDraft(isKept) {
  const { restored } = store.file;
  delete store.file.restored;
  if (!isKept) change(restored);
  tell("file");
}

// Begin with a text that has no file yet.
export const begin = (text) => change(text, null, newFile());

export const theirs = () => store.file.theirs;

let writing = Promise.resolve(); // one after another, or a second one would take the first for somebody else's
let writes = 0; // counts those that have begun or ended

export function save(name = store.file.name) {
  const { text, file } = store; // as they are now, whatever is typed or opened meanwhile
  const turn = writing.then(() => write(name, text, file));
  writing = turn.catch(() => {});
  return turn;
}

async function write(name, text, file) {
  writes += 1;
  const answer = await ask("save", { name, text, expected: name === file.name ? file.mark : null }).finally(() => (writes += 1));
  if (answer.refused) toast(answer.refused);
  else if (answer.conflict) {
    if (name === file.name) conflict(file, answer.conflict);
    else toast(`The file ${name} already exists; open it, or choose another name.`);
  } else {
    localStorage.removeItem(draftKey(file.name));
    Object.assign(file, { name, mark: answer.mark, saved: text, theirs: null });
    delete file.restored;
    files.set(name, file);
    keepDraft();
    keepPlaces(file.places, file);
    tell("file");
    return true;
  }
  return false;
}

function conflict(file, { text, mark }) {
  file.theirs = { text, mark };
  tell("conflict");
}

// Two texts, and a choice between them; either way the other one can be had again by undo.
export function keepMine() {
  const { mark, text } = theirs();
  Object.assign(store.file, { mark, saved: text ?? "", theirs: null });
  keepDraft();
  tell("file");
  return save();
}

export function takeTheirs() {
  const { mark, text } = theirs();
  Object.assign(store.file, { mark, saved: text ?? "", theirs: null });
  change(text ?? "");
  tell("file");
}

// A file that somebody else changes is read again where nothing was typed, and else there is a choice.
export async function lookAtDisk() {
  const { file } = store;
  const { name, mark } = file;
  const before = writes;
  const isMoot = () => store.file !== file || file.mark !== mark || file.theirs || writes !== before || writes % 2;
  if (name === null || isMoot()) return;
  const seen = await ask("mark", { name });
  if (seen.refused || seen.mark === mark || isMoot()) return;
  const answer = await ask("open", { name });
  if (answer.refused || isMoot()) return;
  if (!isDirty() && answer.text !== null) {
    Object.assign(file, { mark: answer.mark, saved: answer.text });
    change(answer.text);
    tell("file");
    toast("The file has changed on disk and was reloaded.");
  } else conflict(file, answer);
}
