// Training jobs: a row for each rank, with its computation, waiting and transfer in each step; the straggler is marked.
// Transfers: a row for each host, with its requests.

const jobPanel = document.getElementById("jobs");
const jobParts = ["compute", "waiting", "transfer"];
const jobLines = [];
const requestLines = [];

function jobStep(job, step) {
  const made = [];
  for (const [rank, at] of Object.entries(step.ranks)) {
    const [begin, , , until] = at.map((us) => us / 1e6);
    const late = Number(rank) === step.straggler;
    const says = jobParts.map((part, i) => `${part} ${((at[i + 1] - at[i]) / 1e3).toFixed(1)} ms`).join(", ");
    const block = element("button", {type: "button", tabindex: -1, class: late ? "rank-step late" : "rank-step",
      title: `step ${step.step}, rank ${rank}: ${says}${late ? `; straggler, ${(step.late * 1e3).toFixed(1)} ms late` : ""}`,
      onclick: () => hop(begin)});
    block.style.left = percent(begin);
    block.style.width = percent(until - begin);
    const whole = at[3] - at[0];
    jobParts.forEach((part, i) => {
      const bar = element("span", {class: part});
      bar.style.width = `${whole > 0 ? (at[i + 1] - at[i]) / whole * 100 : 0}%`;
      block.append(bar);
    });
    made.push([Number(rank), block]);
  }
  return made;
}

function buildJob(job) {
  const rows = job.nics.map((nic, rank) => ({rank, nic, lane: element("div", {class: "rank-lane"})}));
  for (const step of job.steps) for (const [rank, block] of jobStep(job, step)) if (rows[rank]) rows[rank].lane.append(block);
  for (const row of rows) row.lane.append(element("div", {class: "rank-cursor"}));
  const line = element("p");
  jobLines.push({job, line});
  const lanes = element("div", {class: "rank-rows"}, ...rows.flatMap((row) => [element("span", {class: "rank-name"}, `${row.rank} ${row.nic}`), row.lane]));
  const left = job.left ? ` · ${job.left} faster steps are left out` : "";
  jobPanel.append(element("div", {class: "panel job"},
    element("div", {class: "caption"}, element("h2", {}, `Job ${job.name}`), line),
    lanes,
    element("p", {class: "legend"}, ...jobParts.map((part) => element("span", {class: "of"}, element("span", {class: `key ${part}`}), ` ${part}`)),
      element("span", {class: "of"}, element("span", {class: "key late"}), ` straggler${left}`))));
}

function buildRequests(transfer) {
  const rows = transfer.nics.map((nic) => ({nic, lane: element("div", {class: "rank-lane"})}));
  for (const [host, begin, until, number, target] of transfer.requests) {
    const block = element("button", {type: "button", tabindex: -1, class: "rank-step",
      title: `request ${number}, ${transfer.nics[host]} and ${target}: ${((until - begin) / 1e3).toFixed(1)} ms`,
      onclick: () => hop(begin / 1e6)}, element("span", {class: "transfer whole"}));
    block.style.left = percent(begin / 1e6);
    block.style.width = percent((until - begin) / 1e6);
    rows[host].lane.append(block);
  }
  for (const row of rows) row.lane.append(element("div", {class: "rank-cursor"}));
  const line = element("p");
  requestLines.push({transfer, line});
  const lanes = element("div", {class: "rank-rows"}, ...rows.flatMap((row) => [element("span", {class: "rank-name"}, row.nic), row.lane]));
  const left = transfer.left ? ` · ${transfer.left} faster requests are left out` : "";
  jobPanel.append(element("div", {class: "panel job"},
    element("div", {class: "caption"}, element("h2", {}, `Transfer ${transfer.name}`), line),
    lanes,
    element("p", {class: "legend"}, element("span", {class: "of"}, element("span", {class: "key transfer"}), ` request${left}`))));
}

// The step that a moment lies in: its time and its straggler.
function showJobs(t) {
  for (const {job, line} of jobLines) {
    const step = job.steps.findLast((each) => Object.values(each.ranks).some((at) => at[0] / 1e6 <= t));
    line.textContent = step ? `step ${step.step}: ${step.seconds.toFixed(3)} s, straggler rank ${step.straggler}, ${(step.late * 1e3).toFixed(1)} ms late` : "";
  }
  for (const {transfer, line} of requestLines) {
    const begun = transfer.requests.filter((each) => each[1] / 1e6 <= t);
    const complete = begun.filter((each) => each[2] / 1e6 <= t).length;
    const some = transfer.left ? " of those below" : "";
    line.textContent = begun.length ? `${complete} complete, ${begun.length - complete} under way${some}` : "";
  }
  for (const cursor of jobPanel.querySelectorAll(".rank-cursor")) cursor.style.left = percent(t);
}

function buildJobs() {
  for (const job of run.jobs || []) buildJob(job);
  for (const transfer of run.requests || []) buildRequests(transfer);
}
