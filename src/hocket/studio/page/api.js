// Talking to the server; a server that is away is waited for.

const KEPT = "hocket key";
const given = document.querySelector("meta[name=hocket-key]").content;
if (given) {
  sessionStorage.setItem(KEPT, given);
  history.replaceState(null, "", "/"); // the token is not left in the address
}

export class Away extends Error {} // nobody answers
export class Locked extends Error {} // the server does not know this page

const headers = () => ({ "Content-Type": "application/json", "X-Hocket-Key": sessionStorage.getItem(KEPT) ?? "" });

export async function request(path, body = {}, signal = null) {
  let response;
  try {
    response = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body), cache: "no-store", signal });
  } catch {
    throw new Away("The studio does not answer.");
  }
  if (response.status === 403) throw new Locked(await response.text());
  if (!response.ok) throw new Away(`The studio answered ${response.status}.`);
  return response;
}

const watchers = new Set();
let state = "here"; // or away, or locked

export function watchConnection(watch) {
  watchers.add(watch);
}

function become(next) {
  if (next === state) return;
  state = next;
  for (const watch of watchers) watch(state);
  if (state === "away") setTimeout(tryAgain, 500);
}

async function tryAgain() {
  try {
    await ask("hello");
  } catch {
    if (state === "away") setTimeout(tryAgain, 700);
  }
}

// Ask for something; what the server refuses with a reason is an answer, too. Who no longer wants to know gives a signal.
export async function ask(name, body = {}, signal = null) {
  try {
    const answer = await (await request(`/api/${name}`, body, signal)).json();
    become("here");
    return answer;
  } catch (error) {
    if (!signal?.aborted) become(error instanceof Locked ? "locked" : "away");
    throw error;
  }
}

// Read values that the server sends a line at a time, until it has no more.
export async function follow(name, body, tell) {
  const reader = (await request(`/api/${name}`, body)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) tell(JSON.parse(line));
  }
}
