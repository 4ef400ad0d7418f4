// Curves over training steps: medians of test steps with bands between the quartiles, and success below. A crosshair
// shows the values, which are those of the tables.

const DASHES = ["", "7 3", "2.5 2.5", "10 3 2.5 3", "5 2 1.5 2 1.5 2"];
const NARROW = 560; // pixels of width below which lines have no names at their ends
const MOST_ENDS = 14; // lines up to which they have names at their ends
const SHARES = 76; // pixels of height of the curves of success
const BETWEEN = 36; // pixels from the curves of steps to those of success
const PUBLISHED = "softmax"; // tests of published results

const dashOf = (color) => DASHES[color % DASHES.length];

// Scales and their ticks.

function scale(low, high, from, to, isLog) {
  const of = isLog ? (value) => Math.log10(value) : (value) => value;
  const span = of(high) - of(low) || 1;
  return (value) => from + ((of(value) - of(low)) / span) * (to - from);
}

function linearTicks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) ticks.push(value);
  return ticks;
}

function logTicks(low, high, count) {
  const decades = Math.log10(high / low);
  const factors = decades > count ? [1] : decades * 3 > count ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  }
  return ticks.length >= 2 ? ticks : linearTicks(low, high, count);
}

function shortNumber(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (value >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return grouped(value);
}

// The index of the last of rising numbers that is at most a value.
function indexBelow(steps, value) {
  let low = 0;
  let high = steps.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (steps[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

function nearest(steps, value) {
  const index = indexBelow(steps, value);
  const next = Math.min(index + 1, steps.length - 1);
  return steps[next] - value < value - steps[index] ? next : index;
}

// A figure.

function showCurves(figure, data) {
  const kinds = [...new Set(data.groups.flatMap((group) => Object.keys(group.curves)))];
  const isSmall = figure.classList.contains("small"); // one of several side by side: linear, and without controls
  const view = { kind: kinds[0], x: data.log_x && !isSmall ? "log" : "linear", y: isSmall || data.is_return ? "linear" : "log", hidden: new Set(), at: null };
  const chart = make("div", { class: "chart" });
  const tooltip = make("div", { class: "tooltip", hidden: true, role: "status" });
  const svg = draw("svg", { tabindex: "0", role: "group" });
  chart.append(svg, tooltip);
  const set = (name) => (value) => {
    view[name] = value;
    render();
  };
  if (isSmall) figure.replaceChildren(chart);
  else figure.replaceChildren(
    make("div", { class: "choices" },
      ...(kinds.length > 1 ? [labelled("tests", segments("tests", kinds.map((kind) => [kind, kind]), view.kind, set("kind")))] : []),
      labelled("x axis", segments("x axis", [["linear", "linear"], ["log", "log"]], view.x, set("x"))),
      ...(data.is_return ? [] : [labelled("y axis", segments("y axis", [["linear", "linear"], ["log", "log"]], view.y, set("y")))])),
    chart,
    toggles(data, view, () => render()),
    downloads(
      ["CSV", "the curves as numbers", () => save(`${data.title}-curves.csv`, "text/csv", curvesTable(data))],
      ["SVG", "the curves as they are drawn", () => save(`${data.title}-curves.svg`, "image/svg+xml", standalone(svg))]),
  );

  let plot = null; // the current scales, lines, and steps of the crosshair
  let plotWidth = 0;
  const render = () => {
    plotWidth = chart.clientWidth;
    plot = drawPlot(svg, data, view, plotWidth);
    point(view.at);
  };
  const point = (step) => {
    view.at = plot.steps.length && step !== null ? plot.steps[nearest(plot.steps, step)] : null;
    showValues(plot, view.at, chart, tooltip);
  };
  const follow = (event) => point(plot.stepAt(event.clientX - svg.getBoundingClientRect().left));
  svg.addEventListener("pointermove", follow);
  svg.addEventListener("pointerdown", follow);
  svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null));
  svg.addEventListener("blur", () => point(null));
  svg.addEventListener("keydown", (event) => {
    const last = plot.steps.length - 1;
    const index = view.at === null ? -1 : nearest(plot.steps, view.at);
    const stride = event.shiftKey ? 10 : 1;
    const target = { ArrowLeft: index < 0 ? last : index - stride, ArrowRight: index + stride, Home: 0, End: last }[event.key];
    if (event.key === "Escape") point(null);
    if (target === undefined || last < 0) return;
    event.preventDefault();
    point(plot.steps[clamp(target, 0, last)]);
  });
  render(); // at once, so that nothing below moves later
  new ResizeObserver(() => chart.clientWidth !== plotWidth && render()).observe(chart);
}

// The legend: a press hides a line or shows it again.
function toggles(data, view, render) {
  const sample = (dash) => draw("svg", { viewBox: "0 0 27 10", "aria-hidden": "true" },
    draw("line", { x1: 0, x2: 27, y1: 5, y2: 5, "stroke-dasharray": dash }));
  const button = (label, kind, dash) => {
    const toggle = make("button", { type: "button", class: kind, "aria-pressed": "true", "data-label": label }, sample(dash), label);
    toggle.addEventListener("click", () => {
      const isShown = toggle.getAttribute("aria-pressed") === "false";
      toggle.setAttribute("aria-pressed", isShown);
      if (isShown) view.hidden.delete(label);
      else view.hidden.add(label);
      render();
    });
    return toggle;
  };
  const lines = data.groups.map((group) => button(group.label, `line-${group.color % 8}`, dashOf(group.color)));
  if (Object.keys(data.levels).length) lines.push(button(data.reference, "reference", "2 4"));
  if (data.groups.some((group) => group.published)) lines.push(make("span", { class: "published-key" }, "◇ published"));
  return make("div", { class: "toggles", role: "group", "aria-label": "Lines that are shown" }, ...lines);
}

// The lines that are shown: label, colour, steps and the three quartiles.
function chosenLines(data, view) {
  return data.groups
    .filter((group) => group.curves[view.kind] && !view.hidden.has(group.label))
    .map((group) => {
      const curve = group.curves[view.kind];
      const [low, median, high] = curve.quartiles;
      const published = view.kind === PUBLISHED ? group.published : null;
      return { label: group.label, color: group.color, steps: data.steps[curve.steps], low, median, high, success: data.is_continuing ? null : curve.success, published, floor: data.is_return ? -Infinity : 0.5 };
    })
    .filter((line) => line.steps.length);
}

function drawPlot(svg, data, view, width) {
  const lines = chosenLines(data, view);
  const level = view.hidden.has(data.reference) ? undefined : data.levels[view.kind];
  const hasEnds = width >= NARROW && lines.length <= MOST_ENDS;
  const longest = Math.max(0, ...lines.map((line) => line.label.length), level === undefined ? 0 : data.reference.length + 5);
  const frame = { left: 50, right: hasEnds ? clamp(longest * 7.4 + 14, 40, width * 0.28) : 10, top: 26, bottom: 44 };
  const bottom = Math.round(clamp(width * 0.46, 250, 430)) - frame.bottom;
  const lowest = data.is_continuing ? bottom : bottom + BETWEEN + SHARES; // continuing tasks have no success
  const height = lowest + frame.bottom;
  const right = Math.max(width - frame.right, frame.left + 40);
  const extent = extents(lines, level, view, data);
  const x = scale(...extent.x, frame.left, right, view.x === "log");
  const y = scale(...extent.y, bottom, frame.top, view.y === "log");
  const share = scale(0, 1, lowest, lowest - SHARES, false);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-label", `${data.is_return ? "Returns" : "Test steps"}${data.is_continuing ? "" : " and success"} over training steps. The left and right arrow keys read the values.`);
  svg.replaceChildren(
    draw("rect", { width, height, fill: "transparent" }),
    axes(extent, x, y, share, { ...frame, rightEdge: right, bottomEdge: bottom, lowest, height }, view, data.is_return),
    ...lines.map((line) => series(line, x, y, share)),
    ...lines.filter((line) => line.published).map((line) => publishedLevel(line, x, y, share, frame.left, right)),
    ...(level === undefined ? [] : [levelLine(level, data.reference, y, frame, right, hasEnds)]),
    ...(hasEnds ? endLabels(lines, level, data.reference, y, right, frame, bottom) : []),
    draw("g", { class: "crosshair" }),
  );
  const steps = lines.reduce((most, line) => (line.steps.length > most.length ? line.steps : most), []);
  const stepAt = (across) => {
    const part = clamp((across - frame.left) / (right - frame.left), 0, 1);
    const [low, high] = extent.x;
    return view.x === "log" ? low * (high / low) ** part : low + part * (high - low);
  };
  return { svg, lines, level, reference: data.reference, x, y, share, steps, stepAt, top: frame.top, bottom: lowest, width };
}

// Ranges of the axes: test steps up to the step limit, from the least value or, on a linear axis, from 0, as in the
// figures for print; returns from the least value or 0 to the largest.
function extents(lines, level, view, data) {
  const mostSteps = data.most_steps;
  const steps = lines.flatMap((line) => [line.steps[0], line.steps.at(-1)]);
  const values = lines.flatMap((line) => [Math.min(...line.low), line.published?.final ?? Infinity]);
  if (level !== undefined) values.push(level);
  const [least, most] = [Math.min(...steps, Infinity), Math.max(...steps, 1)];
  const lowest = Math.min(...values, mostSteps / 2);
  if (data.is_return) {
    const highest = Math.max(...lines.flatMap((line) => line.high), level ?? 0, 0);
    const x = [view.x === "log" ? Math.max(Math.min(least, most / 2), 1) : 0, most];
    return { x, y: [Math.min(...values, 0) * 1.04, highest * 1.04 || 1] };
  }
  return {
    x: [view.x === "log" ? Math.max(Math.min(least, most / 2), 1) : 0, most],
    y: view.y === "log" ? [Math.max(lowest, 1) / 1.15, mostSteps * 1.08] : [0, mostSteps * 1.04],
  };
}

function axes(extent, x, y, share, frame, view, isReturn) {
  const hasShares = frame.lowest > frame.bottomEdge;
  const across = (view.x === "log" ? logTicks : linearTicks)(...extent.x, Math.max((frame.rightEdge - frame.left) / 85, 2));
  const up = (view.y === "log" ? logTicks : linearTicks)(...extent.y, 6);
  return draw("g", { class: "axes" },
    ...up.flatMap((value) => [
      draw("line", { class: "gridline", x1: frame.left, x2: frame.rightEdge, y1: y(value), y2: y(value) }),
      draw("text", { x: frame.left - 8, y: y(value) + 4, "text-anchor": "end" }, shortNumber(value)),
    ]),
    ...(hasShares ? [0, 0.5, 1] : []).flatMap((value) => [
      draw("line", { class: "gridline", x1: frame.left, x2: frame.rightEdge, y1: share(value), y2: share(value) }),
      draw("text", { x: frame.left - 8, y: share(value) + 4, "text-anchor": "end" }, String(value)),
    ]),
    ...[frame.bottomEdge, frame.lowest].map((edge) => draw("line", { class: "baseline", x1: frame.left, x2: frame.rightEdge, y1: edge, y2: edge })),
    ...across.flatMap((value) => [
      draw("line", { class: "baseline", x1: x(value), x2: x(value), y1: frame.lowest, y2: frame.lowest + 5 }),
      draw("text", { x: x(value), y: frame.lowest + 19, "text-anchor": "middle" }, shortNumber(value)),
    ]),
    draw("text", { class: "title", x: frame.rightEdge, y: frame.height - 6, "text-anchor": "end" }, "training steps →"),
    draw("text", { class: "title", x: 0, y: 12 }, isReturn ? "return (more is better)" : "test steps (fewer is better)"),
    ...(hasShares ? [draw("text", { class: "title", x: 0, y: frame.lowest - SHARES - 12 }, "success (share of tests)")] : []),
  );
}

function series(line, x, y, share) {
  const along = (values, height) => values.map((value, index) => `${x(line.steps[index]).toFixed(1)} ${height(value).toFixed(1)}`);
  const points = (values) => along(values, (value) => y(Math.max(value, line.floor)));
  const band = [...points(line.high), ...points(line.low).reverse()];
  return draw("g", { class: `series line-${line.color % 8}`, "data-label": line.label },
    draw("path", { class: "spread", d: `M${band.join("L")}Z` }),
    draw("path", { class: "curve", d: `M${points(line.median).join("L")}`, "stroke-dasharray": dashOf(line.color) }),
    ...(line.success ? [draw("path", { class: "curve shares", d: `M${along(line.success, share).join("L")}`, "stroke-dasharray": dashOf(line.color) })] : []));
}

// A published level: a diamond where it was first reached, and a line from there on.
function publishedLevel(line, x, y, share, left, right) {
  const { final, reached, success } = line.published;
  const from = reached === null ? left : clamp(x(reached), left, right);
  const mark = (across, height) => draw("path", { class: "diamond", d: `M${across} ${height - 6}l6 6l-6 6l-6 -6Z` });
  return draw("g", { class: `published line-${line.color % 8}`, "data-label": line.label },
    draw("title", {}, `${line.label}, published: ${stepsText(final)} steps${reached === null ? "" : `, reached after ${grouped(reached)}`}, success ${success}`),
    draw("line", { class: "published-level", x1: from, x2: right, y1: y(final), y2: y(final) }),
    ...(reached === null ? [] : [mark(from, y(final))]),
    mark(right, share(success)));
}

function levelLine(level, label, y, frame, right, hasEnds) {
  const height = y(level);
  const text = hasEnds ? [] : [draw("text", { class: "level-text", x: frame.left + 4, y: height - 5 }, `${label} ${stepsText(level)}`)];
  return draw("g", { class: "reference" }, draw("line", { class: "level", x1: frame.left, x2: right, y1: height, y2: height }), ...text);
}

// Names at the ends of lines, moved so that they do not overlap.
function endLabels(lines, level, reference, y, right, frame, bottom) {
  const wanted = lines.map((line) => ({ text: line.label, kind: `line-${line.color % 8}`, height: y(line.median.at(-1)) }));
  if (level !== undefined) wanted.push({ text: `${reference} ${stepsText(level)}`, kind: "reference", height: y(level) });
  wanted.sort((one, other) => one.height - other.height);
  const gap = 16;
  wanted.forEach((label, index) => {
    if (index) label.height = Math.max(label.height, wanted[index - 1].height + gap);
  });
  for (let index = wanted.length - 1, limit = bottom + 2; index >= 0; index -= 1, limit -= gap) {
    wanted[index].height = Math.min(wanted[index].height, limit);
  }
  const characters = Math.floor((frame.right - 12) / 7);
  return wanted.map((label) => {
    const short = label.text.length > characters ? `${label.text.slice(0, characters - 1)}…` : label.text;
    return draw("text", { class: `end ${label.kind}`, x: right + 8, y: label.height + 4, style: "fill:var(--color)" }, short);
  });
}

// All curves of a task as comma-separated values, one row for each point.
function curvesTable(data) {
  const cell = (value) => (/[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  const rows = data.groups.flatMap((group) => Object.entries(group.curves).flatMap(([kind, curve]) =>
    data.steps[curve.steps].map((step, index) =>
      [data.title, group.label, kind, group.runs, step, ...curve.quartiles.map((line) => line[index]), curve.success[index]])));
  const titles = ["task", "learner", "policy", "runs", "step", "lower_quartile", "median", "upper_quartile", "success"];
  return [titles, ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");
}

// The crosshair and its values.
function showValues(plot, step, chart, tooltip) {
  const mark = plot.svg.querySelector(".crosshair");
  const isBelow = plot.width < NARROW; // on a narrow page, values are below the curves, and always shown
  tooltip.classList.toggle("below", isBelow);
  const isEnd = step === null && isBelow; // of all lines, even if some end earlier
  if (isEnd && plot.steps.length) step = plot.steps.at(-1);
  tooltip.hidden = step === null || !plot.lines.length;
  if (tooltip.hidden) return mark.replaceChildren();
  const rows = plot.lines
    .filter((line) => step >= line.steps[0] && (isEnd || step <= line.steps.at(-1)))
    .map((line) => ({ line, index: indexBelow(line.steps, step) }));
  const at = plot.x(step);
  mark.replaceChildren(
    draw("line", { x1: at, x2: at, y1: plot.top, y2: plot.bottom }),
    ...rows.flatMap(({ line, index }) => [plot.y(Math.max(line.median[index], line.floor)), ...(line.success ? [plot.share(line.success[index])] : [])].map((cy) =>
      draw("circle", { class: `line-${line.color % 8}`, cx: at, cy, r: 4.5 }))));
  tooltip.replaceChildren(make("b", {}, `${grouped(step)} training steps`), valueTable(plot, rows));
  if (isBelow) {
    tooltip.style.transform = "";
    return undefined;
  }
  const box = tooltip.getBoundingClientRect();
  const left = at + 16 + box.width > chart.clientWidth ? at - 16 - box.width : at + 16;
  tooltip.style.transform = `translate(${clamp(left, 0, Math.max(chart.clientWidth - box.width, 0))}px, ${plot.top}px)`;
  return undefined;
}

function valueTable(plot, rows) {
  const head = make("thead", {}, make("tr", {}, ...["learner", "median", "quartiles", ...(plot.lines.every((line) => line.success) ? ["success"] : [])].map((text) => make("th", {}, text))));
  const body = rows
    .sort((one, other) => one.line.median[one.index] - other.line.median[other.index])
    .map(({ line, index }) => make("tr", { "data-label": line.label },
      make("th", { class: `line-${line.color % 8}` },
        draw("svg", { viewBox: "0 0 27 10", "aria-hidden": "true" },
          draw("line", { x1: 0, x2: 27, y1: 5, y2: 5, "stroke-dasharray": dashOf(line.color) })),
        line.label),
      make("td", {}, stepsText(line.median[index])),
      make("td", {}, `${stepsText(line.low[index])}–${stepsText(line.high[index])}`),
      ...(line.success ? [make("td", {}, line.success[index].toFixed(3))] : [])));
  if (plot.level !== undefined) {
    body.push(make("tr", {}, make("th", {}, plot.reference), make("td", {}, stepsText(plot.level)), make("td"), make("td")));
  }
  return make("table", {}, head, make("tbody", {}, ...body));
}

{
  const all = read("curves");
  for (const figure of document.querySelectorAll(".curves")) showCurves(figure, all[figure.dataset.section]);
}
