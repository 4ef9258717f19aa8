"use strict";
// A chart of lines, dots and bands in SVG, redrawn at the width there is. What it draws is in a <script type="application/json">
// of its figure: {x, y, along, series, reference}. A point is [place, value, low, high]: places lie along x, or along y where y has
// names; dots there hang on a line at the reference, if there is one.

const SVG = "http://www.w3.org/2000/svg";
const MINUS = "\u2212";

function shape(tag, attributes = {}, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function make(tag, attributes = {}, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...inside);
  return node;
}

const short = (value) => new Intl.NumberFormat("en", {maximumSignificantDigits: 3}).format(value).replace("-", MINUS);

/* A value with the digits that an interval of this half width deserves. */
function written(value, half) {
  const places = half > 0 ? Math.max(0, Math.min(4, 1 - Math.floor(Math.log10(half)))) : null;
  if (places === null) return short(value);
  const text = new Intl.NumberFormat("en", {minimumFractionDigits: places, maximumFractionDigits: places});
  return text.format(value).replace("-", MINUS);
}

/* Round numbers from low to high, about so many steps. */
function steps(low, high, about) {
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((m) => m * power >= rough * 0.999) ?? 10);
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) values.push(k * step);
  return values.map((at) => [at, new Intl.NumberFormat("en", {maximumSignificantDigits: 6}).format(at + 0 || 0).replace("-", MINUS)]);
}

function powers(low, high, about) {
  const decades = Math.log10(high / low), found = [];
  const inner = decades < about / 3 ? [1, 2, 5] : [1], every = Math.max(1, Math.ceil(decades / about));
  for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++) {
    if (k % every) continue;
    for (const m of inner) found.push(m * 10 ** k);
  }
  const inside = found.filter((at) => at >= low * 0.999 && at <= high * 1.001);
  const text = (at) => (at >= 1e5 || at < 1e-3 ? at.toExponential(0).replace("e+", "e").replace("-", MINUS) : short(at));
  return (inside.length > 1 ? inside : steps(low, high, about).map(([at]) => at)).map((at) => [at, text(at)]);
}

/* As much of a text as there is room for: first what is in parentheses at its end goes. */
function fitting(text, room) {
  const most = Math.floor(room / 6.9);
  const bare = text.length > most ? text.replace(/ \([^()]*\)$/, "") : text;
  return bare.length > most ? bare.slice(0, most - 1) + "\u2026" : bare;
}

const colour = (series) => (typeof series.slot === "number" ? `var(--c${series.slot % 8})` : `var(--${series.slot})`);

class Chart {
  constructor(figure) {
    this.data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    this.hidden = new Set();
    this.plot = make("div", {class: "plot"});
    this.tip = make("div", {class: "tip", hidden: ""});
    this.legend = make("ul", {class: "legend"});
    figure.querySelector(".chart").append(this.plot, this.tip, this.legend);
    this.svg = shape("svg", {role: "img", tabindex: "0", "aria-label": figure.querySelector("figcaption")?.textContent ?? ""});
    this.plot.append(this.svg);
    this.marked = null;
    this.chosen = null;
    new ResizeObserver(() => this.draw()).observe(this.plot);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerdown", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("keydown", (event) => this.step(event));
    addEventListener("beforeprint", () => this.leave());
  }

  show(data) {
    this.data = data;
    this.leave();
    this.draw(true);
  }

  /* A place that stays marked: the epsilon that was chosen. */
  mark(place) {
    this.marked = place;
    this.draw(true);
  }

  get seen() { return this.data.series.filter((series) => !this.hidden.has(series.name)); }

