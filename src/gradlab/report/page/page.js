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
  const arm = (index) => ({ light: LIGHT[index % 8], dark: DARK[index % 8], dash: index % 8, marker: index % 8 });
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = (stroke) => (dark.matches ? stroke.dark : stroke.light);
  const FAINT = [[6, 3], [2, 2], [6, 2, 2, 2]];
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

  // The ends of a y axis over all values that it will ever show, so that it stands still while the slider moves.
  const extent = (rows, log) => {
    let low = Infinity, high = -Infinity, zero = false;
    for (const row of rows) for (const v of row || []) {
      if (v === null) continue;
      if (log && v <= 0) { zero = true; continue; }
      if (v < low) low = v;
      if (v > high) high = v;
    }
    if (low > high) return null;
    const round = (v, way) => { const unit = 10 ** Math.floor(Math.log10(Math.abs(v) || 1)); return way(v / unit) * unit; };
    if (!log) return { low: low < 0 ? round(low, Math.floor) : 0, high: high > 0 ? round(high, Math.ceil) : 0, floor: null };
    const floor = low / 10;
    let down = Math.floor(Math.log10(zero ? floor : low) + 1e-9), up = Math.max(Math.ceil(Math.log10(high) - 1e-9), down + 1);
    const apart = [1, 2, 5, 10, 20, 50].find((n) => (up - down) / n <= 6) || 100;  // decades from label to label
    down = Math.floor(down / apart) * apart;
    up = Math.ceil(up / apart) * apart;
    return { low: 10 ** down, high: 10 ** up, floor: Math.max(floor, 10 ** down) };
  };
  const widest = (spans, log) => {
    const there = spans.filter(Boolean);
    if (!there.length) return null;
    return { low: Math.min(...there.map((s) => s.low)), high: Math.max(...there.map((s) => s.high)), floor: log ? Math.min(...there.map((s) => s.floor)) : null };
  };

  // What theory expects before training: a thin dotted line, and the edges of its band in the color of its group.
  const THEORY = "theory, 95 % band over seeds";
  const dotted = (t) => {
    const line = (values, edge, style) => ({
      name: edge ? `${t.name}, ${edge} edge` : THEORY, type: "line", symbol: "none", silent: Boolean(edge), z: edge ? 2 : 4,
      itemStyle: { color: style.color }, lineStyle: style,
      data: values.map((v, i) => ({ value: [i + 1, v], raw: v, edge, said: `${t.name}, theory: ${short(v || 0)} (${short(t.low[i] || 0)} … ${short(t.high[i] || 0)})` })).filter((d) => d.raw !== null),
    });
    const edges = { color: color(t.stroke), width: 0.8, opacity: 0.8, type: [1, 3] };
    return [line(t.center, "", { color: css("--ink"), width: 1.2, type: [1, 2] }), line(t.low, "lower", edges), line(t.high, "upper", edges)];
  };

  // Lines by place; on a log axis exact zeros stand on a floor, marked.
  const lines = (made, spec, series) => {
    const span = spec.span || extent(series.map((s) => s.values), spec.log);
    const expected = spec.theory || [];
    const floor = spec.log && span ? span.floor : null;
    const named = spec.layers && spec.layers.length;
    const names = [...new Set([...series.map((s) => s.name), ...expected.map(() => THEORY)])];
    const needed = names.reduce((sum, name) => sum + 48 + 7 * Math.min(name.length, 44), 0);
    const rows = Math.min(4, Math.ceil(needed / Math.max(made.getWidth(), 1)));
    const lift = (v) => (v === null ? null : floor !== null && v <= 0 ? floor : v);
    const soft = css("--soft"), line = css("--line");
    const empty = series.length > 0 && series.every((s) => s.values.every((v) => v === null));  // no update before the first step
    made.setOption({
      animation: false, aria: { enabled: true },
      graphic: empty ? [{ type: "text", left: "center", top: "40%", style: { text: "nothing to show at this step", fill: soft, fontSize: 12 } }] : [],
      title: { text: spec.title, textStyle: { fontSize: 13, color: css("--ink") }, left: 0, top: 0 },
      grid: { left: 66, right: 14, top: 38, bottom: (named ? 122 : 44) + 19 * rows },
      legend: { data: names.map((name) => (name === THEORY ? { name, itemStyle: { opacity: 0 } } : { name })), bottom: 0, left: 0, itemWidth: 26, itemHeight: 9, type: "plain", textStyle: { color: css("--ink"), fontSize: 12 }, selectedMode: false, formatter: (name) => (name.length > 44 ? name.slice(0, 43) + "…" : name) },
      tooltip: {
        trigger: "axis", confine: true, backgroundColor: css("--ground"), borderColor: line, textStyle: { color: css("--ink"), fontSize: 12 },
        formatter: (points) => {
          const box = document.createElement("div");
          box.append(named ? spec.layers[points[0].value[0] - 1] : `${spec.x} ${points[0].value[0]}`);
          for (const p of points.filter((one) => !one.data.edge)) {
            const row = document.createElement("div");
            row.textContent = p.data.said || `${p.seriesName}: ${short(p.data.raw)}`;
            box.append(row);
          }
          return box;
        },
      },
      xAxis: { type: "value", name: spec.x, nameLocation: "middle", nameGap: named ? 102 : 26, min: 1, max: Math.max(2, ...series.map((s) => s.values.length)), minInterval: 1,
        interval: named ? Math.max(1, Math.ceil((20 * spec.layers.length) / Math.max(made.getWidth() - 170, 20))) : undefined,
        axisLabel: named ? { color: soft, rotate: 40, showMaxLabel: true, formatter: (at) => spec.short[at - 1] || "" } : { color: soft },
        nameTextStyle: { color: soft }, splitLine: { show: false }, axisLine: { lineStyle: { color: line } } },
      yAxis: { type: floor !== null ? "log" : "value", min: span ? span.low : null, max: span ? span.high : null, name: spec.y, nameLocation: "middle", nameGap: 52, nameTextStyle: { color: soft },
        axisLabel: { color: soft, formatter: tick, hideOverlap: true }, splitLine: { lineStyle: { color: line } } },
      series: [...series.map((s) => ({
        name: s.name, type: "line", showSymbol: !s.faint, symbol: SYMBOLS[s.stroke.marker], symbolSize: 5, connectNulls: false,
        itemStyle: { color: color(s.stroke) }, lineStyle: { color: color(s.stroke), width: s.faint ? 1.2 : 2, opacity: s.faint ? 0.85 : 1, type: s.faint ? FAINT[s.nth % 3] : DASHES[s.stroke.dash] },
        data: s.values.map((v, i) => ({ value: [i + 1, lift(v)], raw: v })).filter((d) => d.value[1] !== null),
      })), ...expected.flatMap(dotted)],
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
  const slider = (steps, first, tell) => {
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
    const play = document.createElement("button");
    play.type = "button";
    let timer = null;
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "▶ play"; };
    const next = () => {
      if (+input.value >= steps.length - 1) return stop();
      input.value = +input.value + 1;
      say();
    };
    stop();
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (+input.value >= steps.length - 1) { input.value = 0; say(); }
      timer = setInterval(next, 700);
      play.textContent = "❚❚ pause";
    });
    return { label, say, play };
  };
  const switches = (names, strokes, tips, tell) => {
    const field = document.createElement("fieldset"), legend = document.createElement("legend");
    legend.textContent = "show";
    field.append(legend);
    const on = names.map(() => true), labels = [];
    names.forEach((name, index) => {
      const box = document.createElement("input"), swatch = document.createElement("span"), label = document.createElement("label");
      Object.assign(box, { type: "checkbox", checked: true });
      swatch.className = "swatch";
      swatch.style.borderTopStyle = strokes[index].dash ? "dashed" : "solid";
      const paint = () => { swatch.style.borderColor = color(strokes[index]); };
      paint();
      dark.addEventListener("change", paint);
      box.addEventListener("change", () => { on[index] = box.checked; tell(); });
      label.append(box, swatch, name);
      if (tips) label.title = tips[index];
      labels.push(label);
      field.append(label);
    });
    return { field, on, labels };
  };

  // ------------------------------------------------------------------ every layer
  const redraw = [];
  if (data.explorer) {
    const spec = data.explorer, made = chart(document.getElementById("explorer-chart"));
    const controls = document.getElementById("explorer-controls");
    const select = document.createElement("select");
    spec.measures.forEach((m, i) => select.append(new Option(m.label, i)));
    let moment = spec.steps.length - 1;
    const arms = switches(spec.groups, spec.strokes, spec.tips, () => draw());
    const panel = document.createElement("select");
    spec.panels.forEach((p, i) => panel.append(new Option(p.title, i, false, i === spec.panels.length - 1)));
    const inside = (i) => !spec.panels.length || spec.panels[panel.value].groups.includes(i);
    const draw = () => {
      const m = spec.measures[select.value];
      arms.labels.forEach((label, i) => { label.hidden = !inside(i); });
      const series = spec.groups.map((name, i) => ({ name, stroke: spec.strokes[i], values: m.values[i][moment] }))
        .filter((s, i) => inside(i) && arms.on[i] && s.values);
      const known = m.theory.map((t, i) => (t && inside(i) ? { ...t, i, name: spec.groups[i], stroke: spec.strokes[i] } : null)).filter(Boolean);
      const ever = [...m.values.flatMap((frames, i) => (inside(i) ? frames : [])), ...known.flatMap((t) => [t.center, t.low, t.high])];
      const theory = spec.steps[moment] === 0 ? known.filter((t) => arms.on[t.i]) : [];
      lines(made, { title: m.label, x: spec.layers.length ? "module" : "layer", layers: spec.layers, short: spec.short, y: m.label, log: m.log, span: extent(ever, m.log), theory }, series);
    };
    select.addEventListener("change", draw);
    controls.append(labeled("measure", select));
    if (spec.panels.length) {
      panel.addEventListener("change", draw);
      controls.append(labeled("groups", panel));
    }
    if (spec.steps.length > 1) {
      const range = slider(spec.steps, moment, (value) => { moment = value; draw(); });
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
    const arms = switches(data.arms, data.arms.map((_, i) => arm(i)), null, () => drawings.forEach((draw) => draw()));
    const drawings = [];
    const at = (frames) => frames[Math.min(moment, frames.length - 1)];
    document.querySelectorAll("[data-scene]").forEach((place) => {
      const scene = data.scenes[place.dataset.scene], places = [...place.children];
      const caption = place.parentElement.querySelector(".caption");
      drawings.push(() => { caption.textContent = scene.captions[Math.min(moment, scene.captions.length - 1)]; });
      const spans = scene.panels.map((panel) => extent([...panel.series.flatMap((s) => s.frames), ...panel.theory.flatMap((t) => [t.center, t.low, t.high])], panel.log));
      scene.panels.forEach((panel, i) => {
        const made = chart(places[i]);
        const alike = spans.filter((_, j) => scene.panels[j].y === panel.y);  // both networks on one scale
        const spec = { ...panel, span: widest(alike, panel.log) };
        const nth = (s) => panel.series.filter((o) => o.arm === s.arm && o.faint).indexOf(s);
        const known = panel.theory.map((t) => ({ ...t, name: data.arms[t.arm], stroke: arm(t.arm) }));
        const theory = () => (data.steps[moment] === 0 ? known.filter((t) => arms.on[t.arm]) : []);
        drawings.push(() => lines(made, { ...spec, theory: theory() }, panel.series.filter((s) => arms.on[s.arm])
          .map((s) => ({ name: s.name, stroke: arm(s.arm), faint: s.faint, nth: nth(s), values: at(s.frames) }))));
      });
      scene.heats.forEach((spec, i) => {
        const made = chart(places[scene.panels.length + i]);
        const every = scene.heats.flatMap((h) => h.frames.flat(2)).filter((v) => v !== null).map(Math.abs).sort((a, b) => a - b);
        const limit = every[Math.floor(0.99 * (every.length - 1))] || 1;
        drawings.push(() => heat(made, spec, at(spec.frames), limit));
      });
    });
    if (data.steps.length > 1) {
      const range = slider(data.steps, 0, (value) => { moment = value; drawings.forEach((draw) => draw()); });
      controls.append(range.play, range.label);
      range.say();
    }
    controls.append(arms.field);
    drawings.forEach((draw) => draw());
    redraw.push(() => drawings.forEach((draw) => draw()));
  }
  dark.addEventListener("change", () => redraw.forEach((draw) => draw()));
  document.documentElement.dataset.ready = "true";
})();
