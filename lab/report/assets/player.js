// The player: one moment, which everything shows; buttons, keys and the time line move it.

const $ = (id) => document.getElementById(id);
const SPEEDS = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8];
let now = 0;
let playing = false;
let speed = 1;
let chosen = null;
let last = 0;

// What the live page does otherwise: at the end of the run, when the user moves the time, and for each moment.
const live = {atEnd: () => play(false), again: () => { now = 0; }, moved: () => {}, shown: () => {}, following: () => false};

const fraction = (value) => value >= 1 ? `${value}×` : `1/${Math.round(1 / value)}×`;

function currentStep() {
  let found = null;
  run.steps.forEach((step, number) => { if (step.at <= now + 1e-9) found = number; });
  return found;
}

function show() {
  const step = currentStep();
  draw(now, step === null ? null : run.steps[step]);
  $("clock").textContent = `${now.toFixed(speed < 0.1 ? 4 : 3)} s`;
  const phase = phaseAt(now);
  $("phase").textContent = phase ? phase.name : "";
  const broken = faultsAt(now).map((fault) => fault.text).join(", ");
  $("moment-line").textContent = `${now.toFixed(3)} s${phase ? `, ${phase.name}` : ""}${broken ? `: ${broken}` : ""}`;
  $("scrub").value = now;
  $("scrub").setAttribute("aria-valuetext", `${now.toFixed(3)} seconds${phase ? `, ${phase.name}` : ""}`);
  for (const band of document.querySelectorAll(".band")) band.classList.toggle("now", Boolean(phase) && Number(band.dataset.start) === phase.start);
  showStep(step);
  showCommands();
  showJobs(now);
  for (const each of plots) follow(each, now);
  if (chosen !== null) inspect();
  live.shown(now);
}

function into(box, item) {
  if (item.offsetTop < box.scrollTop || item.offsetTop + item.offsetHeight > box.scrollTop + box.clientHeight) {
    box.scrollTop = item.offsetTop - box.clientHeight / 3;
  }
}

let shownStep = -1;
function showStep(step) {
  if (step === shownStep) return;
  shownStep = step;
  [...$("steps").querySelectorAll(".step")].forEach((button, number) => {
    button.classList.toggle("later", step === null || number > step);
    if (number === step) { button.setAttribute("aria-current", "step"); into($("steps"), button.parentNode); } else button.removeAttribute("aria-current");
  });
}

let shownCommands = -1;
function showCommands() {
  const begun = run.commands.filter((command) => command.at <= now + 1e-9).length;
  if (begun === shownCommands) return;
  shownCommands = begun;
  [...$("commands").querySelectorAll(".command")].forEach((item, number) => {
    item.classList.toggle("later", run.commands[number].at > now + 1e-9);
    if (number === begun - 1) $("commands").scrollTop = Math.max(0, item.offsetTop - 8);
  });
}

function moveTo(t) {
  now = Math.max(0, Math.min(end, t));
  show();
}

function seek(t) {
  live.moved();
  moveTo(t);
}

function play(on) {
  if (on && now >= end) live.again();
  if (!on) live.moved();
  playing = on;
  $("play").classList.toggle("on", on);
  $("play").setAttribute("aria-label", on ? "Pause" : "Play");
  last = performance.now();
  if (on) requestAnimationFrame(tick);
}

function tick(at) {
  if (!playing || live.following()) return;
  const passed = Math.max(0, at - last) / 1000;
  last = at;
  moveTo(now + passed * speed);
  if (now >= end) live.atEnd(); else requestAnimationFrame(tick);
}

function setSpeed(value) {
  speed = value;
  $("speed").value = String(value);
}

const later = (moments) => moments.find((at) => at > now + 1e-6);
const earlier = (moments) => [...moments].reverse().find((at) => at < now - 1e-6);

function hop(at) {
  if (at !== undefined) { play(false); seek(at); }
}

function goStep(step) {
  if (!step) return;
  seek(step.at);
  if (step.speed) setSpeed(step.speed);
  else if (speed < 0.1) setSpeed(1);
}

function choose(name) {
  chosen = chosen === name ? null : name;
  $("inspector").hidden = chosen === null;
  plotAll();
  show();
}

