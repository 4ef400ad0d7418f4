// Episodes to watch: the team on its map, and every agent's machine with the state it is in.

const SPEEDS = [1, 2, 4, 8, 16, 32, 64]; // steps in a second
const MOVES = [[0, 0], [0, -1], [1, 0], [0, 1], [-1, 0]]; // as the page's data number them
const TRAIL = 10; // steps
const WIDEST = 1.55; // radii of an agent: the circle on which many agents in one place stand
const MANY = 4; // agents up to which all machines are shown at once
let playing = null; // the one replay that plays

// Reading an episode.

function decode(own) {
  const agents = own.ways.length;
  const places = new Float64Array((own.length + 1) * agents * 2);
  own.ways.forEach((way, agent) => {
    let [across, down] = [own.start[2 * agent], own.start[2 * agent + 1]];
    for (let step = 0; step <= own.length; step += 1) {
      if (step) {
        const [right, below] = moveAt(way, step - 1);
        across += right;
        down += below;
      }
      places[(step * agents + agent) * 2] = across / 100;
      places[(step * agents + agent) * 2 + 1] = down / 100;
    }
  });
  const states = own.states.map((changes) => {
    const line = new Int32Array(own.length + 1);
    for (let place = 0; place < changes.length; place += 2) line.fill(changes[place + 1], changes[place]);
    return line;
  });
  const events = new Map(); // step -> the events after it
  for (let place = 0; place < own.events.length; place += 2) {
    const [step, event] = own.events.slice(place, place + 2);
    events.set(step, [...(events.get(step) ?? []), event]);
  }
  return { success: own.success, length: own.length, agents, places, states, events };
}

// A letter has two moves to a neighbouring cell; a list has differences in hundredths.
function moveAt(way, step) {
  if (typeof way !== "string") return [way[2 * step], way[2 * step + 1]];
  const pair = way.charCodeAt(step >> 1) - 65;
  const [across, down] = MOVES[step % 2 ? pair % 5 : Math.floor(pair / 5)];
  return [across * 100, down * 100];
}

// Agents in one place stand around its middle: where, and how much smaller.
function arrange(episode, step) {
  const { agents, places } = episode;
  const together = new Map();
  for (let agent = 0; agent < agents; agent += 1) {
    const at = (step * agents + agent) * 2;
    const key = `${Math.round(places[at] * 4)},${Math.round(places[at + 1] * 4)}`;
    together.set(key, [...(together.get(key) ?? []), agent]);
  }
  const spots = [];
  for (const group of together.values()) {
    const count = group.length;
    const touching = Math.sin(Math.PI / count) / 1.06; // how large discs may be on a circle of radius 1
    const wanted = count === 1 ? 1 : clamp(0.7 - 0.05 * count, 0.44, 0.6);
    const reach = count === 1 ? 0 : Math.min(wanted / touching, WIDEST);
    const size = count === 1 ? 1 : Math.max(Math.min(wanted, reach * touching), 0.24);
    group.forEach((agent, place) => {
      const angle = (2 * Math.PI * place) / count - Math.PI * (count === 2 ? 1 : 0.5);
      spots[agent] = { x: reach * Math.cos(angle), y: reach * Math.sin(angle), size };
    });
  }
  return spots; // offsets are in radii of an agent
}

// A player.

function showReplay(root, section) {
  const data = read(`episodes-${root.dataset.place}`);
  if (!data || !data.groups.length) {
    root.append(make("p", { class: "note" }, "No episode of this task was kept."));
    return;
  }
  const player = { data, root, at: 0, isPlaying: false, speed: 4, episode: null, choice: firstChoice(data) };
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
    ...(data.left_out ? [make("p", { class: "note" }, `${grouped(data.left_out)} more episodes are in the folder; the page has no room for them.`)] : []));
  root.addEventListener("keydown", (event) => onKey(player, event));
  load(player);
}

function keyHelp() {
  const key = (text) => make("kbd", {}, text);
  return [key("space"), " plays and pauses, ", key("←"), " ", key("→"), " step, ", key("Home"), " ", key("End"), ", ", key("+"), " ", key("−"), " change the speed"];
}

// The first episode that succeeds, if there is one.
function firstChoice(data) {
  for (const [group, own] of data.groups.entries()) {
    for (const seed of seedsOf(own)) {
      for (const kind of Object.keys(own.seeds[seed])) {
        if (own.seeds[seed][kind].success) return { group, seed, kind };
      }
    }
  }
  const seed = seedsOf(data.groups[0])[0];
  return { group: 0, seed, kind: Object.keys(data.groups[0].seeds[seed])[0] };
}

const seedsOf = (group) => Object.keys(group.seeds).sort((one, other) => Number(one) - Number(other));

