// Plots with one shared cursor: of the ports that matter, or of the one that was clicked.

const PALETTE = ["#2563eb", "#e11d48", "#d97706", "#0d9488", "#9333ea", "#db2777", "#65a30d", "#0891b2"];
const MOST = 6;
const HEIGHT = 190;
const shelf = document.getElementById("plots");
const colours = new Map();
let plots = [];

function colourOf(name) {
  if (!colours.has(name)) colours.set(name, PALETTE[colours.size % PALETTE.length]);
  return colours.get(name);
}

let received, again, sessions, limits;

// The lines that no port has. The most limited QP is the first.
function readLines() {
  const valuesOf = (kind) => Object.entries(kind).map(([name, changes]) => ({name, values: unfolded(changes)}));
  received = valuesOf(run.received.devices);
  again = valuesOf(run.again).map(({name, values}) => ({name, values: rising(values, 1)}));
  sessions = valuesOf(run.sessions).map(({name, values}) => ({port: name.split(" ")[0], kind: name.split(" ")[1], values}));
  limits = valuesOf(run.limits);
}

readLines();

const ofChosen = (line) => chosen === null || line.name.startsWith(`${chosen} `);

// How many sessions of each protocol are up: of a port, or of all.
function upOf() {
  const found = new Map();
  for (const session of sessions) if (chosen === null || session.port === chosen) {
    found.set(session.kind, added(found.get(session.kind) || null, session.values));
  }
  return [...found].map(([kind, values]) => ({name: kind.toUpperCase(), values}));
}

function biggest(found) {
  const sums = found.map((line) => [line.values.reduce((sum, value) => sum + value, 0), line]);
  const most = Math.max(0, ...sums.map(([sum]) => sum));
  return sums.filter(([sum]) => sum > most / 100).sort((a, b) => b[0] - a[0]).slice(0, MOST).map(([, line]) => line);
}

// What a plot shows: of a chosen port its own lines, otherwise those of the ports with most of it.
function linesOf(kind) {
  if (kind.key === "sessions") return upOf();
  if (kind.key === "again") return biggest(again.filter(ofChosen));
  if (kind.key === "limits") return limits.filter(ofChosen).slice(0, MOST);
  if (chosen !== null) {
    const port = ports.get(chosen);
    if (!port) return [];
    return Object.entries(port.lanes).filter(([, lane]) => lane[kind.key] && lane[kind.key].some((value) => value > 0))
      .map(([priority, lane]) => ({name: priority === "" ? chosen : `priority ${priority}`, values: lane[kind.key]}));
  }
  if (isReceived(kind)) return biggest(received);
  const every = [...ports.values()].filter((port) => port[kind.key] && run.rates[port.name]);
  const switches = kind.key === "queue_bytes" ? every.filter((port) => !isHost(port.name)) : every;
  return biggest(switches.map((port) => ({name: port.name, values: port[kind.key]})));
}

const isReceived = (kind) => kind.key === "tx_bps" && chosen === null && received.length > 0;

function saysOf(kind) {
  if (isReceived(kind)) return run.received.says;
  return kind.key === "queue_bytes" && chosen === null ? `${kind.says}, of switches` : kind.says;
}

function plot(kind) {
  const lines = linesOf(kind);
  if (!lines.length) return null;
  const text = (value) => kind.key === "sessions" && !Number.isInteger(value) ? "" : written(value, kind.steps);
  const panel = element("div", {class: "panel plot"}, element("div", {class: "caption"}, element("h2", {}, isReceived(kind) ? run.received.title : kind.title), element("p", {}, saysOf(kind))));
  shelf.append(panel);
  const axis = {stroke: colour("--muted"), grid: {stroke: colour("--line"), width: 1}, ticks: {stroke: colour("--line"), width: 1}, font: "11px sans-serif"};
  const made = new uPlot({
    width: panel.clientWidth - 12, height: HEIGHT,
    cursor: {sync: {key: "run"}, drag: {x: true, y: false, dist: 6}, points: {size: 6}},
    legend: {live: true},
    scales: {x: {time: false}, y: {range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1]}},
    series: [{label: "s", value: (_, value) => value === null ? "" : value.toFixed(3)}, ...lines.map((line, number) => ({
      label: line.name, stroke: chosen === null ? colourOf(line.name) : PALETTE[number % PALETTE.length], width: 1.6,
      value: (_, value) => value === null ? "" : text(value), points: {show: false},
      ...(["queue_bytes", "sessions", "limits"].includes(kind.key) ? {paths: uPlot.paths.stepped({align: 1})} : {paths: uPlot.paths.stepped({align: -1})}),
    }))],
    axes: [{...axis, size: 32, values: (_, ticks) => ticks.map((tick) => `${Number(tick.toFixed(4))} s`)},
      {...axis, size: 66, values: (_, ticks) => ticks.map(text)}],
    hooks: {
      init: [(u) => {
        u.playhead = element("div", {class: "playhead"});
        u.over.append(u.playhead);
        u.breaking = run.faults.map((fault) => {
          const band = element("div", {class: "breaking"});
          u.over.append(band);
          return [fault, band];
        });
        let from = 0;
        u.over.addEventListener("mousedown", (event) => { from = event.clientX; });
        u.over.addEventListener("click", (event) => {
          if (Math.abs(event.clientX - from) < 6) seek(u.posToVal(event.clientX - u.over.getBoundingClientRect().left, "x"));
        });
      }],
      ready: [(u) => follow(u, now)],
      setScale: [(u, key) => { if (key === "x" && u.playhead) follow(u, now); }],
      setSize: [(u) => { if (u.playhead) follow(u, now); }],
    },
  }, dataOf(lines), panel);
  made.lines = lines.map((line) => line.name);
  return made;
}

const dataOf = (lines) => [Array.from(times), ...lines.map((line) => Array.from(line.values))];

function follow(u, t) {
  if (!u.status) return;
  const x = u.valToPos(t, "x");
  u.playhead.style.left = `${x}px`;
  u.playhead.hidden = x < 0 || x > u.over.clientWidth;
  const inside = (at) => Math.max(0, Math.min(u.over.clientWidth, u.valToPos(at, "x")));
  for (const [fault, band] of u.breaking) {
    const left = inside(fault.start), right = inside(fault.end === null ? end : fault.end);
    band.style.left = `${left}px`;
    band.style.width = `${right - left}px`;
  }
  if (u.cursor.left === undefined || u.cursor.left < 0) u.setLegend({idx: Math.max(0, place(u.data[0], t))}, false);
}

function plotAll() {
  for (const each of plots) each.destroy();
  shelf.replaceChildren();
  const made = run.plots.map((kind) => [kind, plot(kind)]);
  plots = made.map(([, each]) => each).filter((each) => each !== null);
  const none = made.filter(([, each]) => each === null).map(([kind]) => kind.title.toLowerCase());
  if (none.length) shelf.append(element("p", {class: "none"}, `Not ${chosen === null ? "in this run" : `at ${chosen}`}: ${none.join(", ")}.`));
}

function fitPlots() {
  for (const each of plots) {
    const width = each.root.parentNode.clientWidth - 12;
    if (width > 0 && Math.abs(width - each.width) > 1) each.setSize({width, height: HEIGHT});
  }
}