function inspect() {
  const port = ports.get(chosen);
  const interval = intervalAt(now), sample = sampleAt(now), pause = pausedAt(chosen, now);
  const kinds = Object.keys(run.measures);
  const cell = (values, measure) => values ? written(values[measure.reduction === "last" ? sample : interval], measure.steps) : "";
  const rows = Object.entries(port ? port.lanes : {}).map(([priority, lane]) => element("tr", {},
    ...[priority, ...kinds.map((kind) => cell(lane[kind], run.measures[kind]))].map((text) => element("td", {}, text))));
  const head = ["priority", ...kinds.map((kind) => run.measures[kind].title)].map((text) => element("th", {scope: "col"}, text));
  $("inspector").replaceChildren(
    element("header", {}, element("h3", {}, chosen), element("span", {}, run.rates[chosen] ? `link of ${written(run.rates[chosen], run.measures.tx_bps.steps)}` : ""),
      element("span", {}, pause ? `may not send priority ${pause.priority}: since ${pause.start.toFixed(4)} s${pause.end === Infinity ? "" : `, until ${pause.end.toFixed(4)} s`}` : "may send"),
      element("button", {type: "button", onclick: () => choose(chosen)}, "all ports")),
    element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)),
  );
}

async function copy(text, button) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const area = element("textarea", {readonly: ""});
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  button.textContent = done ? "copied" : "select it";
  setTimeout(() => { button.textContent = "copy"; }, 1500);
}

function commandItem(command) {
  const button = element("button", {type: "button", class: "copy", "aria-label": `copy ${command.typed}`}, "copy");
  button.addEventListener("click", () => copy(command.typed, button));
  const item = element("div", {class: "command"}, element("div", {class: "typed"}, element("code", {}, command.typed), button));
  if (command.output) item.append(element("pre", {}, command.output));
  if (command.code) item.append(element("pre", {class: "failed"}, `exit code ${command.code}`));
  return item;
}

function buildCommands() {
  $("commands").append(...run.commands.map(commandItem));
  if (run.commands.length < 2) $("commands").append(element("p", {class: "hint"}, "No other command was run in this run."));
}

function stepItem(step) {
  return element("li", {}, element("button", {type: "button", class: "step", onclick: () => goStep(step)},
    element("b", {}, step.word), element("span", {}, step.text), element("small", {}, `${step.at.toFixed(3)} s${step.bound ? ` · ${step.bound}` : ""}`)));
}

function buildSteps() {
  $("steps").append(...run.steps.map(stepItem));
  if (!run.steps.length) $("steps").append(element("li", {class: "legend"}, "No scenario tells the story of this run."));
}

// Each header of a packet as a table: field, value, what it means.
function taken(header) {
  const rows = header.fields.map((field) => element("tr", {}, ...field.map((text) => element("td", {}, text))));
  return element("div", {class: "header"}, element("h4", {}, header.name), element("p", {}, header.why), element("table", {}, element("tbody", {}, ...rows)));
}

function buildPackets() {
  $("packet-panel").hidden = !run.packets.length;
  for (const packet of run.packets) {
    const button = element("button", {type: "button", class: "copy", "aria-label": `copy ${packet.typed}`}, "copy");
    button.addEventListener("click", () => copy(packet.typed, button));
    const moment = element("button", {type: "button", class: "moment", onclick: () => hop(packet.at)}, `${packet.at.toFixed(6)} s`);
    $("packets").append(element("div", {class: "packet"},
      element("p", {class: "sort"}, moment, element("b", {}, packet.what), element("span", {}, `at ${packet.link}`)),
      element("details", {}, element("summary", {}, element("code", {}, packet.line)), ...packet.headers.map(taken),
        element("p", {class: "typed"}, element("code", {}, packet.typed), button))));
  }
}

const percent = (t) => `${end ? t / end * 100 : 0}%`;

function mark(at, kind, title) {
  const made = element("button", {type: "button", class: `mark ${kind}`, title, tabindex: -1, "aria-hidden": "true", onclick: () => hop(at)});
  made.style.left = percent(at);
  $("marks").append(made);
}

