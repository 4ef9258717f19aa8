
// A line chart with bands, in SVG. Points are {x, mean, low, high, ...}; what has no estimate is left out before.

const SVG = "http://www.w3.org/2000/svg";

function shape(tag, attributes = {}, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/* Round numbers from low to high, about so many steps. */
function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((m) => m * power >= rough * 0.999) ?? 10);
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) values.push(k * step);
  const half = Math.abs(step / power - 2.5) < 1e-9 ? 1 : 0;
  return {values, places: Math.max(0, Math.min(8, half - Math.floor(Math.log10(step) + 1e-9)))};
}

const DAY = 86400;
const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]
  .concat([1, 2, 7, 14, 30, 90, 365].map((days) => days * DAY));

/* Moments on the reader's own clock, about so many, each with what to write. */
function timeTicks(from, to, about) {
  const step = SPANS.find((span) => span >= (to - from) / about) ?? SPANS.at(-1);
  const zone = 60 * new Date(1000 * from).getTimezoneOffset();
  const values = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) values.push(at);
  const write = step < 60 ? time : step < DAY ? minute : date;
  let before = "";
  return values.map((at) => {
    const today = date(at);
    const extra = step < DAY && before !== today && day(from) !== day(to) ? today : "";
    before = today;
    return {at, text: write(at), extra};
  });
}

/* Numbers of rounds, about so many, each with what to write. */
const roundTicks = (from, to, about) => ticks(from, to, about).values.map((at) => ({at, text: whole(at), extra: ""}));

/* The last point of a line at or before a place, or null. */
const pointAt = (points, x) => points.findLast((point) => point.x <= x + 1e-6) ?? null;

class Chart {
  constructor(plot, tip, describe) {
    this.plot = plot;
    this.tip = tip;
    this.describe = describe;  // (moment, [{line, point}]) -> lines of text for the tip
    this.lines = [];
    this.drawn = "";
    this.chosen = null;
    this.svg = shape("svg", {role: "img", tabindex: "0"});
    plot.append(this.svg);
    new ResizeObserver(() => this.draw()).observe(plot);
    this.svg.addEventListener("pointermove", (event) => this.point(event.clientX - this.svg.getBoundingClientRect().left));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("keydown", (event) => this.step(event));
  }

  /* Lines are {kind, label, points, band}; band false: whiskers and no joined band. x is a time, or a number of rounds. */
  show(lines, byTime, words, nothing) {
    this.lines = lines.filter((line) => line.points.length > 0);
    this.byTime = byTime;
    this.nothing = nothing;
    this.words = words;
    this.draw();
  }

  draw() {
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    const now = JSON.stringify([width, height, this.lines, this.byTime, this.words, this.nothing]);
    if (now === this.drawn || width === 0) return;
    this.drawn = now;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("aria-label", this.words ?? "");
    this.svg.replaceChildren();
    const points = this.lines.flatMap((line) => line.points);
    this.places = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
    if (points.length === 0) {
      this.svg.append(shape("text", {class: "nothing", x: width / 2, y: height / 2}, this.nothing ?? ""));
      return this.leave();
    }
    const box = this.frame(points, width, height);
    for (const line of this.lines) this.band(line, box);
    for (const line of [...this.lines].reverse()) this.line(line, box);
    this.labels(box);
    this.guide = shape("line", {class: "guide", y1: box.top, y2: box.bottom, visibility: "hidden"});
    this.marks = this.lines.map((line) => shape("circle", {class: `point ${line.kind}`, r: 5, visibility: "hidden"}));
    this.svg.append(this.guide, ...this.marks);
    this.box = box;
    if (this.chosen !== null) this.choose(this.chosen);
  }

  /* Axes, and where a moment and a value lie. */
  frame(points, width, height) {
    let low = Math.min(...points.map((p) => p.low ?? p.mean)), high = Math.max(...points.map((p) => p.high ?? p.mean));
    const middle = points.map((p) => p.mean);
    const last = this.lines.map((line) => line.points.at(-1));
    const reach = 3 * (Math.max(...middle) - Math.min(...middle));  // wide first bands may leave the picture
    low = Math.max(low, Math.min(Math.min(...middle) - reach, ...last.map((p) => p.low ?? p.mean)));
    high = Math.min(high, Math.max(Math.max(...middle) + reach, ...last.map((p) => p.high ?? p.mean)));
    const room = Math.max(0.04 * (high - low), 0.002);
    low -= room;
    high += room;
    const {values, places} = ticks(low, high, height < 260 ? 4 : 5);
    const left = 14 + 7 * Math.max(...values.map((value) => fixed(value, places).length));
    const right = width - (width < 480 ? 14 : 128), top = 12, bottom = height - 38;
    let from = this.places[0], to = this.places.at(-1);
    if (to - from < 1) [from, to] = [from - 30, to + 30];
    const x = (at) => left + ((at - from) / (to - from)) * (right - left);
    const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
    const clip = shape("clipPath", {id: "inside"});
    clip.append(shape("rect", {x: left - 6, y: top - 6, width: right - left + 12, height: bottom - top + 12}));
    this.svg.append(clip);
    for (const value of values) {
      this.svg.append(shape("line", {class: "grid", x1: left, x2: right, y1: y(value), y2: y(value)}));
      this.svg.append(shape("text", {x: left - 8, y: y(value) + 4, "text-anchor": "end"}, fixed(value, places)));
    }
    this.svg.append(shape("line", {class: "axis", x1: left, x2: right, y1: bottom, y2: bottom}));
    for (const tick of (this.byTime ? timeTicks : roundTicks)(from, to, Math.max(3, (right - left) / 110))) {
      const at = Math.min(x(tick.at), width - 22);
      this.svg.append(shape("line", {class: "axis", x1: x(tick.at), x2: x(tick.at), y1: bottom, y2: bottom + 5}));
      this.svg.append(shape("text", {x: at, y: bottom + 19, "text-anchor": "middle"}, tick.text));
      if (tick.extra) this.svg.append(shape("text", {x: at, y: bottom + 33, "text-anchor": "middle"}, tick.extra));
    }
    return {x, y, left, right, top, bottom, width, places};
  }