function choices(player) {
  const { data, choice } = player;
  const pick = (label, name) => {
    const select = make("select", { "data-choice": name, onchange: () => change(name, select.value) });
    return { select, label: make("label", { class: "choice" }, label, select) };
  };
  const learner = pick("learner", "group");
  const seed = pick("seed", "seed");
  const kind = segments("policy", ["softmax", "greedy"].map((own) => [own, own]), choice.kind, (own) => change("kind", own));
  learner.select.append(...data.groups.map((group, place) => make("option", { value: place }, group.label)));
  const change = (name, value) => {
    choice[name] = name === "group" ? Number(value) : value;
    refresh();
    load(player);
  };
  // What another learner does not have falls back on what it has.
  const refresh = () => {
    const group = data.groups[choice.group];
    const seeds = seedsOf(group);
    if (!group.seeds[choice.seed]) choice.seed = seeds[0];
    const kinds = Object.keys(group.seeds[choice.seed]);
    if (!kinds.includes(choice.kind)) choice.kind = kinds[0];
    seed.select.replaceChildren(...seeds.map((own) => make("option", { value: own }, own)));
    learner.select.value = choice.group;
    seed.select.value = choice.seed;
    kind.press(choice.kind, false);
    for (const button of kind.querySelectorAll("button")) button.disabled = !kinds.includes(button.dataset.value);
  };
  refresh();
  return { row: make("div", { class: "choices" }, learner.label, seed.label, kind) };
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
    const own = make("button", { type: "button", "data-act": name, onclick: act });
    icon(own, name, label);
    return own;
  };
  const play = button("play", "Play", () => toggle(player));
  play.className = "play";
  const speed = make("select", { "data-choice": "speed", onchange: () => setSpeed(player, Number(speed.value)) },
    ...SPEEDS.map((own) => make("option", { value: own }, `${own} steps/s`)));
  const slider = make("input", { type: "range", min: 0, step: 1, value: 0, "aria-label": "Step" });
  slider.addEventListener("input", () => {
    pause(player);
    jump(player, Number(slider.value));
  });
  const marks = draw("svg", { class: "events", preserveAspectRatio: "none", "aria-hidden": "true" });
  return {
    play, speed, slider, marks,
    scrub: make("div", { class: "scrub" }, marks, slider),
    buttons: make("div", { class: "controls" },
      button("start", "To the start", () => stepTo(player, 0)),
      button("back", "A step back", () => stepTo(player, Math.ceil(player.at) - 1)),
      play,
      button("forward", "A step on", () => stepTo(player, Math.floor(player.at) + 1)),
      button("end", "To the end", () => stepTo(player, Infinity)),
      make("label", {}, "speed", speed)),
  };
}

// Machines: a chip for every agent, and the drawings of those that are chosen.
function crewPanel(section, data) {
  const figures = data.agents.map((_, place) => section.querySelector(`.machine-figure[data-agent="${place}"]`));
  const list = make("div", { class: "watched" });
  const cards = data.agents.map((agent, place) => {
    const state = make("span", { class: "state" });
    const chip = make("button", { type: "button", "data-agent": place }, disc(agent), make("span", { class: "name" }, agent.name), state);
    return { chip, state, agent, figure: figures[place] && copyFigure(figures[place], agent), isShown: false };
  });
  const show = (place, isShown) => {
    const card = cards[place];
    card.isShown = isShown && Boolean(card.figure);
    card.chip.setAttribute("aria-pressed", card.isShown);
    list.replaceChildren(...cards.filter((own) => own.isShown).map((own) => own.figure.root));
  };
  cards.forEach((card, place) => {
    card.chip.addEventListener("click", () => show(place, !card.isShown));
    card.chip.title = card.figure ? "Show or hide this machine" : "";
    show(place, cards.length <= MANY || place < MANY - 1);
  });
  const crew = make("div", { class: "crew", role: "group", "aria-label": "Agents and their states" }, ...cards.map((card) => card.chip));
  return { panel: make("div", {}, crew, list), cards };
}

const disc = (agent) => make("span", { class: "disc", style: `--own:${agent.color}`, "aria-hidden": "true" }, agent.mark);

function copyFigure(figure, agent) {
  const svg = figure.querySelector("svg")?.cloneNode(true);
  if (!svg) return null;
  svg.style.setProperty("--agent", agent.color);
  const root = make("figure", { class: "machine-figure", "data-agent": figure.dataset.agent },
    make("div", { class: "drawing" }, disc(agent), svg));
  const states = new Map(agent.states.map((name, place) => [name, svg.querySelector(`[data-state="${place}"]`)]));
  const number = new Map(agent.states.map((name, place) => [name, place]));
  const edge = (from, to) => svg.querySelector(`[data-edge="${number.get(from)}-${number.get(to)}"]`);
  return { root, svg, states, edge };
}