function buildTrack() {
  for (const phase of run.phases) {
    const band = element("div", {class: "band", title: phase.name, "data-start": phase.start}, phase.name);
    band.style.left = percent(phase.start);
    band.style.width = percent(Math.max(0, phase.end - phase.start));
    $("bands").append(band);
  }
  for (const fault of run.faults) {
    const band = element("div", {class: "broken", title: fault.text});
    band.style.left = percent(fault.start);
    band.style.width = percent((fault.end === null ? end : fault.end) - fault.start);
    $("bands").append(band);
  }
  for (const moment of run.moments) if (!moment.what.startsWith("phase ")) mark(moment.at, "other", `${moment.at.toFixed(3)} s: ${moment.what}`);
  for (const pause of run.standstills) mark(pause.start, "stop", `${pause.start.toFixed(4)} s: ${pause.port} stops`);
  for (const packet of run.packets) mark(packet.at, "other", `${packet.at.toFixed(4)} s: ${packet.what}`);
  for (const step of run.steps) mark(step.at, "step-mark", `${step.word}: ${step.text}`);
}

// How much of each moment ports were paused, over the time line.
function density() {
  const canvas = $("density"), scale = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * scale;
  canvas.height = canvas.clientHeight * scale;
  const bins = new Float64Array(canvas.width);
  if (!bins.length || !end) return;
  for (const lanes of pauses.values()) for (const lane of lanes) lane.starts.forEach((start, i) => {
    const from = start / end * bins.length, to = Math.min(bins.length, lane.ends[i] / end * bins.length);
    for (let bin = Math.max(0, Math.floor(from)); bin < to; bin++) bins[bin] += Math.min(bin + 1, to) - Math.max(bin, from);
  });
  const most = Math.max(1, pauses.size), pen = canvas.getContext("2d");
  pen.fillStyle = colour("--pause");
  bins.forEach((value, bin) => {
    pen.globalAlpha = value ? Math.min(1, 0.15 + value / most) : 0;
    pen.fillRect(bin, 0, 1, canvas.height);
  });
}

const KEYS = {
  " ": () => play(!playing), k: () => play(!playing),
  ArrowLeft: () => hop(earlier(times)), ArrowRight: () => hop(later(times)),
  ",": () => hop(earlier(events)), ".": () => hop(later(events)),
  Home: () => hop(0), End: () => hop(end),
  n: () => goStep(run.steps.find((step) => step.at > now + 1e-6)),
  p: () => goStep(run.steps.findLast((step) => step.at < now - 1e-6)),
  "[": () => setSpeed(SPEEDS[Math.max(0, SPEEDS.indexOf(speed) - 1)]),
  "]": () => setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, SPEEDS.indexOf(speed) + 1)]),
  Escape: () => { if (chosen !== null) choose(chosen); },
};

function listen() {
  $("play").addEventListener("click", () => play(!playing));
  $("rewind").addEventListener("click", () => hop(0));
  $("back").addEventListener("click", () => hop(earlier(times)));
  $("forth").addEventListener("click", () => hop(later(times)));
  $("event").addEventListener("click", () => hop(later(events)));
  $("scrub").addEventListener("input", () => { play(false); seek(Number($("scrub").value)); });
  $("speed").addEventListener("change", () => setSpeed(Number($("speed").value)));
  document.addEventListener("keydown", (event) => {
    const free = !event.ctrlKey && !event.metaKey && !event.altKey && !["SELECT", "TEXTAREA"].includes(event.target.tagName);
    const pressed = event.key === " " && event.target.tagName === "BUTTON";
    if (!free || pressed || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  addEventListener("resize", () => { fitPlots(); density(); });
  dark.addEventListener("change", () => { plotAll(); density(); show(); });
}

function begin() {
  $("player").hidden = false;
  $("scrub").max = end;
  for (const value of SPEEDS) $("speed").append(element("option", {value}, fraction(value)));
  setSpeed(1);
  build();
  buildSteps();
  buildCommands();
  buildPackets();
  buildTrack();
  buildJobs();
  listen();
  plotAll();
  density();
  const asked = /^#t=(\d+(?:\.\d+)?)$/.exec(location.hash);
  seek(asked ? Number(asked[1]) : run.opening);
}

if (!run.live) begin();
