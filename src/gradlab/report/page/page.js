// What moves on the page: sortable tables, figures on the whole screen, the layer explorer, the micro-world. Charts are Apache ECharts'.
(() => {
  "use strict";

  // ------------------------------------------------------------------ tables
  const number = (text) => {
    const found = text.replace(/,/g, "").replace("−", "-").match(/-?\d+(\.\d+)?(e[+-]?\d+)?/i);
    return found ? parseFloat(found[0]) : -Infinity;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.querySelectorAll("th")];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const text = (row) => row.cells[column].textContent;
        const body = table.tBodies[0];
        const rows = [...body.rows].sort((a, b) =>
          head.classList.contains("number") ? number(text(a)) - number(text(b)) : text(a).localeCompare(text(b)));
        body.append(...(down ? rows.reverse() : rows));
      });
    });
  }

  // ------------------------------------------------------------------ figures, links, print
  for (const button of document.querySelectorAll(".present")) {
    if (!document.fullscreenEnabled) { button.remove(); continue; }
    button.addEventListener("click", () => document.fullscreenElement ? document.exitFullscreen() : button.closest("figure").requestFullscreen());
  }
  const unfold = (place) => { for (let at = place; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true; };
  const follow = () => { const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1))); if (place) { unfold(place); place.scrollIntoView(); } };
  window.addEventListener("hashchange", follow);
  follow();
  let folded = [];
  window.addEventListener("beforeprint", () => { folded = [...document.querySelectorAll("details:not([open])")]; folded.forEach((d) => { d.open = true; }); });
  window.addEventListener("afterprint", () => folded.forEach((d) => { d.open = false; }));

  const source = document.getElementById("data");
  if (!source || !window.echarts) return;
  const data = JSON.parse(source.textContent);

  // ------------------------------------------------------------------ charts
  const LIGHT = ["#c2410c", "#0b5fa5", "#117a4f", "#8a3ffc", "#a16207", "#475569", "#be185d", "#0e7490"];
  const DARK = ["#ff9a6b", "#7db8ee", "#6fcf9f", "#c4a1ff", "#e5b567", "#a9b6c6", "#f58bbd", "#67d0e0"];
  const DASHES = ["solid", [8, 3], [3, 2], [8, 2, 2, 2], [1, 2], [10, 3, 3, 3], [4, 2, 1, 2], [6, 4]];
  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "pin", "roundRect", "arrow", "circle"];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = (style) => (dark.matches ? DARK : LIGHT)[style % LIGHT.length];
  const SUPER = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  const tick = (v) => {
    const power = Math.log10(Math.abs(v));
    if (v === 0 || (Math.abs(v) >= 1e-3 && Math.abs(v) < 1e4)) return String(+v.toPrecision(3));
    return Math.abs(power - Math.round(power)) < 1e-9 ? "10" + [...String(Math.round(power))].map((c) => SUPER[c]).join("") : v.toExponential(0);
  };
  const short = (v) => (v === 0 ? "exactly 0" : Math.abs(v) >= 1e-3 && Math.abs(v) < 1e4 ? String(+v.toPrecision(3)) : v.toExponential(1));

  const charts = [];
  const chart = (place) => {
    const made = echarts.init(place, null, { renderer: "svg" });
    new ResizeObserver(() => made.resize()).observe(place);
    charts.push(made);
    return made;
  };

  // The smallest, the largest and the least positive of some numbers.
  const extent = (values, from = { low: Infinity, high: -Infinity, least: Infinity }) => values.reduce((e, v) => (v === null ? e : {
    low: Math.min(e.low, v), high: Math.max(e.high, v), least: v > 0 ? Math.min(e.least, v) : e.least }), from);

  // Lines by place; on a log axis exact zeros stand on a floor, marked.
  const lines = (made, spec, series) => {
    const seen = spec.range || extent(series.flatMap((s) => s.values));
    const floor = spec.log && seen.least < Infinity ? seen.least / (seen.low <= 0 ? 10 : 1) : null;
    const fixed = !spec.range || seen.high < seen.low ? {} : floor !== null
      ? { min: 10 ** Math.floor(Math.log10(floor)), max: 10 ** Math.ceil(Math.log10(seen.high)) }
      : { min: Math.min(0, seen.low), max: seen.high || 1 };
    const lift = (v) => (v === null ? null : floor !== null && v <= 0 ? floor : v);
    const soft = css("--soft"), line = css("--line");
    made.setOption({
      animation: false, aria: { enabled: true },
      title: { text: spec.title, textStyle: { fontSize: 13, color: css("--ink") }, left: 0, top: 0 },
      grid: { left: 66, right: 14, top: spec.legend ? 60 : 38, bottom: 42 },
      legend: spec.legend ? { top: 20, left: 0, itemWidth: 22, textStyle: { color: soft, fontSize: 11 } } : undefined,
      tooltip: {
        trigger: "axis", confine: true, backgroundColor: css("--ground"), borderColor: line, textStyle: { color: css("--ink"), fontSize: 12 },
        formatter: (points) => {
          const box = document.createElement("div");
          box.append(`${spec.x} ${points[0].value[0]}`);
          for (const p of points) {
            const row = document.createElement("div");
            row.textContent = `${p.seriesName}: ${short(p.data.raw)}`;
            box.append(row);
          }
          return box;
        },
      },
      xAxis: { type: "value", name: spec.x, nameLocation: "middle", nameGap: 26, min: 1, max: Math.max(2, ...series.map((s) => s.values.length)), minInterval: 1,
        axisLabel: { color: soft }, nameTextStyle: { color: soft }, splitLine: { show: false }, axisLine: { lineStyle: { color: line } } },
      yAxis: { ...fixed, type: floor !== null ? "log" : "value", name: spec.y, nameLocation: "middle", nameGap: 52, nameTextStyle: { color: soft },
        axisLabel: { color: soft, formatter: tick, hideOverlap: true }, splitLine: { lineStyle: { color: line } } },
      series: series.map((s) => ({
        name: s.name, type: "line", showSymbol: !s.faint, symbol: SYMBOLS[s.style % 8], symbolSize: 5, connectNulls: false,
        itemStyle: { color: color(s.style) }, lineStyle: { color: color(s.style), width: s.faint ? 1 : 2, opacity: s.faint ? 0.75 : 1, type: s.faint ? "dotted" : DASHES[s.style % 8] },
        data: s.values.map((v, i) => ({ value: [i + 1, lift(v)], raw: v })).filter((d) => d.value[1] !== null),
      })),
    }, true);
  };

  const heat = (made, spec, rows, limit) => {
    const soft = css("--soft"), cells = [];
    rows.forEach((row, layer) => row.forEach((v, unit) => { if (v !== null) cells.push([layer, unit, v]); }));
    made.setOption({
      animation: false, aria: { enabled: true },
      title: { text: spec.title, textStyle: { fontSize: 13, color: css("--ink") }, left: 0, top: 0 },
      grid: { left: 44, right: 70, top: 38, bottom: 42 },
      tooltip: { confine: true, formatter: (p) => `layer ${p.value[0] + 1}, unit ${p.value[1] + 1}: ${short(p.value[2])}` },
      xAxis: { type: "category", data: rows.map((_, i) => i + 1), name: "layer", nameLocation: "middle", nameGap: 26, axisLabel: { color: soft, interval: Math.max(0, Math.floor(rows.length / 10) - 1) }, nameTextStyle: { color: soft } },
      yAxis: { type: "category", data: rows[0].map((_, i) => i + 1), name: "unit", nameLocation: "middle", nameGap: 30, inverse: true, axisLabel: { color: soft, interval: Math.max(0, Math.floor(rows[0].length / 8) - 1) }, nameTextStyle: { color: soft } },
      visualMap: { min: -limit, max: limit, calculable: false, orient: "vertical", right: 0, top: "middle", itemHeight: 110, precision: 2, textStyle: { color: soft },
        inRange: { color: ["#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b"] } },
      series: [{ type: "heatmap", data: cells, progressive: 0 }],
    }, true);
  };

  // ------------------------------------------------------------------ controls
  const labeled = (text, input) => {
    const label = document.createElement("label");
    label.append(text, input);
    return label;
  };
  const slider = (steps, tell, first = steps.length - 1) => {
    const input = document.createElement("input");
    Object.assign(input, { type: "range", min: 0, max: steps.length - 1, value: first, step: 1 });
    const shown = document.createElement("output");
    const say = () => {
      shown.textContent = steps[input.value].toLocaleString("en");
      input.setAttribute("aria-valuetext", `step ${shown.textContent}`);
      tell(+input.value);
    };
    input.addEventListener("input", say);
    const label = labeled("after step", input);
    label.append(shown);
    return { label, say, input };
  };
  // Plays a slider to its end, again from the start if it stands there.
  const player = (range, pause = 600) => {
    const button = document.createElement("button");
    let timer = null;
    const stop = () => { clearInterval(timer); timer = null; button.textContent = "▶ Play"; };
    button.type = "button";
    stop();
    button.addEventListener("click", () => {
      if (timer) return stop();
      if (+range.input.value === +range.input.max) { range.input.value = 0; range.say(); }
      button.textContent = "⏸ Pause";
      timer = setInterval(() => {
        range.input.value = +range.input.value + 1;
        range.say();
        if (+range.input.value === +range.input.max) stop();
      }, pause);
    });
    range.input.addEventListener("input", stop);
    return button;
  };
  const switches = (names, tell) => {
    const field = document.createElement("fieldset"), legend = document.createElement("legend");
    legend.textContent = "show";
    field.append(legend);
    const on = names.map(() => true);
    names.forEach((name, index) => {
      const box = document.createElement("input"), swatch = document.createElement("span"), label = document.createElement("label");
      Object.assign(box, { type: "checkbox", checked: true });
      swatch.className = "swatch";
      swatch.style.borderTopStyle = index ? "dashed" : "solid";
      const paint = () => { swatch.style.borderColor = color(index); };
      paint();
      dark.addEventListener("change", paint);
      box.addEventListener("change", () => { on[index] = box.checked; tell(); });
      label.append(box, swatch, name);
      field.append(label);
    });
    return { field, on };
  };

  // ------------------------------------------------------------------ every layer
  const redraw = [];
  if (data.explorer) {
    const spec = data.explorer, made = chart(document.getElementById("explorer-chart"));
    const controls = document.getElementById("explorer-controls");
    const select = document.createElement("select");
    spec.measures.forEach((m, i) => select.append(new Option(m.label, i)));
    let moment = spec.steps.length - 1;
    const arms = switches(spec.groups, () => draw());
    const draw = () => {
      const m = spec.measures[select.value];
      const series = spec.groups.map((name, i) => ({ name, style: i, values: m.values[i][moment] }))
        .filter((s, i) => arms.on[i] && s.values);
      lines(made, { title: m.label, x: "layer", y: m.label, log: m.log }, series);
    };
    select.addEventListener("change", draw);
    controls.append(labeled("measure", select));
    if (spec.steps.length > 1) {
      const range = slider(spec.steps, (value) => { moment = value; draw(); });
      controls.append(range.label);
      range.say();
    }
    controls.append(arms.field);
    draw();
    redraw.push(draw);
  }

  // ------------------------------------------------------------------ the micro-world
  if (data.scenes.length) {
    const controls = document.getElementById("inside-controls");
    let moment = 0;
    const arms = switches(data.arms, () => drawings.forEach((draw) => draw()));
    const drawings = [];
    const at = (frames) => frames[Math.min(moment, frames.length - 1)];
    document.querySelectorAll("[data-scene]").forEach((place) => {
      const scene = data.scenes[place.dataset.scene], places = [...place.children];
      const words = place.parentElement.querySelector(".moment");
      drawings.push(() => { words.textContent = scene.moments.length ? `Step ${data.steps[moment].toLocaleString("en")}. ${scene.moments[Math.min(moment, scene.moments.length - 1)]}` : ""; });
      // one scale over all steps, shared by panels that show the same quantity
      const ranges = {};
      scene.panels.forEach((panel) => {
        ranges[panel.y] = extent(panel.series.flatMap((s) => s.frames.flat()), ranges[panel.y]);
      });
      scene.panels.forEach((panel, i) => {
        const made = chart(places[i]);
        const own = { ...panel, range: ranges[panel.y], legend: panel.series.length > 1 };
        drawings.push(() => lines(made, own, panel.series.filter((s) => arms.on[s.arm])
          .map((s) => ({ name: s.name, style: s.arm, faint: s.faint, values: at(s.frames) }))));
      });
      scene.heats.forEach((spec, i) => {
        const made = chart(places[scene.panels.length + i]);
        drawings.push(() => {
          const every = scene.heats.flatMap((h) => h.frames.flat(2)).filter((v) => v !== null).map(Math.abs).sort((a, b) => a - b);
          heat(made, spec, at(spec.frames), every[Math.floor(0.99 * (every.length - 1))] || 1);
        });
      });
    });
    if (data.steps.length > 1) {
      const range = slider(data.steps, (value) => { moment = value; drawings.forEach((draw) => draw()); }, 0);
      controls.append(player(range), range.label);
      range.say();
    }
    controls.append(arms.field);
    drawings.forEach((draw) => draw());
    redraw.push(() => drawings.forEach((draw) => draw()));
  }
  dark.addEventListener("change", () => redraw.forEach((draw) => draw()));
  document.documentElement.dataset.ready = "true";
})();
