// Plays a run entry by entry: the marks up to it, where the agents are, and what it says.
const recording = JSON.parse(document.getElementById("recording").textContent);
const slider = document.getElementById("time");
const said = document.getElementById("said");
const button = document.getElementById("play");
const lines = [...document.getElementById("story").children];
const marks = [...document.querySelectorAll(".mark")];
const discs = [...document.querySelectorAll(".starts .agent")];
const PACE = 120; // milliseconds for an entry

function show(number) {
  const places = recording.starts.map((place) => [...place]);
  for (const [agent, kind, x, y] of recording.frames.slice(0, number + 1)) {
    if (kind === "move" && agent >= 0) places[agent] = [x, y];
  }
  discs.forEach((disc, agent) => {
    const [x, y] = places[agent];
    const here = [...discs.keys()].filter((other) => places[other].join() === places[agent].join());
    const around = aroundPoint(here.indexOf(agent), here.length); // in radii of a disc
    const radius = Number(disc.querySelector("circle").getAttribute("r"));
    disc.setAttribute("transform", `translate(${x + radius * around.x} ${y + radius * around.y}) scale(${around.size})`);
  });
  marks.forEach((mark) => mark.classList.toggle("later", Number(mark.dataset.frame) > number));
  lines.forEach((line, place) => line.classList.toggle("now", place === number));
  const line = lines[number];
  if (line) {
    said.textContent = line.textContent;
    line.parentElement.scrollTop = line.offsetTop - line.parentElement.offsetTop - 120;
  }
}

let timer = 0;
function stop() {
  clearInterval(timer);
  timer = 0;
  button.textContent = "Play";
}

slider.addEventListener("input", () => show(Number(slider.value)));
button.addEventListener("click", () => {
  if (timer) return stop();
  if (slider.value === slider.max) slider.value = 0;
  button.textContent = "Pause";
  timer = setInterval(() => {
    slider.value = Number(slider.value) + 1;
    show(Number(slider.value));
    if (slider.value === slider.max) stop();
  }, PACE);
});
slider.value = slider.max;
show(Number(slider.max));
