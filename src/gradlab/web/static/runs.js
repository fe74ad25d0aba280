// All runs of a folder: what they do now, and what can be done with them.
import { $, SILENT, counted, get, make, post, sentence, written } from "./dom.js";

const chosen = new Set();
let listed = [];

const duration = (seconds) => {
  const s = Math.round(seconds), m = Math.floor(s / 60), h = Math.floor(m / 60);
  return h ? `${h}:${String(m % 60).padStart(2, "0")}:${String(s % 60).padStart(2, "0")}` : `${m}:${String(s % 60).padStart(2, "0")}`;
};
const say = (words) => { $("#start-said").textContent = sentence(words); };
const attempt = async (work) => { try { await work(); } catch (error) { say(error.message); } };

// ------------------------------------------------------------------ starting
const { topics, own } = await get("/api/studies");
const questions = new Map();
const select = $("#study");
if (own.length) select.append(make("optgroup", { label: "In this folder" }, ...own.map((name) => new Option(name, name))));
for (const { topic, studies } of topics) {
  select.append(make("optgroup", { label: topic }, ...studies.map((study) => {
    const time = study.seconds === null ? "" : study.seconds < 100 ? `, ${Math.max(1, Math.round(study.seconds))} s` : `, ${Math.round(study.seconds / 60)} min`;
    questions.set(study.name, study.question);
    return new Option(study.name + time, study.name);
  })));
}
const ask = () => { $("#question").textContent = questions.get(select.value) || "A study file of your own."; $("#checked").replaceChildren(); };
select.addEventListener("change", ask);
ask();

$("#check").addEventListener("click", () => attempt(async () => {
  say("Building both arms and comparing them…");
  $("#check").disabled = true;
  try {
    const { audit, plan } = await post("/api/runs/check", { study: select.value });
    say("");
    const box = make("div", { className: `checked ${audit.error ? "" : audit.same_setup_except_factor ? "fair" : "unfair"}` });
    box.append(make("p", {}, make("b", { textContent: audit.error || audit.answer })));
    if (!audit.error && audit.cannot_attribute.length) box.append(make("details", {}, make("summary", { textContent: "What it cannot attribute even so" }), make("ul", {}, ...audit.cannot_attribute.map((words) => make("li", { textContent: words })))));
    if (plan.error) box.append(make("p", { textContent: plan.error }));
    else box.append(make("p", { className: "note", textContent: describePlan(plan) }));
    $("#checked").replaceChildren(box);
  } finally { $("#check").disabled = false; }
}));
const describePlan = (plan) => {
  const done = plan.done ? `, ${plan.done} of them done` : "", seconds = plan.seconds ? `; ${plan.seconds < 1 ? "less than a second" : `about ${duration(plan.seconds)}`} on one core` : "";
  return `${counted(plan.groups.length, "group")}, ${counted(plan.trials.length, "trial")}${done}${seconds}.`;
};
$("#start").addEventListener("click", () => attempt(async () => {
  const seeds = $("#seeds").value === "" ? null : Number($("#seeds").value);
  const found = await post("/api/runs/start", { study: select.value, seeds, quick: $("#quick").checked });
  say(`Started: ${found.command}.`);
}));

// ------------------------------------------------------------------ the list
const state = (run) => {
  if (run.alive) return run.planned && run.done + run.failed >= run.planned ? "writing the report" : "running";
  if (run.finished) return run.failed ? "finished, with failures" : "finished";
  return run.planned ? "stopped" : "cannot be read";
};
const facts = (run) => {
  const words = [`${run.done + run.failed} of ${counted(run.planned, "trial")}`];
  if (run.diverged) words.push(`${run.diverged} diverged`);
  if (run.failed) words.push(`${run.failed} failed`);
  if (run.alive && run.per_second) words.push(`${written(run.per_second, 2)} per second`);
  if (run.alive && run.seconds_left !== null && run.seconds_left !== undefined) words.push(`${duration(run.seconds_left)} left`);
  return words.join(", ");
};
const act = (action, run, words) => make("button", { type: "button", textContent: words, onclick: () => attempt(async () => say((await post(`/api/runs/${action}`, { run: run.id })).said)) });
const put = (element, words) => { if (element.textContent !== words) element.textContent = words; };