// The map with its agents.
function mapLayer(section, data) {
  const svg = section.querySelector(".map-figure .map").cloneNode(true);
  svg.querySelector(".starts").remove();
  const unit = Number(svg.dataset.unit);
  const radius = Number(svg.dataset.disc);
  const trails = data.agents.map((agent) => draw("polyline", { class: "trail", style: `--own:${agent.color}` }));
  const meetings = draw("g");
  const agents = data.agents.map((agent) => {
    const size = radius * (agent.mark.length < 3 ? 1.15 : 0.8);
    const ring = draw("circle", { class: "ring", r: radius + 3.2 });
    const own = draw("g", { class: "agent", style: `--own:${agent.color}` },
      draw("title", {}, agent.name),
      draw("circle", { class: "halo", r: radius + 3.2 }), ring,
      draw("circle", { r: radius }), draw("text", { "font-size": size }, agent.mark));
    return { own, ring };
  });
  svg.append(...trails, meetings, ...agents.map((agent) => agent.own));
  return { svg, unit, radius, trails, meetings, agents };
}

// Playing.

function load(player) {
  const { data, choice, parts } = player;
  pause(player);
  player.episode = decode(data.groups[choice.group].seeds[choice.seed][choice.kind]);
  const { length, success, events } = player.episode;
  parts.slider.max = length;
  parts.outcome.textContent = success ? `done after ${grouped(length)} steps` : `not done within ${grouped(length)} steps`;
  parts.marks.setAttribute("viewBox", `0 0 ${length || 1} 10`);
  parts.marks.replaceChildren(...[...events].map(([step, own]) => {
    const isShared = own.some((event) => knowers(player, event).length > 1);
    return draw("line", { class: eventColor(player, own[0]), x1: step, x2: step, y1: isShared ? 0 : 5, y2: 10 });
  }));
  parts.items = [...events].map(([step, own]) => logItem(player, step, own));
  parts.log.replaceChildren(...(parts.items.length ? parts.items.map((item) => item.row) : [make("li", { class: "note" }, "Nothing happens in this episode.")]));
  if (!player.hasOwnSpeed) player.speed = length > 200 ? 16 : 4;
  parts.speed.value = player.speed;
  player.shown = -1;
  jump(player, 0);
}

function logItem(player, step, events) {
  const name = (event) => make("b", { class: eventColor(player, event) }, player.data.names[event]);
  const words = events.flatMap((event, place) => (place ? [" ", name(event)] : [name(event)]));
  const button = make("button", { type: "button", "data-step": step, onclick: () => stepTo(player, step) }, make("time", {}, grouped(step)), ...words);
  return { step, button, row: make("li", {}, button) };
}

const knowers = (player, event) => player.data.agents.flatMap((agent, place) => (agent.knows.includes(event) ? [place] : []));
const eventColor = (player, event) => `event-${Math.max(player.data.events.indexOf(event), 0) % 8}`;

function toggle(player) {
  if (player.isPlaying) return pause(player);
  if (playing) pause(playing);
  if (player.at >= player.episode.length) jump(player, 0);
  playing = player;
  player.isPlaying = true;
  icon(player.parts.play, "pause", "Pause");
  player.root.dataset.playing = "";
  let before = performance.now();
  const advance = (now) => {
    if (!player.isPlaying) return;
    jump(player, player.at + ((now - before) / 1000) * player.speed, true);
    before = now;
    if (player.at >= player.episode.length) pause(player);
    else requestAnimationFrame(advance);
  };
  requestAnimationFrame((now) => {
    before = now;
    advance(now);
  });
  return undefined;
}

function pause(player) {
  if (!player.isPlaying && player.episode) return showPlay(player);
  player.isPlaying = false;
  if (playing === player) playing = null;
  if (player.episode) {
    if (!Number.isInteger(player.at)) jump(player, Math.floor(player.at));
    showPlay(player);
  }
  return undefined;
}

function showPlay(player) {
  delete player.root.dataset.playing;
  const isOver = player.at >= player.episode.length;
  icon(player.parts.play, isOver ? "again" : "play", isOver ? "Play again" : "Play");
}

function stepTo(player, step) {
  player.isPlaying = false;
  if (playing === player) playing = null;
  jump(player, step);
  showPlay(player);
}

