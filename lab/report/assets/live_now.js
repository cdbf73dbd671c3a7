// What holds at the moment that is shown: who pauses whom, queue pairs with their rate limits, sessions.

const MOST_ROWS = 40;
const qpChanges = [];
const SECOND = 1;

// The other end of each link, as the drawing has it.
const peers = new Map();
for (const wire of document.querySelectorAll("#fabric path[data-lower]")) {
  peers.set(wire.dataset.lower, wire.dataset.upper);
  peers.set(wire.dataset.upper, wire.dataset.lower);
}

function table(head, rows, none) {
  if (!rows.length) return element("p", {class: "none"}, none);
  const more = rows.length > MOST_ROWS ? [element("p", {class: "none"}, `and ${rows.length - MOST_ROWS} more`)] : [];
  const cells = (tag, texts) => texts.map((text) => element(tag, tag === "th" ? {scope: "col"} : {}, text));
  return element("div", {}, element("table", {},
    element("thead", {}, element("tr", {}, ...cells("th", head))),
    element("tbody", {}, ...rows.slice(0, MOST_ROWS).map((row) => element("tr", {}, ...cells("td", row))))), ...more);
}

// Seconds that a lane was paused between two times.
function pausedFor(lane, from, to) {
  let sum = 0;
  for (let i = place(lane.starts, to); i >= 0 && lane.ends[i] > from; i--) {
    sum += Math.min(to, lane.ends[i]) - Math.max(from, lane.starts[i]);
  }
  return sum;
}

function pausesAt(t) {
  const found = [];
  const from = Math.max(0, t - SECOND), steps = run.measures.paused.steps;
  for (const [name, lanes] of pauses) for (const lane of lanes) {
    const part = t > from ? pausedFor(lane, from, t) / (t - from) : 0;
    if (part > 0) found.push([part, [peers.get(name) || "", name, lane.priority, written(part, steps), pausedAt(name, t) ? "may not send" : ""]]);
  }
  return found.sort((a, b) => b[0] - a[0]).map(([, row]) => row);
}

// The queue pairs that exist after these changes until a time.
function existing(changes, t) {
  const found = new Map();
  for (const change of changes) {
    if (change.at > t) break;
    const key = `${change.nic} ${change.qpn}`;
    if (change.state === "gone") found.delete(key); else found.set(key, change);
  }
  return [...found.values()];
}

function queuePairsAt(t) {
  const limitOf = new Map();
  const sample = sampleAt(t), steps = run.measures.tx_bps.steps;
  for (const line of limits) limitOf.set(line.name.split(" to ")[0], line.values[sample]);
  return existing(qpChanges, t).map((change) => {
    const limit = limitOf.get(`${change.nic} QP 0x${change.qpn.toString(16)}`);
    const peer = change.remote === null ? "" : `0x${change.remote.toString(16)}`;
    return [change.nic, `0x${change.qpn.toString(16)}`, peer, change.program, limit ? written(limit, steps) : ""];
  });
}

function sessionsAt(t) {
  const sample = sampleAt(t), counts = new Map(), down = [];
  for (const session of sessions) {
    const up = session.values[sample] > 0;
    const [sum, all] = counts.get(session.kind) || [0, 0];
    counts.set(session.kind, [sum + up, all + 1]);
    if (!up) down.push([session.port, session.kind.toUpperCase(), "down"]);
  }
  const words = [...counts].map(([kind, [sum, all]]) => `${kind.toUpperCase()}: ${sum} of ${all} up`).join(", ");
  return element("div", {}, element("p", {class: "none"}, words || "no session is known yet"),
    ...(down.length ? [table(["session", "protocol", "state"], down, "")] : []));
}

// By port that was ever down: whether its link is up, at each sample.
const linkStates = new Map();

function readLinks() {
  linkStates.clear();
  for (const [name, changes] of Object.entries(run.links)) linkStates.set(name, unfolded(changes));
}

function drawLinks(t) {
  const sample = sampleAt(t);
  for (const [name, view] of drawn) {
    const states = linkStates.get(name), down = Boolean(states) && states[sample] === 0;
    view.half.classList.toggle("down", down);
    view.group.classList.toggle("down", down);
    if (down) view.title.textContent += ", link down";
  }
}

function showNow(t) {
  drawLinks(t);
  const pairs = queuePairsAt(t);
  $("now-pauses").replaceChildren(table(["by", "paused port", "priority", "of the time", "now"], pausesAt(t), "no port is paused"));
  $("qp-count").textContent = pairs.length ? `${pairs.length}` : "";
  $("now-qps").replaceChildren(table(["NIC", "QPN", "peer", "program", "rate limit"], pairs, "no queue pair exists"));
  $("now-sessions").replaceChildren(sessionsAt(t));
}
