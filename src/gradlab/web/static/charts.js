// The charts, drawn by the report's ECharts: loss by step, and a size by layer, each of both networks.
import { css, dark, written, power } from "./dom.js";

const HUES = ["--a", "--b"], DASHES = ["solid", [7, 3]], SYMBOLS = ["circle", "rect"];
const KINDS = { exact: "theory", order: "theory, order of magnitude", simulated: "expected, by simulation" };

const tick = (exponent) => (exponent < -2.5 || exponent > 3.5 ? power(exponent) : written(10 ** exponent));
const STEPS = [1, 2, 5, 10, 20, 50, 100];

export class Chart {
  constructor(place, { name, share = false }) {
    this.name = name;
    this.share = share;
    this.made = window.echarts.init(place, null, { renderer: "canvas" });
    new ResizeObserver(() => this.made.resize()).observe(place);
    this.reset();
  }

  reset() { this.low = Infinity; this.high = -Infinity; this.log = null; this.zero = false; }

  // The ends of the y axis only ever move outwards, so that a picture can be compared with the one before.
  #span(rows) {
    for (const row of rows) for (const v of row) if (v === 0) this.zero = true; else if (v !== null && v > 0) { this.low = Math.min(this.low, v); this.high = Math.max(this.high, v); }
    if (this.share) return { min: 0, max: 1, interval: 0.25 };
    if (!Number.isFinite(this.low)) return { min: 0, max: 1, interval: 0.25 };
    if (!this.log) this.log = this.high / this.low > 20;
    if (!this.log) {
      const size = 10 ** Math.floor(Math.log10(this.high)), interval = size * ([0.25, 0.5, 1, 2].find((k) => this.high / (size * k) <= 5) || 2);
      return { min: 0, max: Math.ceil(this.high / interval) * interval, interval };
    }
    const low = Math.log10(this.low) + 1e-9, high = Math.log10(this.high) - 1e-9, interval = STEPS.find((k) => Math.ceil(high / k) - Math.floor(low / k) <= 4) || 100;
    const bottom = Math.floor(low / interval) * interval;
    return { min: bottom, max: Math.max(Math.ceil(high / interval) * interval, bottom + interval), interval, log: true };
  }

  // series: [{ arm, x: […], y: […], thin, low, high }]; a value of 0 on a log axis stands on its floor, which is then
  // called 0. A band does not move the ends of the axis.
  draw(series, { x, last }) {
    const span = this.#span(series.map((s) => s.y)), soft = css("--soft"), line = css("--line"), ink = css("--ink");
    const lift = (v) => (v === null ? null : !span.log ? v : v <= 0 ? span.min : Math.log10(v));  // decades as a plain axis: ticks stand where they should
    this.made.setOption({
      animation: false,
      grid: { left: 54, right: 14, top: 12, bottom: 34 },
      tooltip: {
        trigger: "axis", confine: true, backgroundColor: css("--ground"), borderColor: line, transitionDuration: 0, textStyle: { color: ink, fontSize: 12 },
        formatter: (points) => {
          const box = document.createElement("div");
          box.append(`${x} ${written(points[0].value[0], 6)}`);
          for (const p of points.filter((one) => one.seriesType === "line")) {
            const row = document.createElement("div");
            const size = p.data.raw === 0 ? "exactly 0" : this.share ? `${(100 * p.data.raw).toFixed(0)} %` : written(p.data.raw);
            row.textContent = `${p.seriesName}: ${size}${p.data.band ? ` (${p.data.band.map((v) => written(v)).join(" … ")})` : ""}`;
            box.append(row);
          }
          return box;
        },
      },
      xAxis: { type: "value", name: x, nameLocation: "middle", nameGap: 20, min: x === "layer" ? 1 : 0, max: Math.max(last, 2), minInterval: 1,
        axisLabel: { color: soft, hideOverlap: true, showMaxLabel: true, formatter: (v) => v.toLocaleString("en") }, nameTextStyle: { color: soft }, splitLine: { show: false }, axisLine: { onZero: false, lineStyle: { color: line } } },
      yAxis: { type: "value", min: span.min, max: span.max, interval: span.interval, axisLabel: { color: soft, formatter: this.share ? (v) => `${Math.round(100 * v)} %` : span.log ? (v) => (this.zero && v === span.min ? "0" : tick(v)) : (v) => written(v) }, splitLine: { lineStyle: { color: line } } },
      series: series.filter((s) => s.thin).map((s) => drawBand(s, lift, dark.matches ? 0.2 : 0.15)).concat(series.map((s) => ({
        name: s.thin ? `${"AB"[s.arm]}, ${KINDS[s.kind]}` : "AB"[s.arm], type: "line", showSymbol: !s.thin && s.x.length <= 60 && x === "layer", symbol: SYMBOLS[s.arm], symbolSize: 5, connectNulls: false, silent: !!s.thin,
        itemStyle: { color: css(HUES[s.arm]) }, lineStyle: { color: css(HUES[s.arm]), width: s.thin ? 1.2 : 2, opacity: s.thin ? 0.8 : 1, type: s.thin ? [2, 3] : DASHES[s.arm] },
        data: s.x.map((at, i) => ({ value: [at, lift(s.y[i])], raw: s.y[i], band: s.thin ? [s.low[i], s.high[i]] : null })).filter((d) => d.value[1] !== null),
      }))),
    }, { replaceMerge: ["series"] });
  }
}

// What theory expects: the area between the edges of its band, as one polygon.
const drawBand = (s, lift, opacity) => {
  const known = s.x.map((at, i) => [at, lift(s.low[i]), lift(s.high[i])]).filter((edge) => edge[1] !== null && edge[2] !== null);
  return {
    name: `${"AB"[s.arm]}, band`, type: "custom", silent: true, clip: true, z: 1, tooltip: { show: false }, data: known,
    renderItem: (item, at) => (item.dataIndex > 0 ? null : {
      type: "polygon", style: { fill: css(HUES[s.arm]), opacity },
      shape: { points: [...known.map(([x, , high]) => at.coord([x, high])), ...known.map(([x, low]) => at.coord([x, low])).reverse()] },
    }),
  };
};

export const lossSeries = (frame) => frame.arms.map((arm, index) => {
  const { every, y } = arm.curve;
  return { arm: index, x: y.map((_, i) => (every === 1 ? i + 1 : Math.round((i + 0.5) * every))), y };
});

export const layerSeries = (frame, row, predicted) => {
  const numbered = (y) => y.map((_, i) => i + 1);
  const found = frame.arms.map((arm, index) => ({ arm: index, x: numbered(arm.layers[row]), y: arm.layers[row] }));
  (predicted || []).forEach((arm, index) => {
    if (!arm[row]) return;
    const { center, low, high, kind } = arm[row];
    found.push({ arm: index, x: numbered(center), y: center, low, high, kind, thin: true });
  });
  return found;
};
