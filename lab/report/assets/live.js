// The live page: appends what the server sends to the run, in the form of a recording's, and reads it again.

const LAG = 0.3;            // s that the present is behind the last sample: pauses arrive that late
const MOST_VALUES = 4e6;    // values of all series together; above that, older samples are thinned out
const MOST_SAMPLES = 12000, FEWEST_SAMPLES = 600;
const MOST_PAUSES = 200000, MOST_EVENTS = 300, MOST_STEPS = 200, MOST_QP_CHANGES = 4000;
const REDRAW = 250, REPLOT = 1000, WAIT = 100, RETRY = 1000;   // ms
const COUNTED = ["ports", "again"];

const series = new Map();   // by the server's number: the list of changes, the sample and the value of the last one
let cursor = 0, tellings = 0, zero = null, lastTime = 0, thinned = false;
let following = true, over = false, lost = false;
let redrawn = -REDRAW, replotted = -REPLOT, holding = false, zoomed = false;

const seconds = (us) => (us - zero) / 1e6;

function listOf(path) {
  const [kind, name, priority, measure] = path;
  if (kind === "ports") {
    const lanes = run.ports[name] || (run.ports[name] = {});
    const lane = lanes[priority] || (lanes[priority] = {});
    return lane[measure] || (lane[measure] = []);
  }
  const lists = kind === "received" ? run.received.devices : run[kind];
  return lists[name] || (lists[name] = []);
}

const isCounter = (path) => COUNTED.includes(path[0]) && !(path[0] === "ports" && run.measures[path[3]].reduction === "last");

function addSeries([number, ...path], first) {
  if (series.has(number)) return;
  series.set(number, {path, changes: listOf(path), at: 0, value: 0, base: first && isCounter(path), fresh: true});
}

function setValue(number, value, index) {
  const one = series.get(number);
  if (!one) return;
  if (one.base) one.value = value;  // counters count from the moment when the page was opened
  const early = one.fresh && one.path[0] === "sessions";  // the first state also held before
  if (one.fresh && one.path[0] === "links" && index) change(one, 1, 0);  // a link is reported when it goes down
  if (one.fresh && one.path[0] === "limits" && index) change(one, run.rates[one.path[1].split(" ")[0]] || 0, 0);
  one.base = one.fresh = false;
  change(one, value, early ? 0 : index);
}

function change(one, value, index) {
  if (value === one.value) return;
  one.changes.push(index - one.at, value - one.value);
  one.at = index;
  one.value = value;
}

function dropSeries(number) {
  const one = series.get(number);
  if (!one) return;
  delete run[one.path[0]][one.path[1]];
  series.delete(number);
}

let pauseCount = 0;
function setPause([name, priority, start, stop]) {
  const lanes = pauses.get(name) || [];
  pauses.set(name, lanes);
  let lane = lanes.find((each) => each.priority === String(priority));
  if (!lane) lanes.push(lane = {priority: String(priority), starts: [], ends: []});
  const at = seconds(start), last = lane.starts.length - 1;
  if (last < 0 || lane.starts[last] !== at) {
    lane.starts.push(at);
    lane.ends.push(Infinity);
    pauseCount++;
  }
  lane.ends[lane.ends.length - 1] = stop === null ? Infinity : seconds(stop);  // after a gap, it may still last
}

// The older half of all pauses is forgotten; the share of time in each sample remains.
function forgetPauses() {
  if (pauseCount <= MOST_PAUSES) return;
  pauseCount = 0;
  for (const lanes of pauses.values()) for (const lane of lanes) {
    const half = lane.starts.length >> 1;
    lane.starts.splice(0, half);
    lane.ends.splice(0, half);
    pauseCount += lane.starts.length;
  }
}

// Insert by time: commands and steps of jobs are reported when they have ended. The oldest go.
function insert(list, made, box, item) {
  const number = list.findLastIndex((each) => each.at <= made.at) + 1;
  list.splice(number, 0, made);
  if (box) box.insertBefore(item, box.children[number] || null);
  if (list.length > MOST_EVENTS) remove(list, 0, box);
}