  draw(anew = false) {
    const width = this.plot.clientWidth;
    if (width === 0 || (width === this.width && !anew)) return;
    this.width = width;
    const rows = this.data.along === "y";
    this.named = !rows && width >= 640 && this.data.series.length <= 9 &&
      this.data.series.every((series) => series.name.length <= 34);  // names at the ends of lines, no legend
    const {x, y} = this.data;
    this.height = rows ? 56 + y.ticks.length * (width < 560 ? 40 : 24) : width < 560 ? 280 : Math.min(440, Math.max(320, width * 0.55));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.svg.style.height = `${this.height}px`;
    this.svg.replaceChildren();
    const points = this.seen.flatMap((series) => series.points);
    const places = this.seen.filter((series) => !series.level).flatMap((series) => series.points.map((p) => p[0]));
    const values = points.flatMap((p) => [p[1], p[2], p[3]]).filter((v) => v !== null && v !== undefined);
    const [across, up] = rows ? [values.concat(this.data.reference ?? []), places] : [places, values];
    this.box = this.frame(rows, width);
    const {left, right, top, bottom} = this.box;
    this.box.x = this.scale(x, across, left, right, rows ? 0.03 : 0, !rows);
    this.box.y = rows ? (place) => top + ((place + 0.5) / y.ticks.length) * (bottom - top) : this.scale(y, up, bottom, top, 0.04, false);
    this.axes(rows);
    this.places = [...new Set(rows ? places.map(Math.round) : places)].sort((a, b) => a - b);
    if (this.marked !== null && !rows) {
      const half = 15, at = this.box.x(this.marked);
      this.svg.append(shape("rect", {class: "chosen", x: at - half, y: top, width: 2 * half, height: bottom - top, rx: 5}));
    }
    const reference = this.data.reference ?? null;
    if (reference !== null) {
      const at = this.box.x(reference);
      this.svg.append(shape("line", {class: "reference", x1: at, x2: at, y1: top, y2: bottom}));
    }
    this.groups = new Map();
    for (const series of [...this.seen].reverse()) this.series(series, rows);
    if (this.named) this.names();
    this.drawLegend();
    this.guide = shape("line", {class: "guide", visibility: "hidden"});
    this.svg.append(this.guide);
    if (this.chosen !== null) this.choose(this.chosen);
  }

  /* Room for what is written around the picture. */
  frame(rows, width) {
    const wide = (text) => 6.7 * text.length;
    const longest = (texts) => Math.max(0, ...texts.map(wide));
    const names = this.named ? 26 + Math.min(230, longest(this.data.series.map((series) => series.name))) : 14;
    const inside = rows && width < 560;  // names of rows stand above them
    const left = rows ? (inside ? 4 : 12 + Math.min(0.42 * width, longest(this.data.y.ticks.map(([, text]) => text)))) : 50;
    return {left, right: width - names, top: rows ? 8 : 24, bottom: this.height - 44, inside};
  }

  scale(axis, values, from, to, room, tight) {
    const log = axis.scale === "log", f = log ? Math.log10 : (v) => v;
    const usable = values.filter((v) => Number.isFinite(f(v)));
    let low = Math.min(...usable.map(f)), high = Math.max(...usable.map(f));
    if (axis.from !== null && axis.from !== undefined) low = Math.min(low, f(axis.from));
    if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
    const margin = room * (high - low);
    const pad = tight && axis.ticks ? 0.05 * (high - low) : margin;
    [low, high] = [axis.from === undefined || axis.from === null || low < f(axis.from) ? low - pad : low, high + pad];
    const at = (value) => from + ((f(Math.max(value, log ? 1e-300 : -Infinity)) - low) / (high - low)) * (to - from);
    at.low = log ? 10 ** low : low;
    at.high = log ? 10 ** high : high;
    return at;
  }

  ticks(axis, scale, about) {
    if (axis.ticks) return axis.ticks.filter(([at]) => at >= scale.low * (1 - 1e-9) - 1e-9 && at <= scale.high * (1 + 1e-9) + 1e-9);
    return (axis.scale === "log" ? powers : steps)(scale.low, scale.high, about);
  }

  axes(rows) {
    const {left, right, top, bottom, x, y, inside} = this.box;
    const across = this.ticks(this.data.x, x, Math.max(3, (right - left) / 90));
    const crowded = this.data.x.ticks && across.length * 7 * Math.max(...across.map(([, t]) => t.length)) > right - left;
    across.forEach(([at, text], i) => {
      if (rows) this.svg.append(shape("line", {class: "grid", x1: x(at), x2: x(at), y1: top, y2: bottom}));
      else this.svg.append(shape("line", {class: "axis", x1: x(at), x2: x(at), y1: bottom, y2: bottom + 5}));
      const end = Math.min(Math.max(x(at), 16), this.width - 16);
      if (!crowded || i % Math.ceil((across.length * 60) / (right - left)) === 0)
        this.svg.append(shape("text", {x: end, y: bottom + 19, "text-anchor": "middle"}, crowded ? text.slice(0, 12) : text));
    });
    if (rows) {
      for (const [at, text] of this.data.y.ticks) {
        const place = inside ? {x: left, y: y(at) - 7} : {x: left - 12, y: y(at) + 4, "text-anchor": "end"};
        this.svg.append(shape("text", place, fitting(text, inside ? this.width : left)));
        const line = inside ? y(at) + 8 : y(at);
        this.svg.append(shape("line", {class: "grid", x1: left, x2: right, y1: line, y2: line}));
      }
    } else {
      for (const [at, text] of this.ticks(this.data.y, y, this.height < 300 ? 4 : 6)) {
        this.svg.append(shape("line", {class: "grid", x1: left, x2: right, y1: y(at), y2: y(at)}));
        this.svg.append(shape("text", {x: left - 8, y: y(at) + 4, "text-anchor": "end"}, text));
      }
      this.svg.append(shape("text", {class: "title", x: 0, y: 12}, fitting(this.data.y.label, this.width)));
    }
    this.svg.append(shape("line", {class: "axis", x1: left, x2: right, y1: bottom, y2: bottom}));
    const middle = {class: "title", x: (left + right) / 2, y: this.height - 6, "text-anchor": "middle"};
    this.svg.append(shape("text", middle, fitting(this.data.x.label, 2 * Math.min(middle.x, this.width - middle.x))));
  }