// A card is made once and then kept up to date: a button that is replaced between press and release loses the click.
const cards = new Map();
const makeCard = (run) => {
  const made = make("article", { data: { run: run.id } }), box = make("input", { type: "checkbox", ariaLabel: `Compare ${run.id}` });
  box.addEventListener("change", () => { if (box.checked) chosen.add(run.id); else chosen.delete(run.id); choose(); });
  const parts = {
    made, box, pill: make("span", { className: "pill" }), question: make("p"), progress: make("progress"), facts: make("p", { className: "note" }), live: make("ul", { className: "live" }),
    report: make("a", { className: "button", href: `/api/runs/report?run=${encodeURIComponent(run.id)}`, target: "_blank", rel: "noopener", textContent: "Open report" }),
    stop: act("stop", run, "Stop"), aside: act("aside", run, "Move aside"),
  };
  made.append(make("h2", {}, box, make("span", { textContent: run.id }), parts.pill), parts.question, parts.progress, parts.facts, parts.live, make("div", { className: "buttons" }, parts.report, parts.stop, parts.aside));
  return parts;
};
const card = (run) => {
  if (!cards.has(run.id)) cards.set(run.id, makeCard(run));
  const parts = cards.get(run.id), words = facts(run), running = run.running || [];
  parts.made.className = `run${run.alive ? " alive" : ""}${run.aside ? " aside" : ""}`;
  parts.made.dataset.state = state(run);
  parts.box.checked = chosen.has(run.id);
  put(parts.pill, state(run));
  put(parts.question, run.question);
  put(parts.facts, words);
  parts.progress.hidden = parts.facts.hidden = !run.planned;
  Object.assign(parts.progress, { max: run.planned || 1, value: run.done + run.failed, ariaLabel: words });
  parts.live.hidden = !running.length;
  parts.live.replaceChildren(...running.slice(0, 6).map((trial) => make("li", {
    textContent: `${trial.name}: step ${trial.steps.toLocaleString("en")} of ${trial.of.toLocaleString("en")}${typeof trial.loss === "number" ? `, loss ${written(trial.loss)}` : ""}` })));
  parts.report.hidden = !run.report;
  parts.stop.hidden = !run.alive;
  parts.aside.hidden = run.alive;
  return parts.made;
};
// Put elements into this order, and move only those that are out of place.
const arrange = (place, elements) => {
  [...place.children].filter((child) => !elements.includes(child)).forEach((child) => child.remove());
  elements.forEach((element, i) => { if (place.children[i] !== element) place.insertBefore(element, place.children[i] || null); });
};
const nothing = make("p", { className: "note", textContent: "No runs below this folder yet. Start a study, or run `gradlab run identity` here." });
const choose = () => {
  $("#compare").disabled = chosen.size !== 2;
  $("#chosen").textContent = chosen.size === 2 ? [...chosen].join(" and ") : "Mark two runs to compare them.";
};
const draw = ({ folder, runs, started }) => {
  put($("#folder"), folder);
  listed = runs;
  for (const id of chosen) if (!runs.some((run) => run.id === id)) chosen.delete(id);
  for (const id of cards.keys()) if (!runs.some((run) => run.id === id)) cards.delete(id);
  choose();
  const focused = document.activeElement;
  arrange($("#runs"), runs.length ? runs.map(card) : [nothing]);
  if (document.activeElement !== focused) focused.focus();  // a card that moved
  tellEnds(started.filter((each) => each.code !== null && ![0, 3, 130].includes(each.code)).slice(-2));
  document.documentElement.dataset.ready = "true";
};
let told = "";
const tellEnds = (failed) => {
  if (told === JSON.stringify(failed)) return;  // said once: a screen reader would say it again
  told = JSON.stringify(failed);
  $("#news").replaceChildren(...failed.map((each) =>
    make("p", {}, make("b", { textContent: `${each.command} ended with code ${each.code}.` }), make("pre", { textContent: each.said.split("\n").slice(-6).join("\n") }))));
};
const source = new EventSource("/api/runs/events");
source.addEventListener("runs", (event) => draw(JSON.parse(event.data)));
let broken = false;
source.addEventListener("open", () => { if (broken) say("Connected again."); broken = false; });
source.addEventListener("error", () => { broken = true; say(source.readyState === EventSource.CLOSED ? "The lab was started anew, or too many pages are open. Open its link again." : SILENT); });

// ------------------------------------------------------------------ two runs
$("#compare").addEventListener("click", () => attempt(async () => {
  const order = listed.map((run) => run.id).filter((id) => chosen.has(id)).reverse();
  const found = await post("/api/runs/compare", { first: order[0], second: order[1] });
  const place = $("#compared");
  place.replaceChildren(make("h2", { textContent: `${found.first} and ${found.second}` }), make("p", { textContent: found.summary }));
  for (const table of found.tables) {
    const head = make("tr", {}, ...table.header.map((cell, i) => make("th", { scope: "col", className: table.numbers.includes(i) ? "number" : "", textContent: cell })));
    const rows = table.rows.map((row) => make("tr", {}, ...row.map((cell, i) => make("td", { className: table.numbers.includes(i) ? "number" : "", textContent: cell }))));
    place.append(make("h3", { textContent: table.title }), make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: table.title }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))), ...table.notes.map((words) => make("p", { className: "note", textContent: words })));
  }
  place.scrollIntoView();
}));
