// The playground: settings on the left, two networks on the right, and what joins them.
import { $, $$, SILENT, dark, get, post, sentence, written } from "./dom.js";
import { Chart, layerSeries, lossSeries } from "./charts.js";
import { Scene, Strips } from "./scene.js";
import { Form, read, shared, write } from "./settings.js";
import { Stream } from "./stream.js";
import { listLessons, nameOf, showLesson } from "./lesson.js";

const SPEEDS = [2, 10, 30, 100, 300, 1000, null], KEPT = 400, ROWS = ["signal", "delta", "gradient", "dead"];
const WORDS = { ready: "ready", learning: "learning", stuck: "stuck", vanishing: "vanishing", exploding: "exploding", dying: "dying", diverged: "diverged" };

const PREPARING = "Preparing the networks. The first time, this compiles kernels, which takes half a minute.";

const choices = await get("/api/choices");
const inLesson = nameOf(location.pathname);
listLessons(choices.lessons, inLesson);
$(inLesson ? "#lessons summary" : "#to-playground").setAttribute("aria-current", "page");
const lesson = inLesson ? showLesson(choices.lessons, inLesson, () => toggle()) : null;
const preset = lesson ? lesson.settings : choices.defaults;

// ------------------------------------------------------------------ what is shown
const charts = { loss: new Chart($("#loss-chart"), { name: "loss" }) };
for (const row of ROWS) charts[row] = new Chart($(`#${row}-chart`), { name: row, share: row === "dead" });
const scene = new Scene(), strips = new Strips();
let stage = null, frames = [], shown = null, playing = false, dirty = false, drawn = 0, broken = false;

const show = (frame) => { shown = frame; if (!dirty) { dirty = true; requestAnimationFrame(paint); } };
const paint = () => {
  dirty = false;
  if (!shown || !stage) return;
  const frame = shown, live = frame === frames.at(-1);
  charts.loss.draw(lossSeries(frame), { x: "step", last: stage.steps });
  for (const row of ROWS) charts[row].draw(layerSeries(frame, row, stage.predicted), { x: "layer", last: Math.max(...stage.layers) });
  scene.draw(frame);
  strips.draw(frame, playing && live);
  $("#now").textContent = frame.step.toLocaleString("en");
  $("#live").hidden = live;
  const scrub = $("#scrub");
  scrub.max = frames.length - 1;
  scrub.value = frames.indexOf(frame);
  scrub.setAttribute("aria-valuetext", `step ${frame.step}`);
  frame.arms.forEach((arm, index) => {
    const card = $(`.card[data-arm="${index}"]`), pill = $(".pill", card);
    pill.textContent = WORDS[arm.state];
    pill.dataset.state = arm.state;
    $(".loss", card).textContent = arm.loss === null ? "" : `loss ${written(arm.loss)}`;
    $(".accuracy", card).textContent = arm.accuracy === null ? "" : `${Math.round(100 * arm.accuracy)} % right`;
    const words = $(".words", card);
    if (words.textContent !== arm.words) words.textContent = arm.words;
    card.dataset.digest = arm.digest || "";
  });
  Object.assign(document.body.dataset, { step: frame.step, load: frame.load, playing, ended: frame.arms.every((arm) => arm.ended), frames: ++drawn });
  document.documentElement.dataset.ready = "true";
};

const keep = (frame) => {
  if (frames.at(-1)?.step === frame.step) frames.pop();
  frames.push(frame);
  if (frames.length > KEPT) frames = frames.filter((kept, i) => i % 2 === 0 || i > KEPT - 20 || kept === shown);
};
const ended = () => frames.length > 0 && frames.at(-1).arms.every((arm) => arm.ended);
const setPlaying = (now) => {
  playing = now;
  const word = now ? "Pause" : ended() ? "Again" : "Play", button = $("#play");
  if ($("span", button).textContent !== word) {
    button.dataset.now = now ? "stop" : ended() ? "again" : "go";
    $("span", button).textContent = $("#lesson-play").textContent = word;
  }
  $("#step").disabled = ended();
  document.body.dataset.playing = now;
};
// What the newest frame says, unless it was made before the latest order was heard.
const settle = () => setPlaying(frames.length && stream.settled(frames.at(-1)) ? frames.at(-1).playing : playing);