  series(series, rows) {
    const group = shape("g", {"data-name": series.name});
    const {x, y, left, right, inside} = this.box, stroke = {stroke: colour(series)}, dash = series.dash ? {"stroke-dasharray": series.dash} : {};
    const lift = inside ? 8 : 0;
    const spot = rows ? (p, v) => [x(v), y(p[0]) + lift] : (p, v) => [x(p[0]), y(v)];
    const sure = series.points.filter((p) => p[2] !== null && p[2] !== undefined);
    if (series.level) {
      const at = y(series.points[0][1]);
      group.append(shape("line", {class: "level", x1: left, x2: right, y1: at, y2: at, ...stroke, ...dash}));
    } else {
      if (series.band && sure.length > 1 && !rows) {
        const edge = [...sure.map((p) => spot(p, p[3])), ...sure.map((p) => spot(p, p[2])).reverse()];
        group.append(shape("polygon", {class: "band", fill: colour(series), points: edge.map((e) => e.join(",")).join(" ")}));
      } else {
        for (const p of sure) {
          const [[x1, y1], [x2, y2]] = [spot(p, p[2]), spot(p, p[3])];
          group.append(shape("line", {class: "whisker", x1, y1, x2, y2, ...stroke}));
        }
      }
      if (series.line && series.points.length > 1) {
        const path = series.points.map((p) => spot(p, p[1]).join(",")).join(" ");
        group.append(shape("polyline", {class: `line ${series.strong ? "wide-line" : ""}`, points: path, ...stroke, ...dash}));
      }
      if (series.dots) {
        for (const p of series.points) {
          const [cx, cy] = spot(p, p[1]), r = series.strong ? 5 : 4, hang = rows && this.data.reference !== null && !sure.length;
          const own = p[4] === undefined ? colour(series) : `var(--c${p[4]})`;
          if (hang) group.append(shape("line", {class: "whisker", x1: x(this.data.reference), x2: cx, y1: cy, y2: cy, stroke: own}));
          if (series.dots === "cross")
            group.append(shape("path", {class: "cross", d: `M${cx - r},${cy - r}l${2 * r},${2 * r}m0,${-2 * r}l${-2 * r},${2 * r}`, ...stroke}));
          else group.append(shape("circle", {class: "dot", cx, cy, r: hang ? 5 : r, fill: own}));
        }
      }
    }
    this.groups.set(series.name, group);
    this.svg.append(group);
  }

  /* Each line's name at its end, kept apart. */
  names() {
    const {y, right, top, bottom} = this.box, gap = 17;
    const last = (series) => series.points.reduce((end, point) => (point[0] >= end[0] ? point : end));
    const ends = this.seen.filter((series) => series.points.length).map((series) => ({series, at: y(last(series)[1]) + 4}));
    ends.sort((a, b) => a.at - b.at);
    for (let turn = 0; turn < 40; turn++) {
      for (let i = 1; i < ends.length; i++) {
        const lack = gap - (ends[i].at - ends[i - 1].at);
        if (lack > 0) [ends[i - 1].at, ends[i].at] = [ends[i - 1].at - lack / 2, ends[i].at + lack / 2];
      }
      for (const end of ends) end.at = Math.min(Math.max(end.at, top + 4), bottom + 4);
    }
    for (const {series, at} of ends) {
      const look = {class: `label ${series.strong ? "strong" : ""}`, x: right + 10, y: at, style: `fill: ${colour(series)}`};
      this.svg.append(shape("text", look, fitting(series.name, this.width - right - 4)));
    }
  }

