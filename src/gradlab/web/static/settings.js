// The settings: a form for two arms, the whole state in the address (after #), and what differs.
import { $, make, send, sentence, Refusal } from "./dom.js";

const NUMBERS = ["depth", "width", "lr"];
const LISTS = { lr: ["1e-5", "1e-4", "3e-4", "1e-3", "3e-3", "1e-2", "0.1", "1"], batch: ["1", "8", "16", "64", "256", "full"], width: ["8", "16", "32", "64", "128", "256"], depth: ["2", "4", "10", "20", "30", "50", "100"] };

const parse = (name, text) => {
  const number = Number(text);
  if (text.trim() !== "" && Number.isFinite(number)) return number;
  return text.trim();
};

// ------------------------------------------------------------------ the address
export const write = (settings) => {
  const query = new URLSearchParams();
  for (const name of ["task", "upload", "factor", "seed", "steps"]) if (settings[name] !== "") query.set(name, settings[name]);
  for (const arm of ["a", "b"]) for (const [name, value] of Object.entries(settings[arm])) query.set(`${arm}.${name}`, value);
  return query.toString().replaceAll("%2F", "/").replaceAll("%28", "(").replaceAll("%29", ")");
};
export const read = (fragment, defaults) => {
  const found = structuredClone(defaults), query = new URLSearchParams(fragment.replace(/^#/, ""));
  for (const [path, text] of query) {
    const [arm, name] = path.split(".");
    if (name !== undefined && (arm === "a" || arm === "b") && name in defaults[arm]) found[arm][name] = parse(name, text);
    else if (name === undefined && arm in defaults && arm !== "a" && arm !== "b") found[arm] = arm === "seed" || arm === "steps" ? parse(arm, text) : text;
  }
  return found;
};
export const shared = (fragment) => fragment.replace(/^#/, "").includes("=");

// ------------------------------------------------------------------ the form
export class Form {
  constructor(choices, changed) {
    this.choices = choices;
    this.changed = changed;
    this.inputs = { a: {}, b: {} };
    this.uploads = new Map();
    this.#fillShared();
    this.#fillArms();
  }

  #fillShared() {
    const place = $("#settings .shared"), add = (id, label, ...inputs) => {
      const box = inputs.length === 1 ? inputs[0] : make("div", { className: "pair" }, ...inputs);
      place.append(make("label", { htmlFor: id, textContent: label }), box);
    };
    const task = (this.task = make("select", { id: "task" }));
    for (const [name, label] of Object.entries(this.choices.tasks)) task.append(new Option(label, name));
    this.file = make("input", { type: "file", id: "file", accept: ".npz,.csv", hidden: true, ariaLabel: "Your own data: npz or csv" });
    const stated = (this.stated = make("span", { className: "note", id: "stated" }));
    add("task", "task", task);
    place.append(make("span"), make("div", {}, this.file, stated));
    const factor = (this.factor = make("select", { id: "factor" }));
    for (const field of this.choices.fields) factor.append(new Option(field.label, field.name));
    factor.append(new Option("all that differs", "all"));
    add("factor", "compares the", factor);
    this.seed = make("input", { id: "seed", type: "number", min: 0, max: 2147483647, step: 1 });
    this.dice = make("button", { type: "button", id: "dice", textContent: "next", title: "Other initial weights and batches (N)" });
    add("seed", "seed", this.seed, this.dice);
    this.steps = make("input", { id: "steps", type: "number", min: 1, max: 100000, step: 1 });
    add("steps", "steps", this.steps);
    for (const input of [factor, this.seed, this.steps]) input.addEventListener("change", () => this.changed());
    this.dice.addEventListener("click", () => { this.seed.value = (Number(this.seed.value) || 0) + 1; this.changed(); });
    task.addEventListener("change", () => {
      this.#showFile();
      if (task.value === "upload" && !this.upload) this.file.click();
      else this.changed();
    });
    this.file.addEventListener("change", () => this.#take(this.file.files[0]));
  }

  async #take(file) {
    if (!file) return;
    const turn = (this.turn = (this.turn || 0) + 1), late = () => turn !== this.turn;  // another file was chosen meanwhile
    try {
      if (file.size > this.choices.limits.upload) throw new Refusal(`${file.name} is larger than ${this.choices.limits.upload / 2 ** 20} MiB, which is what the page takes.`);
      const found = await send(`/api/upload?name=${encodeURIComponent(file.name)}`, file);
      if (late()) return;
      this.upload = found.id;
      this.uploads.set(found.id, found.stated);
      this.task.value = "upload";
      this.#showFile();
      this.changed();
    } catch (error) { if (!late()) this.refuse(error.message); }
  }

  #showFile() {
    const own = this.task.value === "upload";
    this.file.hidden = !own;
    this.stated.textContent = own ? this.uploads.get(this.upload) || "npz with arrays x and y, or csv with a header" : "";
  }

  #fillArms() {
    const head = $("#settings thead"), body = $("#settings tbody");
    head.append(make("tr", {}, make("th", { scope: "col", textContent: "" }), make("th", { scope: "col", textContent: "A" }), make("th", { scope: "col", textContent: "B" })));
    for (const [name, values] of Object.entries(LISTS))
      document.body.append(make("datalist", { id: `list-${name}` }, ...values.map((value) => make("option", { value }))));
    for (const { name, label } of this.choices.fields) {
      const row = make("tr", { data: { setting: name } }, make("th", { scope: "row", textContent: label }));
      for (const arm of ["a", "b"]) {
        const input = this.#input(name, arm);
        input.ariaLabel = `${label} of ${arm.toUpperCase()}`;
        input.addEventListener("change", () => this.changed());
        this.inputs[arm][name] = input;
        row.append(make("td", {}, input));
      }
      body.append(row);
    }
  }

  #input(name, arm) {
    const id = `${arm}-${name}`, parts = this.choices.parts[name];
    if (name === "scale") return make("select", { id }, ...this.choices.scales.map(({ value, label }) => new Option(label, value)));
    if (!parts) return make("input", { id, list: `list-${name}`, spellcheck: false, inputMode: NUMBERS.includes(name) ? "decimal" : "text" });
    const select = make("select", { id });
    for (const part of parts) {
      const option = new Option(part.label, part.name);
      option.title = part.summary;
      select.append(option);
    }
    return select;
  }

  get value() {
    const arm = (inputs) => Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, this.choices.parts[name] ? input.value : parse(name, input.value)]));
    return { task: this.task.value, upload: this.task.value === "upload" ? this.upload || "" : "", factor: this.factor.value,
      seed: parse("seed", this.seed.value), steps: parse("steps", this.steps.value), a: arm(this.inputs.a), b: arm(this.inputs.b) };
  }

  set value(settings) {
    this.task.value = settings.task;
    this.upload = settings.upload || this.upload;
    this.factor.value = settings.factor;
    this.seed.value = settings.seed;
    this.steps.value = settings.steps;
    for (const arm of ["a", "b"]) for (const [name, input] of Object.entries(this.inputs[arm])) {
      if (name === "scale" && ![...input.options].some((o) => o.value === String(settings[arm].scale))) input.append(new Option(settings[arm].scale, settings[arm].scale));
      input.value = settings[arm][name];
    }
    this.#showFile();
    this.mark();
  }

  mark() {
    const now = this.value;
    for (const name of Object.keys(this.inputs.a))
      $(`tr[data-setting="${name}"]`).classList.toggle("differs", String(now.a[name]) !== String(now.b[name]));
  }

  refuse(words) {
    const place = $("#refusal");
    place.textContent = sentence(words);
    place.hidden = !words;
  }
}
