// An episode as a file: as data, and as an animated drawing.

const PAUSE = 1.5; // seconds after the end of an episode, before it is repeated
const STRIP = 34; // units of height for the captions and the bar under the map

// An episode as data, with names instead of numbers.
function recording(player) {
  const { data, episode, choice } = player;
  const steps = [...Array(episode.length + 1).keys()];
  const column = (agent, axis) => steps.map((step) => episode.points[(step * episode.agents + agent) * 2 + axis]);
  const states = (index) => Array.from(episode.states[index], (state) => data.names[state]);
  const record = {
    task: data.title,
    learner: data.groups[choice.group].label,
    seed: Number(choice.seed),
    policy: choice.kind,
    success: episode.success,
    steps: episode.length,
    agents: Object.fromEntries(data.agents.map((agent, index) => [agent.name, { x: column(index, 0), y: column(index, 1), states: states(index) }])),
    ...(data.team ? { team: states(data.agents.length) } : {}),
    events: [...episode.events].sort(([one], [other]) => one - other).flatMap(([step, events]) => events.map((event) => [step, data.names[event]])),
  };
  return `${JSON.stringify(record)}\n`;
}

// The map with moving agents, gates that open and close, captions of events, and the state of the team.
function animation(player) {
  const { episode, parts: { map }, speed } = player;
  const seconds = episode.length / speed + PAUSE;
  const timing = { dur: `${seconds.toFixed(3)}s`, repeatCount: "indefinite" };
  const share = (step) => step / speed / seconds;
  const at = player.shown;
  stepTo(player, 0);
  const root = new DOMParser().parseFromString(standalone(map.svg), "image/svg+xml").documentElement;
  stepTo(player, at);
  for (const trail of root.querySelectorAll("polyline")) trail.remove();
  const hatching = document.getElementById("hatching").cloneNode(true);
  hatching.firstElementChild.setAttribute("style", "stroke:#00000038;stroke-width:2.5");
  root.append(hatching);
  root.querySelectorAll("[data-moves]").forEach((element, agent) => moveAlong(element, player, agent, share, timing));
  root.querySelectorAll("[data-area]").forEach((element, index) => openAndClose(element, player, map.gates[index], share, timing));
  root.append(...captions(player, root, share, timing));
  return new XMLSerializer().serializeToString(root);
}

// A value for every step, and the last one again at the end of the pause.
function eachStep(player, share, value) {
  const steps = [...Array(player.episode.length + 1).keys()];
  return {
    values: [...steps.map(value), value(player.episode.length)].join(";"),
    keyTimes: [...steps.map((step) => share(step).toFixed(5)), "1"].join(";"),
  };
}

function moveAlong(element, player, agent, share, timing) {
  const { episode, parts: { map } } = player;
  const offsets = [...Array(episode.length + 1).keys()].map((step) => arrange(episode, step)[agent]);
  const position = (step) => {
    const index = (step * episode.agents + agent) * 2;
    return [0, 1].map((axis) => (episode.points[index + axis] * map.unit + (axis ? offsets[step].y : offsets[step].x) * map.radius).toFixed(1)).join(" ");
  };
  const size = draw("g", {}, ...element.childNodes, draw("animateTransform", {
    attributeName: "transform", type: "scale", ...timing, ...eachStep(player, share, (step) => offsets[step].size.toFixed(2)),
  }));
  element.removeAttribute("transform");
  element.replaceChildren(size, draw("animateTransform", {
    attributeName: "transform", type: "translate", ...timing, ...eachStep(player, share, position),
  }));
}

// An attribute that changes at steps only: `value` of a step, given only where it changes.
function discrete(player, share, timing, attributeName, value) {
  const steps = [...Array(player.episode.length + 1).keys()].filter((step) => !step || value(step) !== value(step - 1));
  return draw("animate", {
    attributeName, calcMode: "discrete", ...timing, values: steps.map(value).join(";"), keyTimes: steps.map((step) => share(step).toFixed(5)).join(";"),
  });
}

function openAndClose(element, player, gate, share, timing) {
  const closed = (step) => closedTo(player, gate.area, step);
  for (const shape of element.querySelectorAll("[data-closed]")) {
    shape.style.display = "";
    shape.style.fill = "url(#hatching)";
    const look = (step) => (closed(step).length === gate.barred ? 1 : closed(step).length ? 0.4 : 0);
    shape.append(discrete(player, share, timing, "opacity", look));
  }
  gate.locks.forEach(([agent], index) => {
    const lock = element.querySelectorAll("[data-lock]")[index];
    lock.style.display = "";
    lock.append(discrete(player, share, timing, "opacity", (step) => Number(closed(step).includes(agent))));
  });
}

// Below the map: a progress bar, the state of the team at the left, and events at the right.
function captions(player, root, share, timing) {
  const { episode, data } = player;
  const [left, top, width, height] = root.getAttribute("viewBox").split(" ").map(Number);
  const below = top + height;
  const { color, fontFamily } = getComputedStyle(document.body);
  root.setAttribute("viewBox", [left, top, width, height + STRIP].join(" "));
  root.setAttribute("height", height + STRIP);
  root.firstChild.setAttribute("height", height + STRIP);
  const text = (words, side, isSeen) => draw("text", {
    x: side === "end" ? left + width - 6 : left + 6, y: below + 24, "text-anchor": side, style: `fill:${color};font:600 14px ${fontFamily};opacity:0`,
  }, words, discrete(player, share, timing, "opacity", (step) => Number(isSeen(step))));
  const states = data.team ? [...new Set(episode.states[data.agents.length])] : [];
  const happened = [...episode.events.keys()].sort((one, other) => one - other);
  const until = (index) => Math.min(happened[index + 1] ?? Infinity, happened[index] + Math.max(1, Math.round(player.speed)));
  return [
    draw("rect", { x: left, y: below + 2, height: 4, width: 0, style: `fill:${color};opacity:0.5` },
      draw("animate", { attributeName: "width", ...timing, values: `0;${width};${width}`, keyTimes: `0;${share(episode.length).toFixed(5)};1` })),
    ...states.map((state) => text(`team: ${data.names[state]}`, "start", (step) => episode.states[data.agents.length][step] === state)),
    ...happened.map((step, index) => text(episode.events.get(step).map((event) => data.names[event]).join(", "), "end",
      (now) => now >= step && now < until(index))),
  ];
}
