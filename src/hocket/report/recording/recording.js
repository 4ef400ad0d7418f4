// Plays a run entry by entry: shows the marks up to it, the positions of the agents, and its text.
const recording = JSON.parse(document.getElementById("recording").textContent);
const slider = document.getElementById("time");
const output = document.getElementById("entry");
const button = document.getElementById("play");
const lines = [...document.getElementById("entries").children];
const marks = [...document.querySelectorAll(".mark")];
const discs = [...document.querySelectorAll(".starts .agent")];
const PACE = 120; // milliseconds per entry

function show(number) {
  const positions = recording.starts.map((start) => [...start]);
  for (const [agent, kind, x, y] of recording.frames.slice(0, number + 1)) {
    if (kind === "move" && agent >= 0) positions[agent] = [x, y];
  }
  discs.forEach((disc, agent) => {
    const [x, y] = positions[agent];
    const together = [...discs.keys()].filter((other) => positions[other].join() === positions[agent].join());
    const around = aroundPoint(together.indexOf(agent), together.length); // in radii of a disc
    const radius = Number(disc.querySelector("circle").getAttribute("r"));
    disc.setAttribute("transform", `translate(${x + radius * around.x} ${y + radius * around.y}) scale(${around.size})`);
  });
  marks.forEach((mark) => mark.classList.toggle("later", Number(mark.dataset.frame) > number));
  lines.forEach((line, index) => line.classList.toggle("now", index === number));
  const line = lines[number];
  if (line) {
    output.textContent = line.textContent;
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