function remove(list, number, box) {
  list.splice(number, 1);
  if (box) box.children[number].remove();
}

// Steps of a fast job would leave no room for other events: they have their own maximum.
let stepCount = 0, unlisted = 0, gaps = 0, suspended = false;
function addEvent({at, ...event}) {
  const step = {...event, at: Math.max(0, seconds(at)), bound: ""};
  if (!run.steps.length) $("steps").replaceChildren();
  const number = run.steps.findLastIndex((each) => each.at <= step.at) + 1;
  run.steps.splice(number, 0, step);
  run.moments.splice(number, 0, {at: step.at, what: event.text});
  $("steps").insertBefore(stepItem(step), $("steps").children[number] || null);
  shownStep = -1;
  if (event.word === "Job") stepCount++;
  if (stepCount <= MOST_STEPS && run.steps.length <= MOST_EVENTS) return;
  const oldest = stepCount > MOST_STEPS ? run.steps.findIndex((each) => each.word === "Job") : 0;
  if (run.steps[oldest].word === "Job") stepCount--;
  remove(run.steps, oldest, $("steps"));
  remove(run.moments, oldest);
  unlisted++;
}

function showUnlisted() {
  const lines = [];
  if (unlisted) lines.push(`${unlisted} events are not listed: ${MOST_EVENTS} are kept, ${MOST_STEPS} of them steps of jobs.`);
  if (gaps) lines.push(`The kernel dropped news ${gaps} times: changes of links may be missing.`);
  if (suspended) lines.push("The page was suspended: events of that time are missing.");
  $("unlisted").textContent = lines.join(" ");
  $("unlisted").hidden = !lines.length;
}

function addCommand({at, ...command}) {
  const made = {...command, at: Math.max(0, seconds(at))};
  if (!run.commands.length) $("commands").replaceChildren();
  insert(run.commands, made, $("commands"), commandItem(made));
  shownCommands = -1;
}

let mostQpChanges = MOST_QP_CHANGES;
function addQueuePair([nic, qpn, remote, kind, state, program], at) {
  qpChanges.push({at, nic, qpn, remote, kind, state, program});
  if (qpChanges.length <= mostQpChanges) return;
  const kept = existing(qpChanges.splice(0, qpChanges.length >> 1), Infinity);  // the older half, but for what exists
  qpChanges.unshift(...kept);
  mostQpChanges = MOST_QP_CHANGES + 2 * kept.length;
}

function append(update) {
  const first = zero === null;
  if (first) { zero = update.t; lastTime = update.t; }
  if (update.t < lastTime || (update.reset && !first && update.t === lastTime)) return;
  const index = run.times.length;
  run.times.push(update.t - lastTime);
  lastTime = update.t;
  if (update.reset && !first) {
    suspended = true;
    forgetMissing(new Set((update.series || []).map(([number]) => number)));
    for (const pair of existing(qpChanges, Infinity)) qpChanges.push({...pair, at: seconds(update.t), state: "gone"});
  }
  for (const number of update.dropped || []) dropSeries(number);
  for (const each of update.series || []) addSeries(each, first);
  const values = update.values || [];
  for (let i = 0; i < values.length; i += 2) setValue(values[i], values[i + 1], index);
  for (const pause of update.pauses || []) setPause(pause);
  for (const event of update.events || []) addEvent(event);
  unlisted += update.unlisted || 0;
  gaps += update.gaps || 0;
  for (const command of update.commands || []) addCommand(command);
  for (const pair of update.qps || []) addQueuePair(pair, seconds(update.t));
}

// After a gap: what is not in the snapshot does not exist any more.
function forgetMissing(known) {
  for (const number of [...series.keys()]) if (!known.has(number)) dropSeries(number);
  for (const lanes of pauses.values()) for (const lane of lanes) {
    const last = lane.ends.length - 1;
    if (last >= 0 && lane.ends[last] === Infinity) lane.ends[last] = seconds(lastTime);
  }
}

