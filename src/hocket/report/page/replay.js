// Replay of episodes: choose one, play it, stop it, go to any step.

const SPEEDS = [1, 2, 4, 8, 16, 32, 64]; // steps in a second
const LONGEST_FRAME = 0.25; // seconds between two frames that count, so that a hidden page continues where it was
let playing = null; // the one replay that plays

function showReplay(root, section) {
  const data = read(`episodes-${root.dataset.section}`);
  if (!data || !data.groups.length) {
    root.append(make("p", { class: "note" }, "No episode of this task was recorded."));
    return;
  }
  const player = { data, root, at: 0, speed: 4, episode: null, choice: firstChoice(data) };
  const parts = {
    map: mapLayer(section, data),
    crew: crewPanel(section, data),
    log: make("ol", { class: "log", "aria-label": "Events" }),
    status: make("span", { class: "at" }),
    badges: make("span", { class: "badges" }),
    outcome: make("span", { class: "outcome" }),
    ...controls(player),
  };
  Object.assign(player, { parts });
  parts.choices = choices(player);
  root.append(
    parts.choices.row,
    make("div", { class: "stage" },
      make("div", {}, parts.map.svg,
        make("div", { class: "status" }, parts.status, parts.outcome, parts.badges),
        parts.scrub, parts.buttons,
        make("p", { class: "keys" }, ...keyHelp())),
      make("div", {}, parts.crew.panel, make("p", { class: "log-title" }, "Events"), parts.log)),
    downloads(
      ["animation", "the episode as an animated drawing (SVG)", () => save(`${nameOf(player)}.svg`, "image/svg+xml", animation(player))],
      ["recording", "the episode as data (JSON)", () => save(`${nameOf(player)}.json`, "application/json", recording(player))]),
    ...(data.left_out ? [make("p", { class: "note" }, `${grouped(data.left_out)} more episodes are in the folder; they are left out to keep the page small.`)] : []));
  parts.map.gates = findGates(parts.map.svg, data); // after it was added to the page, so that shapes have a size
  root.addEventListener("keydown", (event) => onKey(player, event));
  load(player);
}

const nameOf = ({ data, choice }) => [data.title, data.groups[choice.group].label, choice.seed, choice.kind].join("-");

function keyHelp() {
  const key = (text) => make("kbd", {}, text);
  return [key("space"), " plays and pauses, ", key("←"), " ", key("→"), " step, ", key("Home"), " ", key("End"), ", ", key("+"), " ", key("−"), " change the speed"];
}

// The first episode that succeeds, if there is one.
function firstChoice(data) {
  for (const [group, entry] of data.groups.entries()) {
    for (const seed of seedsOf(entry)) {
      for (const kind of Object.keys(entry.seeds[seed])) {
        if (entry.seeds[seed][kind].success) return { group, seed, kind };
      }
    }
  }
  const seed = seedsOf(data.groups[0])[0];
  return { group: 0, seed, kind: Object.keys(data.groups[0].seeds[seed])[0] };
}

const kindsOf = (data) => [...new Set(data.groups.flatMap((group) => Object.values(group.seeds).flatMap(Object.keys)))];

const seedsOf = (group) => Object.keys(group.seeds).sort((one, other) => Number(one) - Number(other));

function choices(player) {
  const { data, choice } = player;
  const pick = (label, name) => {
    const select = make("select", { "data-choice": name, onchange: () => change(name, select.value) });
    return { select, label: make("label", { class: "choice" }, label, select) };
  };
  const learner = pick("learner", "group");
  const seed = pick("seed", "seed");
  const kind = segments("policy", kindsOf(data).map((name) => [name, name]), choice.kind, (name) => change("kind", name));
  learner.select.append(...data.groups.map((group, index) => make("option", { value: index }, group.label)));
  const change = (name, value) => {
    choice[name] = name === "group" ? Number(value) : value;
    refresh();
    load(player);
  };
  // If a learner lacks the chosen seed or policy, another one is chosen.
  const refresh = () => {
    const group = data.groups[choice.group];
    const seeds = seedsOf(group);
    if (!group.seeds[choice.seed]) choice.seed = seeds[0];
    const kinds = Object.keys(group.seeds[choice.seed]);
    if (!kinds.includes(choice.kind)) choice.kind = kinds[0];
    seed.select.replaceChildren(...seeds.map((number) => make("option", { value: number }, number)));
    learner.select.value = choice.group;
    seed.select.value = choice.seed;
    kind.press(choice.kind);
    for (const button of kind.querySelectorAll("button")) button.disabled = !kinds.includes(button.dataset.value);
  };
  refresh();
  return { row: make("div", { class: "choices" }, learner.label, seed.label, labelled("policy", kind)) };
}

