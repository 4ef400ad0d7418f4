// The display of an episode: the agents on the map, and their machines with the current states.

const TRAIL = 10; // steps
const MANY = 4; // agents up to which all machines are shown at once
const MOST_LOCKS = 4; // agents that an area is ever closed to, up to which each has a lock

const knowers = (player, event) => player.data.agents.flatMap((agent, index) => (agent.knows.includes(event) ? [index] : []));
const eventColor = (player, event) => `event-${player.data.colors[event] ?? 0}`;

// Machines: a chip for the team and for every agent, and the drawings of the chosen ones. The team is last among the
// cards, as among the states of an episode, and first on the page.
function crewPanel(section, data) {
  const figures = data.agents.map((_, index) => section.querySelector(`.machine-figure[data-agent="${index}"]`));
  const members = [...data.agents];
  if (data.team) {
    figures.push(section.querySelector(".machine-figure.team"));
    members.push({ ...data.team, name: "team", number: "∀", color: "var(--team)" });
  }
  const list = make("div", { class: "watched" });
  const cards = members.map((agent, index) => {
    const state = make("span", { class: "state" });
    const chip = make("button", { type: "button", "data-agent": index }, disc(agent), make("span", { class: "name" }, agent.name), state);
    return { chip, state, agent, figure: figures[index] && copyFigure(figures[index], agent), isShown: false };
  });
  const show = (index, isShown) => {
    const card = cards[index];
    card.isShown = isShown && Boolean(card.figure);
    card.chip.setAttribute("aria-pressed", card.isShown);
    list.replaceChildren(...inOrder(cards).filter((card) => card.isShown).map((card) => card.figure.root));
  };
  const inOrder = (all) => (data.team ? [all.at(-1), ...all.slice(0, -1)] : all);
  cards.forEach((card, index) => {
    card.chip.addEventListener("click", () => show(index, !card.isShown));
    card.chip.title = card.figure ? "Show or hide this machine" : "";
    show(index, data.agents.length <= MANY || index < MANY - 1 || index === data.agents.length);
  });
  const crew = make("div", { class: "crew", role: "group", "aria-label": "The team, its agents, and their states" }, ...inOrder(cards).map((card) => card.chip));
  return { panel: make("div", {}, crew, list), cards };
}

function copyFigure(figure, agent) {
  const svg = figure.querySelector("svg")?.cloneNode(true);
  if (!svg) return null;
  svg.style.setProperty("--agent", agent.color);
  const drawing = make("div", { class: "drawing" }, disc(agent), svg);
  reachable.observe(drawing);
  const root = make("figure", { class: "machine-figure", "data-agent": figure.dataset.agent ?? "team" }, drawing);
  const states = new Map(agent.states.map((name, index) => [name, svg.querySelector(`[data-state="${index}"]`)]));
  const number = new Map(agent.states.map((name, index) => [name, index]));
  const edge = (from, to) => svg.querySelector(`[data-edge="${number.get(from)}-${number.get(to)}"]`);
  return { root, svg, states, edge };
}

// The map with its agents.
function mapLayer(section, data) {
  const svg = section.querySelector(".map-figure .map").cloneNode(true);
  svg.querySelector(".starts").remove();
  const unit = Number(svg.dataset.unit);
  const radius = Number(svg.dataset.disc);
  const trails = data.agents.map((agent) => draw("polyline", { class: "trail", color: agent.color }));
  const meetings = draw("g");
  const agents = data.agents.map((agent) => drawAgent(agent, radius, { "data-moves": true }));
  svg.append(...trails, meetings, ...agents);
  return { svg, unit, radius, trails, meetings, agents, gates: [] };
}

// The agents to which an area is closed after a step.
const closedTo = (player, area, step) => player.data.agents.flatMap((agent, index) =>
  ((agent.closed[player.episode.states[index][step]] ?? []).includes(area) ? [index] : []));

// A closed area is hatched, faintly if it is closed only to some of the agents that it is ever closed to.
function showGates(player, step) {
  const { map } = player.parts;
  for (const gate of map.gates) {
    const closed = closedTo(player, gate.area, step);
    gate.element.classList.toggle("open", !closed.length);
    gate.element.classList.toggle("ajar", closed.length > 0 && closed.length < gate.barred);
    for (const [agent, lock] of gate.locks) lock.classList.toggle("shut", closed.includes(agent));
  }
}

// The areas with gates: the number of agents that each is ever closed to, and a lock for each of these if they are few.
function findGates(svg, data) {
  return [...svg.querySelectorAll("[data-area]")].map((element) => {
    const area = Number(element.dataset.area);
    const barred = data.agents.flatMap((agent, index) => (Object.values(agent.closed).some((areas) => areas.includes(area)) ? [index] : []));
    const locks = barred.length <= MOST_LOCKS ? barred.map((agent, index) => [agent, lockOf(data.agents[agent], element, index)]) : [];
    return { area, element, barred: barred.length, locks };
  });
}

