// What can be seen of a task: the decision in the plane, digits with answers; and the strips of layers that pulse.
import { $, $$, css, dark, make, power, still } from "./dom.js";

const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const rgb = (color) => { const n = parseInt(color.slice(1), 16); return [n >> 16, (n >> 8) & 255, n & 255]; };
const mix = (a, b, share) => a.map((v, i) => Math.round(v + (b[i] - v) * share));
const CLASSES = ["--zero", "--one", "--a", "--b", "--half", "--bad", "--good", "--soft"];
const RATIO = Math.min(window.devicePixelRatio || 1, 2);

export class Scene {
  constructor() { this.place = $("#scene"); }

  begin(scene) {
    this.scene = scene;
    this.place.hidden = !scene;
    const picture = $(".picture", this.place);
    picture.replaceChildren();
    if (!scene) return;
    $("figcaption", this.place).textContent = scene.kind === "plane" ? "What each network answers, point by point" : "Test digits, and what each network takes them for";
    if (scene.kind === "plane") this.#beginPlane(picture);
    else this.#beginDigits(picture);
  }

  draw(frame) {
    if (!this.scene) return;
    frame.arms.forEach((arm, index) => (this.scene.kind === "plane" ? this.#drawPlane(arm, index) : this.#drawAnswers(arm, index)));
  }

  #beginPlane(picture) {
    this.canvases = ["a", "b"].map((arm) => {
      const canvas = make("canvas", { className: "plane", width: 480, height: 480, role: "img", ariaLabel: `Decision of ${arm.toUpperCase()} in the plane` });
      picture.append(make("div", { className: arm }, canvas, arm.toUpperCase()));
      return canvas;
    });
  }

  #drawPlane(arm, index) {
    const { cells, points, labels, classes } = this.scene, canvas = this.canvases[index], paint = canvas.getContext("2d");
    const found = bytes(arm.surface), ground = rgb(css("--ground")), hues = CLASSES.map((name) => rgb(css(name)));
    const small = make("canvas", { width: cells, height: cells }), image = new ImageData(cells, cells);
    for (let i = 0; i < cells * cells; i++) {
      const two = classes === 2, sure = two ? Math.abs(found[i] - 127.5) / 127.5 : 0.8;
      const color = mix(ground, hues[two ? Number(found[i] > 127) : found[i] % 8], 0.06 + 0.42 * sure);
      image.data.set([...color, 255], 4 * i);
    }
    small.getContext("2d").putImageData(image, 0, 0);
    paint.imageSmoothingEnabled = true;
    paint.drawImage(small, 0, 0, canvas.width, canvas.height);
    points.forEach(([x, y], i) => {
      paint.beginPath();
      paint.arc(x * canvas.width, y * canvas.height, 5, 0, 7);
      paint.fillStyle = css(CLASSES[labels[i] % 8]);
      paint.fill();
      paint.strokeStyle = css("--ground");
      paint.lineWidth = 1.5;
      paint.stroke();
    });
  }

  #beginDigits(picture) {
    const { labels, pixels } = this.scene, all = bytes(pixels), top = make("tr", {}, make("th"));
    labels.forEach((label, k) => {
      const canvas = make("canvas", { width: 28, height: 28, role: "img", ariaLabel: `a ${label}` }), image = new ImageData(28, 28);
      for (let i = 0; i < 784; i++) { const v = dark.matches ? all[784 * k + i] : 255 - all[784 * k + i]; image.data.set([v, v, v, 255], 4 * i); }
      canvas.getContext("2d").putImageData(image, 0, 0);
      top.append(make("td", {}, canvas));
    });
    this.rows = ["a", "b"].map((arm) => make("tr", { className: arm }, make("th", { scope: "row", textContent: arm.toUpperCase() }), ...labels.map(() => make("td"))));
    picture.append(make("table", { className: "digits" }, make("tbody", {}, top, ...this.rows)));
  }

  #drawAnswers(arm, index) {
    $$("td", this.rows[index]).forEach((cell, k) => {
      const [answer, sure] = arm.answers[k], right = answer === this.scene.labels[k], bar = make("i");
      bar.style.width = `${sure}%`;
      cell.className = right ? "right" : "wrong";
      cell.title = `${answer}, ${sure} % sure; it is a ${this.scene.labels[k]}`;
      cell.replaceChildren(make("b", { textContent: answer }), bar);
    });
  }
}

// A strip: one cell per layer, from gray (no gradient) to the network's hue; while it learns, a wave runs from the last
// layer to the first, as high as the gradient is large, and dies where the gradient dies.
export class Strips {
  constructor() {
    this.canvases = $$(".strip canvas");
    this.rows = [[], []];
    this.playing = false;
    this.canvases.forEach((canvas) => new ResizeObserver(() => this.paint(0)).observe(canvas));
    const run = (time) => { if (this.playing && !still.matches) this.paint(time / 1000); requestAnimationFrame(run); };
    requestAnimationFrame(run);
  }

  begin() { this.rows = [[], []]; this.playing = false; this.low = -3; this.high = 0; }

  draw(frame, playing) {
    this.rows = frame.arms.map((arm) => arm.layers.gradient);
    const sizes = this.rows.flat().filter((v) => v).map(Math.log10);
    if (sizes.length) { this.high = Math.ceil(Math.max(...sizes)); this.low = Math.min(Math.floor(Math.min(...sizes)), this.high - 3); }
    this.playing = playing;
    $("#strip-scale").textContent = `gray: ${power(this.low)}, full color: ${power(this.high)}`;
    if (!playing || still.matches) this.paint(0);
  }

  paint(time) {
    this.canvases.forEach((canvas, index) => {
      const width = Math.max(canvas.clientWidth * RATIO, 1), height = 34 * RATIO, row = this.rows[index];
      if (canvas.width !== Math.round(width)) canvas.width = Math.round(width);
      if (canvas.height !== height) canvas.height = height;
      const paint = canvas.getContext("2d"), dead = rgb(css("--dead")), hue = rgb(css(index ? "--b" : "--a"));
      paint.clearRect(0, 0, canvas.width, canvas.height);
      const cell = canvas.width / Math.max(row.length, 1), gap = cell > 7 ? 2 : cell > 3 ? 1 : 0;
      row.forEach((v, i) => {
        const size = v ? Math.min(Math.max((Math.log10(v) - this.low) / (this.high - this.low), 0), 1) : v === null ? 1 : 0;
        const wave = time ? Math.max(0, Math.sin(5 * time + (8 * i) / Math.max(row.length, 8))) ** 4 * size : 0;
        const high = canvas.height * (0.62 + 0.14 * size + 0.24 * wave);
        paint.fillStyle = `rgb(${mix(dead, hue, size).join(" ")} / ${0.82 + 0.18 * wave})`;
        paint.fillRect(Math.round(i * cell), (canvas.height - high) / 2, Math.max(Math.round((i + 1) * cell) - Math.round(i * cell) - gap, 1), high);
      });
    });
  }
}
