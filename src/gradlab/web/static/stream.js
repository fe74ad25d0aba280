// A page's session on the server: opened, listened to, told what to do; opened again at the same step if it was gone.
import { post } from "./dom.js";

const AWAY = 60_000;

export class Stream {
  // hear(kind, message); lose(gone): the connection broke, or the session is gone; find(): there is a connection.
  constructor(hear, lose, find) {
    this.hear = hear;
    this.lose = lose;
    this.find = find;
    this.id = null;
    this.load = 0;
    this.told = 0;  // the number of the latest order that the server has heard
    this.waiting = 0;
    this.line = Promise.resolve();
    this.last = { settings: null, step: 0, playing: false, speed: null };
    document.addEventListener("visibilitychange", () => this.#sleep());
  }

  // What a page asks for reaches the server one after the other, in the order in which it was asked for.
  async #queue(work) {
    this.waiting += 1;
    const done = this.line.then(work);
    this.line = done.catch(() => {});
    try { return await done; } finally { this.waiting -= 1; }
  }

  async open(settings, options = {}) { return this.#queue(() => this.#open(settings, options)); }

  async #open(settings, { playing = false, at = 0, speed = null }) {
    this.close();
    const { id } = await post("/api/sessions", { settings, playing, at, speed });
    this.id = id;
    this.last = { settings, step: at, playing, speed };
    const source = (this.source = new EventSource(`/api/sessions/${id}/events`));
    for (const kind of ["stage", "audit", "theory", "fault", "frame"]) source.addEventListener(kind, (event) => this.#take(kind, JSON.parse(event.data)));
    source.addEventListener("error", () => { if (this.source === source) this.lose(source.readyState === EventSource.CLOSED); });
    source.addEventListener("open", () => { if (this.source === source) this.find(); });
  }

  #take(kind, message) {
    if (message.load < this.load) return;
    if (kind === "stage") {
      if (message.load === this.load) return;  // said again after a break: nothing is new
      this.load = message.load;
    }
    if (kind === "frame") {
      if (message.load !== this.load) return;
      Object.assign(this.last, { step: message.step, playing: message.playing });
    }
    this.hear(kind, message);
  }

  async tell(action, tree = {}) {
    return this.#queue(async () => {
      const found = await post(`/api/sessions/${this.id}/${action}`, tree);
      this.told = Math.max(this.told, found.told);
      return found;
    });
  }

  // Whether a frame shows the effect of everything that was asked for.
  settled(frame) { return this.waiting === 0 && frame.told >= this.told; }

  async change(settings) {
    const found = await this.tell("change", { settings });
    this.last.settings = settings;
    return found;
  }

  close() {
    this.source?.close();
    this.source = null;
    this.load = this.told = 0;
  }

  // A page that nobody sees for a minute lets its session go, and trains to the same step again when it is seen.
  #sleep() {
    clearTimeout(this.timer);
    if (document.hidden) this.timer = setTimeout(() => { this.asleep = { ...this.last }; this.close(); }, AWAY);
    else if (this.asleep) {
      const { settings, step, playing, speed } = this.asleep;
      this.asleep = null;
      this.open(settings, { playing, at: step, speed }).catch(() => this.lose(true));
    }
  }
}