  drawLegend() {
    const needed = !this.named && this.data.series.some((series) => series.name);
    this.legend.hidden = !needed;
    if (!needed || this.legend.childElementCount) return;
    for (const series of this.data.series) {
      const sample = shape("svg", {viewBox: "0 0 26 12", "aria-hidden": "true"});
      if (series.line || series.level || !series.dots)
        sample.append(shape("line", {x1: 1, x2: 25, y1: 6, y2: 6, stroke: colour(series), "stroke-width": series.strong ? 3.5 : 2.25,
          "stroke-dasharray": series.dash ?? ""}));
      if (series.dots === "cross") sample.append(shape("path", {d: "M9,2l8,8m0,-8l-8,8", stroke: colour(series), "stroke-width": 2}));
      else if (series.dots) sample.append(shape("circle", {cx: 13, cy: 6, r: 4, fill: colour(series)}));
      const button = make("button", {type: "button", "aria-pressed": "true"}, sample, series.name);
      button.addEventListener("click", () => {
        const off = !this.hidden.delete(series.name);
        if (off) this.hidden.add(series.name);
        if (this.hidden.size === this.data.series.length) this.hidden.delete(series.name);
        button.setAttribute("aria-pressed", String(!this.hidden.has(series.name)));
        this.draw(true);
      });
      button.addEventListener("pointerenter", () => this.fade(series.name));
      button.addEventListener("pointerleave", () => this.fade(null));
      this.legend.append(make("li", {}, button));
    }
  }

  fade(name) {
    for (const [own, group] of this.groups) group.classList.toggle("faded", name !== null && own !== name);
  }

  point(event) {
    const box = this.svg.getBoundingClientRect(), rows = this.data.along === "y";
    const place = rows ? event.clientY - box.top : event.clientX - box.left;
    const where = rows ? this.box.y : this.box.x;
    if (!this.places.length) return;
    const distance = (at) => Math.abs(where(at) - place);
    this.choose(this.places.reduce((best, at) => (distance(at) < distance(best) ? at : best)));
  }

  step(event) {
    const move = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity}[event.key];
    if (event.key === "Escape") return this.leave();
    if (move === undefined || !this.places.length) return;
    event.preventDefault();
    const last = this.places.length - 1;
    const from = this.chosen === null ? (move > 0 ? -1 : last + 1) : this.places.indexOf(this.chosen);
    this.choose(this.places[Math.min(last, Math.max(0, from + move))]);
  }

  /* What every line says at this place. */
  choose(at) {
    this.chosen = at;
    const rows = this.data.along === "y", {x, y, left, right, top, bottom, inside} = this.box;
    const where = rows ? y : x;
    const found = this.seen.flatMap((series) => {
      if (series.level) return [{series, p: series.points[0]}];
      const near = series.points.filter((p) => Math.abs(where(rows ? Math.round(p[0]) : p[0]) - where(at)) < 6);
      return near.slice(0, 1).map((p) => ({series, p}));
    });
    found.sort((a, b) => b.p[1] - a.p[1]);
    const line = rows ? {x1: left, x2: right, y1: y(at) + (inside ? 8 : 0), y2: y(at) + (inside ? 8 : 0)} : {x1: x(at), x2: x(at), y1: top, y2: bottom};
    for (const [name, value] of Object.entries({...line, visibility: "visible"})) this.guide.setAttribute(name, value);
    const axis = rows ? this.data.y : this.data.x;
    const named = axis.ticks?.find(([tick]) => Math.abs(tick - at) < 1e-9)?.[1];
    const title = rows ? named : `${axis.short ?? axis.label} ${named ?? short(at)}`;
    const most = 14, lines = found.slice(0, most).map(({series, p}) => {
      const half = p[2] === null || p[2] === undefined ? 0 : (p[3] - p[2]) / 2;
      const dot = make("i", {style: `background: ${p[4] === undefined ? colour(series) : `var(--c${p[4]})`}`});
      const range = half > 0 ? make("td", {class: "number soft"}, `${written(p[2], half)} \u2026 ${written(p[3], half)}`) : make("td");
      return make("tr", {}, make("td", {}, dot, series.name), make("td", {class: "number"}, make("strong", {}, written(p[1], half))), range);
    });
    const more = found.length > most ? [make("p", {class: "soft"}, `and ${found.length - most} more`)] : [];
    this.tip.replaceChildren(make("b", {}, title ?? ""), make("table", {}, make("tbody", {}, ...lines)), ...more);
    this.tip.hidden = false;
    const gap = 16, wide = this.tip.offsetWidth, high = this.tip.offsetHeight;
    const across = rows ? this.width - wide : x(at) + gap + wide <= this.width ? x(at) + gap : x(at) - gap - wide;
    const down = rows ? y(at) + (inside ? 18 : 14) : Math.max(0, top);
    const fits = rows && down + high > this.height ? y(at) - 14 - high : down;
    this.tip.style.transform = `translate(${Math.max(0, Math.min(across, this.width - wide))}px, ${fits}px)`;
  }

  leave() {
    this.chosen = null;
    this.tip.hidden = true;
    this.guide?.setAttribute("visibility", "hidden");
  }
}