const hear = (kind, message) => {
  if (kind === "stage") {
    stage = message;
    frames = [];
    shown = null;  // what is shown belongs to other networks: nothing is painted until their first frame
    settle();
    Object.values(charts).forEach((chart) => chart.reset());
    strips.begin();
    scene.begin(message.scene);
    $("#theory-note").hidden = true;
    $("#budget").textContent = message.steps.toLocaleString("en");
    $$(".card").forEach((card, i) => {
      $(".name", card).textContent = message.names[i];
      $(`.name-${"ab"[i]}`).textContent = message.names[i];
      card.title = `${message.layers[i]} weight matrices, ${message.parameters[i].toLocaleString("en")} parameters; a block computes ${message.formulas[i]}`;
    });
    if (message.said) say(message.said);
    form.refuse("");
    $("#audit").dataset.state = "open";
  } else if (kind === "audit") {
    const place = $("#audit");
    place.dataset.state = message.state;
    place.toggleAttribute("data-bare", !message.details.length);
    $(".line", place).textContent = message.line;
    $("ul", place).replaceChildren(...message.details.map((words) => Object.assign(document.createElement("li"), { textContent: words })));
  } else if (kind === "theory") {
    if (stage?.load !== message.load) return;
    stage.predicted = message.expected;
    $("#theory-note").hidden = false;
    $("#theory-order").hidden = message.expected.every((arm) => arm.gradient.kind !== "order");
    if (shown) show(shown);
  } else if (kind === "fault") {
    form.refuse(message.error);
    setPlaying(false);
  } else {
    if ($("#said").textContent === PREPARING) say("");
    const live = shown === null || shown === frames.at(-1) || !frames.includes(shown);
    keep(message);
    settle();
    if (live) show(message);
    else $("#scrub").max = frames.length - 1;
  }
};

// Words that hold until something else is done are passing.
const say = (words, passing = false) => { $("#said").textContent = sentence(words); $("#said").dataset.passing = passing; };
const lose = async (gone) => {
  if (!gone) { broken = true; say(SILENT); setPlaying(false); return; }
  try { await stream.open(form.value, { at: stream.last.step, speed: speed() }); say("Connected again: trained to the same step."); } catch (error) { say(error.message); setPlaying(false); }
};
const find = () => { if (broken) say("Connected again."); broken = false; };

// ------------------------------------------------------------------ what is done
const speed = () => SPEEDS[$("#speed").value];
const attempt = async (work) => { try { await work(); } catch (error) { say(error.message, true); } };
const toggle = () => attempt(async () => {
  const now = !playing, orders = now && ended() ? ["rewind", "play"] : [now ? "play" : "pause"];
  setPlaying(now);  // at once, so that a second press means the opposite
  if (now && frames.length) show(frames.at(-1));
  try {
    const [first] = await Promise.all(orders.map((order) => stream.tell(order)));
    if (first.said) say(first.said);
    else if ($("#said").dataset.passing === "true") say("");
  } catch (error) { setPlaying(false); throw error; } finally { settle(); }
});
const rewind = async () => { setPlaying(false); say((await stream.tell("rewind")).said); settle(); };
const step = async () => { setPlaying(false); if (frames.length) show(frames.at(-1)); await stream.tell("step"); settle(); };
const change = async () => {
  form.mark();
  const settings = form.value;
  try {
    if (stream.id && stream.source) await stream.change(settings);
    else await stream.open(settings, { speed: speed() });
    form.refuse("");
    history.replaceState(null, "", `#${write(settings)}`);
  } catch (error) { form.refuse(error.message); }
};
const form = new Form(choices, change);
const stream = new Stream(hear, lose, find);