const ICONS = {
  play: "M7 4v16l13-8z",
  pause: "M6 4h4v16H6zM14 4h4v16h-4z",
  again: "M12 5V1L6 6l6 5V7a5.5 5.5 0 1 1-5.3 7H4.6A7.5 7.5 0 1 0 12 5z",
  start: "M5 4h3v16H5zM20 4v16L9 12z",
  back: "M17 4v16L5 12z",
  forward: "M7 4v16l12-8z",
  end: "M16 4h3v16h-3zM4 4v16l11-8z",
};

function icon(button, name, label) {
  button.replaceChildren(draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: ICONS[name] })));
  button.setAttribute("aria-label", label);
  button.title = label;
}

function controls(player) {
  const button = (name, label, act) => {
    const element = make("button", { type: "button", "data-act": name, onclick: act });
    icon(element, name, label);
    return element;
  };
  const play = button("play", "Play", () => toggle(player));
  play.className = "play";
  const speed = make("select", { "data-choice": "speed", "aria-label": "Speed", onchange: () => setSpeed(player, Number(speed.value)) },
    ...SPEEDS.map((rate) => make("option", { value: rate }, `${rate} steps/s`)));
  const slider = make("input", { type: "range", min: 0, step: 1, value: 0, "aria-label": "Step" });
  slider.addEventListener("input", () => stepTo(player, Number(slider.value)));
  const ticks = draw("svg", { class: "events", preserveAspectRatio: "none", "aria-hidden": "true" });
  return {
    play, speed, slider, ticks,
    scrub: make("div", { class: "scrub" }, ticks, slider),
    buttons: make("div", { class: "controls" },
      button("start", "Go to the start", () => stepTo(player, 0)),
      button("back", "One step back", () => stepTo(player, Math.ceil(player.at) - 1)),
      play,
      button("forward", "One step forward", () => stepTo(player, Math.floor(player.at) + 1)),
      button("end", "Go to the end", () => stepTo(player, Infinity)),
      make("label", {}, make("span", {}, "speed"), speed)),
  };
}

// Playing.

function load(player) {
  const { data, choice, parts } = player;
  player.episode = decode(data.groups[choice.group].seeds[choice.seed][choice.kind], data.team);
  const { length, success, events } = player.episode;
  parts.slider.max = length;
  parts.outcome.textContent = success ? `completed in ${grouped(length)} steps` : `not completed within ${grouped(length)} steps`;
  parts.ticks.setAttribute("viewBox", `0 0 ${length || 1} 10`);
  parts.ticks.replaceChildren(...[...events].map(([step, happened]) => {
    const isShared = happened.some((event) => knowers(player, event).length > 1);
    return draw("line", { class: eventColor(player, happened[0]), x1: step, x2: step, y1: isShared ? 0 : 5, y2: 10 });
  }));
  parts.items = [...events].sort(([one], [other]) => one - other).map(([step, happened]) => logItem(player, step, happened));
  parts.log.replaceChildren(...(parts.items.length ? parts.items.map((item) => item.row) : [make("li", { class: "note" }, "No event happens in this episode.")]));
  if (!player.hasChosenSpeed) player.speed = length > 200 ? 16 : 4;
  parts.speed.value = player.speed;
  player.shown = -1;
  player.logged = 0;
  stepTo(player, 0);
}

function logItem(player, step, events) {
  const name = (event) => make("b", { class: eventColor(player, event) }, player.data.names[event]);
  const words = events.flatMap((event, index) => (index ? [" ", name(event)] : [name(event)]));
  const button = make("button", { type: "button", class: "later", "data-step": step, onclick: () => stepTo(player, step) }, make("time", {}, grouped(step)), ...words);
  return { step, button, row: make("li", {}, button) };
}

