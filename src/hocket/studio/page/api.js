// Requests to the server; if it does not answer, the page tries again until it does.

const KEPT = "hocket key";
const given = document.querySelector("meta[name=hocket-key]").content;
if (given) {
  sessionStorage.setItem(KEPT, given);
  history.replaceState(null, "", "/"); // the token is not left in the address
}

export class Away extends Error {} // the server does not answer
export class Locked extends Error {} // the server does not know this page

async function post(path, body, signal, key = null) {
  const nonce = draw();
  const headers = { "Content-Type": "application/json", "X-Hocket-Nonce": nonce, ...(key ? { "X-Hocket-Key": key } : {}) };
  let response;
  try {
    response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), cache: "no-store", signal });
  } catch {
    throw new Away("The studio does not answer.");
  }
  if (response.headers.get("X-Hocket-Proof") !== (await sign(`answer ${nonce}`))) throw new Locked("This is not the studio that this page is from.");
  return response;
}

const draw = () => hex(crypto.getRandomValues(new Uint8Array(16)));
const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const encode = (words) => new TextEncoder().encode(words);
let secret = null; // the secret as a key for signing
let session = { run: null, key: null }; // the key of the latest run of the studio

async function sign(text) {
  secret ??= crypto.subtle.importKey("raw", encode(sessionStorage.getItem(KEPT)), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(await crypto.subtle.sign("HMAC", await secret, encode(text)));
}

// Let the studio prove that it has the page's secret before anything confidential is sent. Return the key of this run of
// the studio, which is derived from the secret.
async function meet(signal) {
  if (!sessionStorage.getItem(KEPT)) throw new Locked("This page has no key.");
  const nonce = draw();
  const response = await post("/api/prove", { nonce }, signal);
  if (!response.ok) throw new Away(`The studio answered ${response.status}.`);
  const { run, proof } = await response.json().catch(() => ({}));
  if (proof !== (await sign(`studio ${run} ${nonce}`))) throw new Locked("This is not the studio that this page is from.");
  if (session.run !== run) session = { run, key: await sign(`session ${run}`) };
  return session.key;
}

export async function request(path, body = {}, signal = null) {
  const key = await meet(signal); // before each request, as another program may have taken the port
  const response = await post(path, body, signal, key);
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
  if (state !== "here") setTimeout(tryAgain, 500);
}

async function tryAgain() {
  try {
    await ask("hello");
  } catch {
    if (state !== "here") setTimeout(tryAgain, 700);
  }
}

// Counts the answers that the page waits for. At 0, the page does not change by itself.
const wait = (by) => {
  const { dataset } = document.documentElement;
  dataset.awaited = Number(dataset.awaited ?? 0) + by;
};

// Send a request; a refusal with its reason is an answer, too. The signal cancels the request.
export async function ask(name, body = {}, signal = null) {
  wait(1);
  try {
    const answer = await (await request(`/api/${name}`, body, signal)).json();
    become("here");
    return answer;
  } catch (error) {
    if (!signal?.aborted) become(error instanceof Locked ? "locked" : "away");
    throw error;
  } finally {
    wait(-1);
  }
}

// Read a stream of JSON values, one per line, until it ends.
export async function follow(name, body, receive) {
  const reader = (await request(`/api/${name}`, body)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) receive(JSON.parse(line));
  }
}