// Of the older half of the samples, every second one goes: the latest keep their resolution, and memory is bounded.
function thin() {
  const most = Math.max(FEWEST_SAMPLES, Math.min(MOST_SAMPLES, Math.floor(MOST_VALUES / Math.max(1, series.size))));
  while (run.times.length > most) {
    const half = (run.times.length >> 2) << 1;
    const moved = (index) => index < half ? (index + 1) >> 1 : index - half / 2;
    const kept = [];
    let passed = 0;
    run.times.forEach((step, index) => {
      passed += step;
      if (index >= half || index % 2 === 0) { kept.push(passed); passed = 0; }
    });
    run.times = kept;
    for (const one of series.values()) thinSeries(one, moved);
    thinned = true;
  }
}

function thinSeries(one, moved) {
  const kept = [];
  let at = 0, last = 0;
  for (let i = 0; i < one.changes.length; i += 2) {
    at += one.changes[i];
    const place = moved(at);
    if (kept.length && place === last) kept[kept.length - 1] += one.changes[i + 1];
    else kept.push(place - last, one.changes[i + 1]);
    last = place;
  }
  one.changes.splice(0, one.changes.length, ...kept);
  one.at = last;
}

function readAgain() {
  times = summed(run.times);
  end = endOf();
  events = eventTimes();
  ports.clear();
  for (const name of Object.keys(run.ports)) ports.set(name, readPort(name));
  readLines();
  readLinks();
  sortLimits();
  findDeepest();
  $("scrub").max = end;
}

// The QPs that were most limited in the time that plots show are the first: only some are drawn.
function sortLimits() {
  const [from, to] = span();
  const part = ({name, values}) => values.subarray(from, to).reduce((least, value) => Math.min(least, value), Infinity) / (run.rates[name.split(" ")[0]] || 1);
  limits = limits.map((line) => [part(line), line]).sort((a, b) => a[0] - b[0]).map(([, line]) => line);
}

const present = () => Math.max(0, end - LAG);

let planned = 0, plannedPlots = 0;

function planRedraw() {
  if (planned) return;
  planned = setTimeout(redraw, over ? 0 : Math.max(0, redrawn + REDRAW - performance.now()));
}

function redraw() {
  const at = redrawn = performance.now();
  planned = 0;
  readAgain();
  if (following) moveTo(over ? end : present()); else show();
  if (!plannedPlots) plannedPlots = setTimeout(redrawPlots, over ? 0 : Math.max(0, replotted + REPLOT - at));
}

function redrawPlots() {
  replotted = performance.now();
  plannedPlots = 0;
  replot();
  density();
  $("marks").replaceChildren();
  for (const moment of run.moments) mark(moment.at, "other", `${moment.at.toFixed(3)} s: ${moment.what}`);
  const rewind = thinned ? "the latest samples are complete, older ones thinned out" : "with all samples";
  $("kept").textContent = `This page can be rewound to its opening, ${end.toFixed(0)} s ago, ${rewind}.`;
}

// The samples that plots show: those of the last minute, or of the minute around the moment.
function span() {
  const long = Number($("span").value);
  if (!long || end <= long) return [0, times.length];
  const last = following ? end : Math.min(end, Math.max(long, now + long / 2));
  return [Math.max(0, place(times, last - long)), place(times, last) + 1];
}

function replot() {
  if (holding || zoomed) return;
  const [from, to] = span();
  const lines = run.plots.map((kind) => linesOf(kind)).filter((each) => each.length);
  const same = lines.length === plots.length && lines.every((each, number) => {
    const known = plots[number].lines;
    return known.length === each.length && each.every((line) => known.includes(line.name));
  });
  if (!same) return plotAll();
  lines.forEach((each, number) => {
    const byName = new Map(each.map((line) => [line.name, line.values]));
    plots[number].setData([times.slice(from, to), ...plots[number].lines.map((name) => byName.get(name).slice(from, to))].map((column) => Array.from(column)));
  });
}

// Whether a plot shows less time than it has samples of.
function isZoomed(plot) {
  const {min, max} = plot.scales.x, samples = plot.data[0];
  return samples.length > 1 && (min > samples[0] || max < samples[samples.length - 1]);
}