  band(line, {x, y}) {
    const inside = {"clip-path": "url(#inside)"};
    const sure = line.points.filter((p) => p.low !== null && p.high !== null);
    if (line.band && sure.length > 1) {
      const there = sure.map((p) => `${x(p.x)},${y(p.high)}`), back = sure.map((p) => `${x(p.x)},${y(p.low)}`).reverse();
      this.svg.append(shape("polygon", {class: `band ${line.kind}`, points: [...there, ...back].join(" "), ...inside}));
      return;
    }
    for (const p of sure) {
      const ends = {x1: x(p.x), x2: x(p.x), y1: y(p.low), y2: y(p.high)};
      this.svg.append(shape("line", {class: `whisker ${line.kind}`, ...ends, ...inside}));
    }
  }

  line(line, {x, y}) {
    const path = line.points.map((p) => `${x(p.x)},${y(p.mean)}`).join(" ");
    if (line.points.length > 1) this.svg.append(shape("polyline", {class: `line ${line.kind}`, points: path}));
    const dots = !line.band || line.points.length <= 12 ? line.points : line.points.slice(-1);
    const r = dots.length > 20 ? 2.75 : 3.5;
    for (const p of dots) this.svg.append(shape("circle", {class: `point ${line.kind}`, cx: x(p.x), cy: y(p.mean), r}));
  }

  /* Each line's name and last value at its end, kept apart. */
  labels({x, y, right, top, bottom, width}) {
    if (width < 480) return;
    const ends = this.lines.map((line) => ({line, p: line.points.at(-1), at: y(line.points.at(-1).mean)}));
    ends.sort((a, b) => a.at - b.at);
    for (let i = 1; i < ends.length; i++) {
      const lack = 36 - (ends[i].at - ends[i - 1].at);
      if (lack > 0) [ends[i - 1].at, ends[i].at] = [ends[i - 1].at - lack / 2, ends[i].at + lack / 2];
    }
    const shift = Math.max(0, top + 6 - (ends[0]?.at ?? top + 6)) - Math.max(0, (ends.at(-1)?.at ?? 0) - bottom + 14);
    for (const {line, p, at} of ends) {
      const half = p.high === null ? 0 : (p.high - p.low) / 2;
      const label = shape("text", {class: `label ${line.kind}`, x: Math.max(x(p.x), right) + 10, y: at + shift});
      const value = fixed(p.mean, Math.max(3, digits(half)));
      label.append(shape("tspan", {}, line.label), shape("tspan", {x: right + 10, dy: 16}, value));
      this.svg.append(label);
    }
  }

  point(place) {
    if (!this.places?.length || !this.box) return;
    const distance = (at) => Math.abs(this.box.x(at) - place);
    this.choose(this.places.reduce((best, at) => (distance(at) < distance(best) ? at : best)));
  }

  step(event) {
    const move = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
    if (event.key === "Escape") return this.leave();
    if (move === undefined || !this.places?.length) return;
    event.preventDefault();
    const last = this.places.length - 1;
    const from = this.chosen === null ? last - Math.sign(move) : this.places.indexOf(this.chosen);
    this.choose(this.places[Math.min(last, Math.max(0, from + move))]);
  }

  choose(at) {
    this.chosen = this.places.includes(at) ? at : null;
    if (this.chosen === null) return this.leave();
    const {x, y, width} = this.box;
    const found = this.lines.map((line) => ({line, point: pointAt(line.points, at)}));
    for (const end of ["x1", "x2"]) this.guide.setAttribute(end, x(at));
    this.guide.setAttribute("visibility", "visible");
    found.forEach(({point}, i) => {
      this.marks[i].setAttribute("visibility", point ? "visible" : "hidden");
      if (point) this.marks[i].setAttribute("cx", x(point.x)), this.marks[i].setAttribute("cy", y(point.mean));
    });
    this.tip.replaceChildren(...this.describe(at, found.filter(({point}) => point)));
    this.tip.hidden = false;
    const wide = this.tip.offsetWidth, gap = 14;
    const place = x(at) + gap + wide <= width ? x(at) + gap : x(at) - gap - wide;
    this.tip.style.transform = `translate(${Math.max(0, Math.min(place, width - wide))}px, 8px)`;
  }

  leave() {
    this.chosen = null;
    this.tip.hidden = true;
    for (const mark of [this.guide, ...(this.marks ?? [])]) mark?.setAttribute("visibility", "hidden");
  }
}
