// A page's session on the server: opened, listened to, told what to do; opened again at the same step if it was gone.
import { post } from "./dom.js";

const AWAY = 60_000;

export class Stream {
  constructor(hear, lose) {
    this.hear = hear;
    this.lose = lose;
    this.id = null;
    this.load = 0;
    this.last = { settings: null, step: 0, playing: false, speed: null };
    document.addEventListener("visibilitychange", () => this.#sleep());
  }

  async open(settings, { playing = false, at = 0, speed = null } = {}) {
    this.close();
    const { id } = await post("/api/sessions", { settings, playing, at, speed });
    this.id = id;
    this.last = { settings, step: at, playing, speed };
    const source = (this.source = new EventSource(`/api/sessions/${id}/events`));
    for (const kind of ["stage", "audit", "theory", "fault", "frame"]) source.addEventListener(kind, (event) => this.#take(kind, JSON.parse(event.data)));
    source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED && this.source === source) this.lose(); });
  }

  #take(kind, message) {
    if (message.load < this.load) return;
    if (kind === "stage") this.load = message.load;
    if (kind === "frame") {
      if (message.load !== this.load) return;
      Object.assign(this.last, { step: message.step, playing: message.playing });
    }
    this.hear(kind, message);
  }

  async tell(action, tree = {}) { return post(`/api/sessions/${this.id}/${action}`, tree); }

  async change(settings) {
    const found = await this.tell("change", { settings });
    this.last.settings = settings;
    return found;
  }

  close() {
    this.source?.close();
    this.source = null;
    this.load = 0;
  }

  // A page that nobody sees for a minute lets its session go, and trains to the same step again when it is seen.
  #sleep() {
    clearTimeout(this.timer);
    if (document.hidden) this.timer = setTimeout(() => { this.asleep = { ...this.last }; this.close(); }, AWAY);
    else if (this.asleep) {
      const { settings, step, playing, speed } = this.asleep;
      this.asleep = null;
      this.open(settings, { playing, at: step, speed }).catch(() => this.lose());
    }
  }
}
