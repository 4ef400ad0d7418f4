// Decoding of an episode, and positions of its agents on the map.

const MOVES = [[0, 0], [0, -1], [1, 0], [0, 1], [-1, 0]]; // numbered as in the page's data

function decode(recorded, team) {
  const agents = recorded.ways.length;
  const points = new Float64Array((recorded.length + 1) * agents * 2);
  recorded.ways.forEach((path, agent) => {
    let [across, down] = [recorded.start[2 * agent], recorded.start[2 * agent + 1]];
    for (let step = 0; step <= recorded.length; step += 1) {
      if (step) {
        const [right, below] = moveAt(path, step - 1);
        across += right;
        down += below;
      }
      points[(step * agents + agent) * 2] = across / 100;
      points[(step * agents + agent) * 2 + 1] = down / 100;
    }
  });
  const states = recorded.states.map((changes) => {
    const line = new Int32Array(recorded.length + 1);
    for (let index = 0; index < changes.length; index += 2) line.fill(changes[index + 1], changes[index]);
    return line;
  });
  const events = new Map(); // step -> the events after it
  for (let index = 0; index < recorded.events.length; index += 2) {
    const [step, event] = recorded.events.slice(index, index + 2);
    events.set(step, [...(events.get(step) ?? []), event]);
  }
  if (team) states.push(teamStates(team, recorded.length, events));
  return { success: recorded.success, length: recorded.length, agents, points, states, events };
}

// The team machine steps with the events, in their order, and stays in its state if an event is undefined.
function teamStates(team, length, events) {
  const line = new Int32Array(length + 1);
  let state = team.initial;
  for (let step = 0; step <= length; step += 1) {
    for (const event of events.get(step) ?? []) {
      state = team.steps.find(([from, label]) => from === state && label === event)?.[2] ?? state;
    }
    line[step] = state;
  }
  return line;
}

// A letter encodes two moves between neighbouring cells; a list has differences in hundredths.
function moveAt(path, step) {
  if (typeof path !== "string") return [path[2 * step], path[2 * step + 1]];
  const pair = path.charCodeAt(step >> 1) - 65;
  const [across, down] = MOVES[step % 2 ? pair % 5 : Math.floor(pair / 5)];
  return [across * 100, down * 100];
}

// Agents at one point are drawn around it: the offset and the size of each agent.
function arrange(episode, step) {
  const { agents, points } = episode;
  const together = new Map();
  for (let agent = 0; agent < agents; agent += 1) {
    const at = (step * agents + agent) * 2;
    const key = `${Math.round(points[at] * 4)},${Math.round(points[at + 1] * 4)}`;
    together.set(key, [...(together.get(key) ?? []), agent]);
  }
  const offsets = [];
  for (const group of together.values()) {
    group.forEach((agent, index) => {
      offsets[agent] = aroundPoint(index, group.length);
    });
  }
  return offsets; // in radii of an agent
}