$("#play").addEventListener("click", toggle);
$("#rewind").addEventListener("click", () => attempt(rewind));
$("#step").addEventListener("click", () => attempt(step));
const tellSpeed = () => { const v = speed(); $("#speed-now").textContent = v === null ? "full speed" : `${v.toLocaleString("en")} steps/s`; $("#speed").setAttribute("aria-valuetext", $("#speed-now").textContent); stream.last.speed = v; };
$("#speed").addEventListener("input", () => { tellSpeed(); attempt(() => stream.tell("speed", { speed: speed() })); });
$("#scrub").addEventListener("input", (event) => { const frame = frames[event.target.value]; if (frame) { show(frame); if (frame !== frames.at(-1)) say(`Looking back at step ${frame.step.toLocaleString("en")}${playing ? "; training goes on" : ""}.`, true); else say(""); } });
const look = (by) => { const at = Math.min(Math.max(frames.indexOf(shown) + by, 0), frames.length - 1); $("#scrub").value = at; $("#scrub").dispatchEvent(new Event("input")); };
$("#live").addEventListener("click", () => { show(frames.at(-1)); say(""); $("#play").focus(); });
$("#alike").addEventListener("click", () => { const now = form.value; form.value = { ...now, b: { ...now.a } }; change(); });
$("#reset").addEventListener("click", () => { form.value = preset; change(); });

$("#share").addEventListener("click", () => attempt(async () => {
  const link = `${location.origin}/#${write(form.value)}`;
  try { await navigator.clipboard.writeText(link); say("The link is copied. It holds every setting, and opens wherever a lab runs at this address."); }
  catch { history.replaceState(null, "", `#${write(form.value)}`); say("The address of this page holds every setting: copy it from there."); }
}));
$("#save").addEventListener("click", () => attempt(async () => {
  const { study } = await post("/api/study", { settings: form.value });
  $("#save-dialog pre").textContent = study;
  const digests = $$(".card").map((card) => card.dataset.digest);
  $("#save-said").textContent = digests.every(Boolean) ? `The digests of what you see: A ${digests[0]}, B ${digests[1]}.` : "";
  $("#save-dialog").showModal();
}));
$("#save-write").addEventListener("click", async () => {
  try {
    const found = await post("/api/study", { settings: form.value, name: $("#save-name").value.trim() });
    $("#save-said").textContent = `Saved as ${found.file}. Run it: ${found.command}, or start it on the page Runs.`;
  } catch (error) { $("#save-said").textContent = sentence(error.message); }
});
$("#save-lesson").addEventListener("click", async () => {
  try {
    const found = await post("/api/lesson", { settings: form.value, name: $("#save-name").value.trim() });
    $("#save-said").textContent = `Saved as ${found.file}. Write its sentences, then open it: ${found.command}`;
  } catch (error) { $("#save-said").textContent = sentence(error.message); }
});
const fullscreen = () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen());
if (document.fullscreenEnabled) $("#fullscreen").addEventListener("click", fullscreen);
else $("#fullscreen").hidden = true;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("#save-dialog").open) return;
  const typing = event.target.matches("input:not([type=range]), select, textarea");
  const onButton = event.target.matches("button, a, summary, input[type=range]");
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (typing) return;
  const keys = { s: () => $("#step").click(), r: () => $("#rewind").click(), n: () => form.dice.click(), "[": () => look(-1), "]": () => look(1), f: () => document.fullscreenEnabled && fullscreen() };
  if (key === " " && !onButton) { event.preventDefault(); toggle(); } else if (keys[key]) { event.preventDefault(); keys[key](); }
});
dark.addEventListener("change", () => { if (stage) { scene.begin(stage.scene); paint(); strips.paint(0); } });
window.addEventListener("hashchange", () => { if (shared(location.hash)) { form.value = read(location.hash, choices.defaults); change(); } });

// ------------------------------------------------------------------ begin
if (lesson) $("#speed").value = Math.max(SPEEDS.indexOf(lesson.speed), 0);
tellSpeed();
form.value = shared(location.hash) ? read(location.hash, preset) : preset;
say(PREPARING);
try {
  await stream.open(form.value, { speed: speed() });
} catch (error) {
  form.refuse(error.message);
  say("");
  document.documentElement.dataset.ready = "refused";
}

