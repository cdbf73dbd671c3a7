// The fabric at a moment: links by what each end sends, ports by pause and marks, queues as bars, faults as halos.

const SVG = "http://www.w3.org/2000/svg";
const drawing = document.querySelector("#fabric svg");
const drawn = new Map();
const halos = new Map();
const deepest = {host: 1, other: 1};
let size = 1;

function shape(tag, more, into) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(more)) made.setAttribute(name, value);
  into.append(made);
  return made;
}

const isHost = (port) => run.hosts.includes(port.split(":")[0]);

// The deepest queue of hosts and of switches, up to which the bars are drawn.
function findDeepest() {
  for (const port of ports.values()) {
    if (!port.queue_bytes) continue;
    const kind = isHost(port.name) ? "host" : "other";
    deepest[kind] = port.queue_bytes.reduce((most, value) => Math.max(most, value), deepest[kind]);
  }
}

function build() {
  findDeepest();
  const wires = [...drawing.querySelectorAll("path[data-lower]")];
  const cards = [...drawing.querySelectorAll("g[data-node]")];
  size = Math.min(1, ...cards.map((card) => Number(card.querySelector("rect").getAttribute("height")) / 38));
  const under = shape("g", {}, drawing);
  drawing.insertBefore(under, cards[0] || null);
  const over = shape("g", {}, drawing);
  for (const wire of wires) buildWire(wire, under, over);
  for (const card of cards) {
    const box = card.querySelector("rect");
    const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
    halos.set(card.dataset.node, shape("rect", {class: "halo", x: x - 6, y: y - 6, width: w + 12, height: h + 12, rx: 13}, under));
  }
  crop(cards);
}

function buildWire(wire, under, over) {
  const length = wire.getTotalLength();
  const width = Number(wire.getAttribute("stroke-width"));
  wire.style.opacity = 0.25;
  for (const [name, from] of [[wire.dataset.upper, 0], [wire.dataset.lower, length / 2]]) {
    const half = shape("path", {class: "half", d: wire.getAttribute("d"), "stroke-width": width,
      "stroke-dasharray": `0 ${from} ${length / 2} ${length}`}, under);
    shape("title", {}, half).textContent = wire.querySelector("title").textContent;
    buildPort(name, wire, from === 0 ? 0 : length, half, over);
  }
}

function buildPort(name, wire, at, half, over) {
  const length = wire.getTotalLength();
  const inward = at === 0 ? 1 : -1;
  const point = wire.getPointAtLength(at + inward * Math.min(7 * size, length / 8));
  const group = shape("g", {class: "port", tabindex: 0, role: "button", "aria-label": `port ${name}`}, over);
  group.dataset.port = name;
  const title = shape("title", {}, group);
  const {x, y} = point;
  const bar = {x: x + 7.5 * size, y: at === 0 ? y - 4 * size : y - 18 * size, height: 22 * size};
  const upright = {x: bar.x, width: 4 * size, rx: 1.5 * size};
  shape("rect", {class: "well", ...upright, y: bar.y, height: bar.height}, group);
  const queue = shape("rect", {class: "queue", ...upright, y: bar.y + bar.height, height: 0}, group);
  shape("circle", {class: "hit", cx: x, cy: y, r: 11 * size, fill: "transparent"}, group);
  const inner = shape("g", {transform: `translate(${x} ${y}) scale(${size})`}, group);
  shape("circle", {class: "ring", r: 8.5}, inner);
  shape("circle", {class: "wound", r: 13}, inner);
  shape("circle", {class: "dot", r: 5}, inner);
  shape("path", {class: "bars", d: "M-2.4 -2.4h1.6v4.8h-1.6z M0.8 -2.4h1.6v4.8h-1.6z"}, inner);
  shape("path", {class: "cross", d: "M-5 -5L5 5M-5 5L5 -5"}, inner);
  const number = shape("text", {class: "order", y: 3.4, "text-anchor": "middle"}, inner);
  number.textContent = order.has(name) ? order.get(name).number : "";
  group.addEventListener("click", () => choose(name));
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); choose(name); }
  });
  drawn.set(name, {group, title, half, queue, bar, wire, at, point, was: false});
}