function goLive() {
  following = true;
  playing = true;
  zoomed = false;
  $("play").classList.add("on");
  $("play").setAttribute("aria-label", "Pause");
  setSpeed(1);
  moveTo(over ? end : present());
  if (over) play(false);
  showState();
}

function showState(gone = lost) {
  lost = gone;
  const state = over ? "ended" : lost ? "connection lost" : zero === null ? "connecting" : following ? "live" : "rewound: back to live";
  $("state").textContent = state;
  $("state").className = `chip ${over || lost ? "lost" : following ? "present" : "past"}`;
}

function showRecording(recording) {
  const {state = "", name = "", line = ""} = recording || {};
  const words = {starting: `starting ${name} …`, recording: `recording ${name}`, saving: `saving ${name} …`};
  $("record-state").textContent = words[state] || line;
  $("record").textContent = state === "recording" ? "Stop and save" : "Record";
  $("record").dataset.act = state === "recording" ? "stop" : "start";
  $("record").classList.toggle("on", state === "recording");
  $("record").disabled = over || state === "starting" || state === "saving";
}

async function record() {
  $("record").disabled = true;
  const answer = await fetch("record", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({do: $("record").dataset.act})}).catch(() => null);
  if (answer && !answer.ok) $("record-state").textContent = await answer.text();
}

function complain(text) {
  $("trouble").textContent = text;
  $("trouble").hidden = !text;
}

async function ask() {
  const answer = await fetch(`updates?after=${cursor}&tellings=${tellings}`, {cache: "no-store"});
  if (answer.status === 403) throw new Error(await answer.text());
  if (!answer.ok) throw new Error("");
  const told = await answer.json();
  cursor = told.next;
  tellings = told.tellings;
  told.updates.forEach(append);
  if (told.ended) {
    over = true;
    complain(`${told.ended}. What was seen until then can still be rewound.`);
  }
  if (told.updates.length) { thin(); forgetPauses(); showUnlisted(); }
  if (run.times.length && told.updates.length) planRedraw();
  showRecording(told.recording);
}

async function poll() {
  let failed = 0;
  while (!over) {
    try {
      await ask();
      failed = 0;
      complain(over ? $("trouble").textContent : "");
      showState(false);
    } catch (error) {
      failed++;
      complain(error.message.trim() && !(error instanceof TypeError) ? error.message : failed > 2 ? "The server does not answer: rocelab live has ended, or this machine is busy." : "");
      showState(true);
    }
    await new Promise((done) => setTimeout(done, failed ? Math.min(5, failed) * RETRY : WAIT));
  }
  showState(false);
}

function beginLive() {
  Object.assign(live, {
    atEnd: goLive, again: goLive, shown: showNow, following: () => following && !over,
    moved: () => {
      if (!following) return;
      following = false;
      playing = false;
      $("play").classList.remove("on");
      showState(false);
    },
  });
  KEYS.End = goLive;
  history.replaceState(null, "", location.pathname);
  begin();
  document.querySelector(".legend .key.fault").parentNode.replaceChildren(element("span", {class: "key cross"}, "×"), " link down");
  $("steps").before(element("p", {id: "unlisted", class: "hint", role: "status", hidden: ""}));
  $("steps").replaceChildren(element("li", {class: "legend"}, "Nothing has happened since this page was opened."));
  for (const hint of $("commands").querySelectorAll(".hint")) hint.textContent = "No command was run since this page was opened.";
  $("state").addEventListener("click", goLive);
  $("span").addEventListener("change", () => { zoomed = false; replot(); });
  $("record").addEventListener("click", record);
  shelf.addEventListener("mousedown", () => { holding = true; });
  addEventListener("mouseup", () => setTimeout(() => {  // uPlot zooms after this event
    holding = false;
    zoomed = plots.some(isZoomed);
  }));
  shelf.addEventListener("dblclick", () => { zoomed = false; replot(); });
  goLive();
  poll();
}

beginLive();