function setSpeed(player, speed) {
  player.speed = speed;
  player.hasOwnSpeed = true;
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

// Showing a moment; between two steps agents are on their way.

function jump(player, at, isPlaying = false) {
  player.at = clamp(at, 0, player.episode.length);
  const step = Math.floor(player.at);
  const share = isCalm() ? 0 : player.at - step;
  moveAgents(player, step, share);
  if (step !== player.shown) showStep(player, step, isPlaying);
}

function moveAgents(player, step, share) {
  const { episode, parts: { map } } = player;
  if (player.spotsAt !== step || player.spotsOf !== episode) {
    player.spots = [arrange(episode, step), arrange(episode, Math.min(step + 1, episode.length))];
    [player.spotsAt, player.spotsOf] = [step, episode];
  }
  const next = Math.min(step + 1, episode.length);
  const ease = share * share * (3 - 2 * share);
  const mix = (one, other) => one + (other - one) * ease;
  player.now = map.agents.map(({ own }, agent) => {
    const [from, to] = [step, next].map((when) => (when * episode.agents + agent) * 2);
    const [one, other] = [player.spots[0][agent], player.spots[1][agent]];
    const x = mix(episode.places[from], episode.places[to]) * map.unit + mix(one.x, other.x) * map.radius;
    const y = mix(episode.places[from + 1], episode.places[to + 1]) * map.unit + mix(one.y, other.y) * map.radius;
    own.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${mix(one.size, other.size).toFixed(3)})`);
    moveTrail(map, episode, agent, step, [x, y]);
    return [x, y];
  });
}

// Where an agent was lately; trails that go the same way lie side by side.
function moveTrail(map, episode, agent, step, head) {
  const aside = (agent - (episode.agents - 1) / 2) * Math.min(0.07, 0.5 / episode.agents) * map.radius * 2.9;
  const points = [];
  for (let when = Math.max(0, step - TRAIL); when <= step; when += 1) {
    const at = (when * episode.agents + agent) * 2;
    points.push(`${(episode.places[at] * map.unit + aside).toFixed(1)},${(episode.places[at + 1] * map.unit + aside).toFixed(1)}`);
  }
  map.trails[agent].setAttribute("points", [...points, head.map((value) => value.toFixed(1)).join(",")].join(" "));
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
  if (!isPlaying && !player.isPlaying) showPlay(player);
  showMachines(player, step, events);
  showFlashes(player, events, isPlaying);
  showLog(player, step);
}

function showMachines(player, step, events) {
  const { episode, parts, data } = player;
  parts.crew.cards.forEach((card, place) => {
    const state = episode.states[place][step];
    const name = data.names[state];
    card.state.textContent = name;
    card.state.title = name;
    card.chip.classList.toggle("done", !card.agent.steps.some(([from]) => from === state));
    card.chip.classList.toggle("flash", events.some((event) => card.agent.knows.includes(event)));
    if (!card.figure) return;
    for (const [own, node] of card.figure.states) node?.classList.toggle("lit", own === state);
    for (const edge of card.figure.svg.querySelectorAll(".taken")) edge.classList.remove("taken");
    const before = step ? episode.states[place][step - 1] : state;
    for (const edge of takenEdges(card, before, state, events)) edge.classList.add("taken");
    card.figure.root.classList.toggle("flash", events.some((event) => card.agent.knows.includes(event)));
  });
}

// The edges that a machine went along in a step, one after another.
function takenEdges(card, before, after, events) {
  const found = [];
  let state = before;
  for (const event of events) {
    const taken = card.agent.steps.find(([from, own]) => from === state && own === event);
    if (!taken) continue;
    found.push(card.figure.edge(state, taken[2]));
    state = taken[2];
  }
  const edges = state === after ? found : [card.figure.edge(before, after)];
  return edges.filter(Boolean);
}

function showFlashes(player, events, isPlaying) {
  const { map } = player.parts;
  const flashing = new Set(events.flatMap((event) => knowers(player, event)));
  map.agents.forEach(({ own, ring }, agent) => {
    own.classList.toggle("flash", flashing.has(agent));
    if (flashing.has(agent) && isPlaying && !isCalm()) {
      ring.animate([{ transform: "scale(2.2)", opacity: 0 }, { transform: "scale(1)", opacity: 1 }], { duration: 260, easing: "ease-out" });
    }
  });
  const links = events.flatMap((event) => {
    const places = knowers(player, event).map((agent) => player.now[agent]);
    if (places.length < 2) return [];
    const middle = [0, 1].map((axis) => places.reduce((sum, place) => sum + place[axis], 0) / places.length);
    return places.map(([x, y]) => draw("line", { class: `meeting ${eventColor(player, event)}`, x1: x, y1: y, x2: middle[0], y2: middle[1] }));
  });
  map.meetings.replaceChildren(...links);
}

function showLog(player, step) {
  const { items, log } = player.parts;
  for (const { step: own, button } of items) {
    button.classList.toggle("later", own > step);
    if (own === step) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  }
  const last = items.findLast((item) => item.step <= step);
  const top = last ? last.row.offsetTop : 0;
  if (top < log.scrollTop || top > log.scrollTop + log.clientHeight - 30) log.scrollTop = top - 20;
}

for (const root of document.querySelectorAll(".replay")) showReplay(root, root.closest(".task"));
