// The run: what page.py has embedded, taken apart. Times are seconds of the recording. The live page appends to it.

const run = JSON.parse(document.getElementById("run").textContent);

function summed(steps) {
  let at = 0;
  return Float64Array.from(steps, (step) => (at += step) / 1e6);
}

let times = summed(run.times);
let end = endOf();

function endOf() {
  return Math.max(run.seconds, times.length ? times[times.length - 1] : 0);
}

// [samples since the last change, the change, ...] as a value for each sample.
function unfolded(changes) {
  const values = new Float64Array(times.length);
  let at = 0, value = 0, filled = 0;
  for (let i = 0; i < changes.length; i += 2) {
    at += changes[i];
    values.fill(value, filled, at);
    value += changes[i + 1];
    filled = at;
  }
  values.fill(value, filled);
  return values;
}

// Growth in a second, from sample to sample. Where two samples are close together, as at the beginning of a phase, it
// is since the last one that is half a period back: some counters stand still for 10 ms.
function rising(values, scale) {
  const rates = new Float64Array(times.length);
  for (let i = 1; i < rates.length; i++) {
    let from = i - 1;
    while (from > 0 && times[i] - times[from] < 0.5 / run.hz) from--;
    const passed = times[i] - times[from];
    rates[i] = passed > 0 ? Math.max(0, (values[i] - values[from]) * scale / passed) : 0;
  }
  return rates;
}

// Where the last of the ordered values that is not above x is; -1 when all are.
function place(values, x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle + 1; else high = middle;
  }
  return low - 1;
}

function added(into, from) {
  if (into === null) return from.slice();
  for (let i = 0; i < into.length; i++) into[i] += from[i];
  return into;
}

// The value of a measure at each sample: run.measures says how it comes from the series of its counter or gauge.
function measured(changes, measure) {
  const values = unfolded(changes);
  if (measure.reduction === "last") return values;
  return rising(values, measure.scale);
}

// A port: each measure by priority and, under the measure's name, of all priorities together.
function readPort(name) {
  const port = {name, rate: run.rates[name] || 0, lanes: {}};
  for (const [priority, lane] of Object.entries(run.ports[name])) {
    const made = {};
    for (const [kind, changes] of Object.entries(lane)) {
      const measure = run.measures[kind], values = measured(changes, measure);
      made[kind] = values;
      if (measure.highest && port[kind]) port[kind] = port[kind].map((value, i) => Math.max(value, values[i]));
      else port[kind] = added(port[kind] || null, values);
    }
    port.lanes[priority] = made;
  }
  return port;
}

const ports = new Map(Object.keys(run.ports).map((name) => [name, readPort(name)]));

// By port: when it might not send, in any priority.
const pauses = new Map(Object.entries(run.pauses).map(([name, lanes]) => [name, Object.entries(lanes).map(([priority, flat]) => {
  const starts = [], ends = [];
  let at = 0;
  for (let i = 0; i < flat.length; i += 2) {
    starts.push((at += flat[i]) / 1e6);
    ends.push((at += flat[i + 1]) / 1e6);
  }
  return {priority, starts, ends};
})]));

function pausedAt(name, t) {
  for (const lane of pauses.get(name) || []) {
    const at = place(lane.starts, t);
    if (at >= 0 && t < lane.ends[at]) return {priority: lane.priority, start: lane.starts[at], end: lane.ends[at]};
  }
  return null;
}

// The sample interval that a moment lies in, by its later end.
const intervalAt = (t) => Math.min(times.length - 1, place(times, t) + 1);
const sampleAt = (t) => Math.max(0, place(times, t));

const order = new Map(run.standstills.map((pause, number) => [pause.port, {...pause, number: number + 1}]));

function eventTimes() {
  return [...new Set([
    ...run.moments.map((moment) => moment.at),
    ...run.standstills.flatMap((pause) => [pause.start, pause.end]),
  ])].filter((at) => at >= 0 && at <= end).sort((a, b) => a - b);
}

let events = eventTimes();

const phaseAt = (t) => run.phases.find((phase) => t >= phase.start && t < phase.end);
const faultsAt = (t) => run.faults.filter((fault) => t >= fault.start && (fault.end === null || t < fault.end));

// A value with its unit; steps are of [from which value on and divisor, suffix], the largest first.
function written(value, steps) {
  const [size, suffix] = steps.find(([size]) => Math.abs(value) >= size) || steps[steps.length - 1];
  const scaled = value / size;
  return `${Number(scaled.toPrecision(scaled >= 100 ? 3 : 2 + (scaled >= 10)))}${suffix}`;
}

const still = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(tag, more = {}, ...within) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(more)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...within);
  return made;
}