function toggle(player) {
  if (playing === player) stepTo(player, Math.floor(player.at));
  else play(player);
}

function play(player) {
  if (playing) stepTo(playing, Math.floor(playing.at));
  if (player.at >= player.episode.length) jump(player, 0);
  playing = player;
  icon(player.parts.play, "pause", "Pause");
  let before = null;
  const advance = (now) => {
    if (playing !== player) return;
    const seconds = Math.min((now - (before ?? now)) / 1000, LONGEST_FRAME);
    before = now;
    jump(player, player.at + seconds * player.speed, true);
    if (player.at < player.episode.length) requestAnimationFrame(advance);
    else stepTo(player, player.at);
  };
  requestAnimationFrame(advance);
}

// Stop at a step.
function stepTo(player, step) {
  if (playing === player) playing = null;
  jump(player, step);
  const isOver = player.at >= player.episode.length;
  icon(player.parts.play, isOver ? "again" : "play", isOver ? "Play again" : "Play");
}

function setSpeed(player, speed) {
  player.speed = speed;
  player.hasChosenSpeed = true;
  player.parts.speed.value = speed;
}

function onKey(player, event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("select")) return;
  const isSlider = event.target === player.parts.slider;
  const isButton = event.target.matches("button");
  const faster = (by) => setSpeed(player, SPEEDS[clamp(SPEEDS.indexOf(player.speed) + by, 0, SPEEDS.length - 1)]);
  const acts = {
    "+": () => faster(1),
    "=": () => faster(1),
    "-": () => faster(-1),
    ...(isButton ? {} : { " ": () => toggle(player) }),
    ...(isSlider ? {} : {
      ArrowLeft: () => stepTo(player, Math.ceil(player.at) - 1),
      ArrowRight: () => stepTo(player, Math.floor(player.at) + 1),
      Home: () => stepTo(player, 0),
      End: () => stepTo(player, Infinity),
    }),
  };
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
}

// Showing a moment; between two steps agents move.

function jump(player, at, isPlaying = false) {
  player.at = clamp(at, 0, player.episode.length);
  const step = Math.floor(player.at);
  const share = isCalm() ? 0 : player.at - step;
  moveAgents(player, step, share);
  if (step !== player.shown) showStep(player, step, isPlaying);
}

function showStep(player, step, isPlaying) {
  const { episode, parts, data } = player;
  player.shown = step;
  player.root.dataset.step = step;
  const events = episode.events.get(step) ?? [];
  const names = events.map((event) => data.names[event]);
  parts.status.textContent = `step ${grouped(step)} of ${grouped(episode.length)}`;
  parts.badges.replaceChildren(...events.flatMap((event) => [make("span", { class: `badge ${eventColor(player, event)}` }, data.names[event]), " "]));
  parts.slider.value = step;
  parts.slider.style.setProperty("--done", `${(100 * step) / (episode.length || 1)}%`);
  parts.slider.setAttribute("aria-valuetext", `step ${step} of ${episode.length}${names.length ? `: ${names.join(", ")}` : ""}`);
  showMachines(player, step, events);
  showGates(player, step);
  showFlashes(player, events, isPlaying);
  showLog(player, step);
}

// The log may have many rows: only those that change are updated.
function showLog(player, step) {
  const { items, log } = player.parts;
  const past = items.findLastIndex((item) => item.step <= step) + 1;
  const [from, to] = [Math.min(past, player.logged), Math.max(past, player.logged)];
  for (const { button } of items.slice(from, to)) button.classList.toggle("later", past < player.logged);
  log.querySelector("[aria-current]")?.removeAttribute("aria-current");
  if (past && items[past - 1].step === step) items[past - 1].button.setAttribute("aria-current", "step");
  if (past === player.logged) return;
  player.logged = past;
  const top = past ? items[past - 1].row.offsetTop : 0;
  if (top < log.scrollTop || top > log.scrollTop + log.clientHeight - 30) log.scrollTop = top - 20;
}

for (const root of document.querySelectorAll(".replay")) showReplay(root, root.closest(".task"));

// The page has grown since the browser scrolled to the part that its address names.
document.getElementById(location.hash.slice(1))?.scrollIntoView();