// Only what is alive is shown: cards, wires and pods, without the heading and the legend of the standing picture.
function crop(cards) {
  for (const part of drawing.querySelectorAll(":scope > text, :scope > circle, :scope > rect.sheet")) {
    if (!part.textContent.startsWith("pod ")) part.style.display = "none";
  }
  const boxes = [...cards, ...drawing.querySelectorAll("rect.frame")].map((part) => part.getBBox());
  if (!boxes.length) return;
  const left = Math.min(...boxes.map((box) => box.x)), top = Math.min(...boxes.map((box) => box.y));
  const right = Math.max(...boxes.map((box) => box.x + box.width)), low = Math.max(...boxes.map((box) => box.y + box.height));
  drawing.setAttribute("viewBox", `${left - 24} ${top - 20} ${right - left + 48} ${low - top + 40}`);
  drawing.removeAttribute("width");
  drawing.removeAttribute("height");
}

function mixed(load) {
  const strength = Math.round(Math.min(1, Math.sqrt(load)) * 100);
  return `color-mix(in srgb, var(--accent) ${strength}%, var(--idle))`;
}

function draw(t, told) {
  const interval = intervalAt(t), sample = sampleAt(t);
  const faults = faultsAt(t);
  const broken = new Set(faults.flatMap((fault) => fault.nodes)), wounds = new Set(faults.flatMap((fault) => fault.ports));
  for (const [name, view] of drawn) {
    drawPort(name, view, t, interval, sample);
    view.group.classList.toggle("broken", wounds.has(name));
    view.group.classList.toggle("told", Boolean(told && told.ports.includes(name)));
  }
  const named = new Set(told ? told.nodes : []);
  for (const [node, halo] of halos) {
    halo.classList.toggle("on", broken.has(node));
    halo.classList.toggle("told", named.has(node));
  }
}

function drawPort(name, view, t, interval, sample) {
  const port = ports.get(name);
  const pause = pausedAt(name, t);
  const {tx_bps: sent, queue_bytes: queue} = port || {};
  const load = sent && port.rate ? sent[interval] / port.rate : 0;
  const marks = port && port.marked ? port.marked[interval] : 0;
  const drops = port && port.dropped ? port.dropped[interval] : 0;
  const depth = queue ? queue[sample] : 0;
  view.half.style.stroke = mixed(load);
  view.half.style.strokeWidth = 1.4 + 2.4 * Math.min(1, load);
  view.half.classList.toggle("paused", pause !== null);
  const stopped = order.get(name);
  view.group.classList.toggle("paused", pause !== null);
  view.group.classList.toggle("stopped", Boolean(stopped && t >= stopped.start && t < stopped.end));
  view.group.classList.toggle("marking", marks > 0);
  view.group.classList.toggle("dropping", drops > 0);
  view.group.classList.toggle("chosen", chosen === name);
  const part = Math.min(1, depth / deepest[isHost(name) ? "host" : "other"]);
  view.queue.setAttribute("height", (view.bar.height * part).toFixed(1));
  view.queue.setAttribute("y", (view.bar.y + view.bar.height * (1 - part)).toFixed(1));
  const says = (kind, value) => `${run.measures[kind].title} ${written(value, run.measures[kind].steps)}`;
  view.title.textContent = `${name}: ${says("tx_bps", sent ? sent[interval] : 0)}, ${says("queue_bytes", depth)}`
    + (pause ? `, paused in priority ${pause.priority} since ${pause.start.toFixed(4)} s` : "");
  if (pause !== null && !view.was && playing && speed <= 0.25) travel(view);
  view.was = pause !== null;
}

// The XOFF that has just come, from the peer to this port: on the wire it takes microseconds, here half a second.
function travel(view) {
  if (still.matches) return;
  const dot = shape("circle", {class: "xoff", r: 5}, view.group.parentNode);
  const length = view.wire.getTotalLength(), began = performance.now();
  const move = (now) => {
    const part = Math.min(1, (now - began) / 450);
    const point = view.wire.getPointAtLength(view.at === 0 ? length * (1 - part) : length * part);
    dot.setAttribute("cx", point.x);
    dot.setAttribute("cy", point.y);
    if (part < 1) requestAnimationFrame(move); else dot.remove();
  };
  requestAnimationFrame(move);
}