// A small disc of an agent with a bar, in the corner of an area's first shape.
function lockOf(agent, area, index) {
  const box = area.querySelector(".area").getBBox();
  const size = Math.min(box.width, box.height, 40) * 0.17;
  const at = `translate(${(box.x + size * (1.3 + 2.3 * index)).toFixed(1)} ${(box.y + size * 1.3).toFixed(1)})`;
  const lock = draw("g", { class: "lock", "data-lock": true, color: agent.color, transform: at },
    draw("title", {}, `closed to ${agent.name}`),
    draw("circle", { r: size.toFixed(1) }),
    draw("line", { x1: (-0.55 * size).toFixed(1), x2: (0.55 * size).toFixed(1), "stroke-width": (0.4 * size).toFixed(1) }));
  area.append(lock);
  return lock;
}

function moveAgents(player, step, share) {
  const { episode, parts: { map } } = player;
  if (player.offsetsStep !== step || player.offsetsEpisode !== episode) {
    player.offsets = [arrange(episode, step), arrange(episode, Math.min(step + 1, episode.length))];
    [player.offsetsStep, player.offsetsEpisode] = [step, episode];
  }
  const next = Math.min(step + 1, episode.length);
  const ease = share * share * (3 - 2 * share);
  const mix = (one, other) => one + (other - one) * ease;
  player.now = map.agents.map((element, agent) => {
    const [from, to] = [step, next].map((when) => (when * episode.agents + agent) * 2);
    const [one, other] = [player.offsets[0][agent], player.offsets[1][agent]];
    const x = mix(episode.points[from], episode.points[to]) * map.unit + mix(one.x, other.x) * map.radius;
    const y = mix(episode.points[from + 1], episode.points[to + 1]) * map.unit + mix(one.y, other.y) * map.radius;
    element.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${mix(one.size, other.size).toFixed(3)})`);
    moveTrail(map, episode, agent, step, [x, y]);
    return [x, y];
  });
}

// The last positions of an agent; trails on the same path are side by side.
function moveTrail(map, episode, agent, step, head) {
  const aside = (agent - (episode.agents - 1) / 2) * Math.min(0.07, 0.5 / episode.agents) * map.radius * 2.9;
  const points = [];
  for (let when = Math.max(0, step - TRAIL); when <= step; when += 1) {
    const at = (when * episode.agents + agent) * 2;
    points.push(`${(episode.points[at] * map.unit + aside).toFixed(1)},${(episode.points[at + 1] * map.unit + aside).toFixed(1)}`);
  }
  map.trails[agent].setAttribute("points", [...points, head.map((value) => value.toFixed(1)).join(",")].join(" "));
}

function showMachines(player, step, events) {
  const { episode, parts, data } = player;
  parts.crew.cards.forEach((card, index) => {
    const state = episode.states[index][step];
    const name = data.names[state];
    card.state.textContent = name;
    card.state.title = name;
    card.chip.classList.toggle("done", !card.agent.steps.some(([from]) => from === state));
    card.chip.classList.toggle("flash", events.some((event) => card.agent.knows.includes(event)));
    if (!card.figure) return;
    for (const [name, node] of card.figure.states) node?.classList.toggle("lit", name === state);
    for (const edge of card.figure.svg.querySelectorAll(".taken")) edge.classList.remove("taken");
    const before = step ? episode.states[index][step - 1] : state;
    for (const edge of takenEdges(card, before, state, events)) edge.classList.add("taken");
    card.figure.root.classList.toggle("flash", events.some((event) => card.agent.knows.includes(event)));
  });
}

// The edges that a machine took in a step, in order.
function takenEdges(card, before, after, events) {
  const edgesTaken = [];
  let state = before;
  for (const event of events) {
    const taken = card.agent.steps.find(([from, label]) => from === state && label === event);
    if (!taken) continue;
    edgesTaken.push(card.figure.edge(state, taken[2]));
    state = taken[2];
  }
  const edges = state === after ? edgesTaken : [card.figure.edge(before, after)];
  return edges.filter(Boolean);
}

function showFlashes(player, events, isPlaying) {
  const { map } = player.parts;
  const flashing = new Set(events.flatMap((event) => knowers(player, event)));
  map.agents.forEach((element, agent) => {
    element.classList.toggle("flash", flashing.has(agent));
    if (flashing.has(agent) && isPlaying && !isCalm()) {
      element.querySelector(".ring").animate([{ transform: "scale(2.2)", opacity: 0 }, { transform: "scale(1)", opacity: 1 }], { duration: 260, easing: "ease-out" });
    }
  });
  const links = events.flatMap((event) => {
    const points = knowers(player, event).map((agent) => player.now[agent]);
    if (points.length < 2) return [];
    const middle = [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length);
    return points.map(([x, y]) => draw("line", { class: `meeting ${eventColor(player, event)}`, x1: x, y1: y, x2: middle[0], y2: middle[1] }));
  });
  map.meetings.replaceChildren(...links);
}
