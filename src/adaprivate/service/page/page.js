
// Asks the service every two seconds, while somebody looks, and shows what changed.

const EVERY = 2;
const PATIENCE = 10;
const HERE = location.origin + location.pathname;  // an address may hold a key as its password: not to be repeated
const state = {
  list: null, status: null, series: null, cards: new Map(), scope: "cumulative",
  ahead: 0, lost: null, polling: false, timer: 0,
};
const now = () => Date.now() / 1000 + state.ahead;  // by the service's clock

class Refused extends Error {
  constructor(code, detail) {
    super(detail);
    this.code = code;
  }
}

async function ask(path) {
  const signal = AbortSignal.timeout(1000 * PATIENCE);
  const response = await fetch(new URL(path, HERE), {cache: "no-store", headers: {Accept: "application/json"}, signal});
  const date = Date.parse(response.headers.get("Date"));
  if (date) state.ahead = Math.abs(date - Date.now()) > 3000 ? (date - Date.now()) / 1000 : 0;
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({}));
  throw new Refused(response.status, problem.detail ?? `The service answered ${response.status}.`);
}

const bandit = (name, tail = "") => `bandits/${encodeURIComponent(name)}${tail}`;

/* Whose page this is: the one that the address names, or the only one there is. Null: the overview. */
function wanted() {
  const named = location.hash.slice(1);
  if (named && named !== "main") {
    try {
      return decodeURIComponent(named);
    } catch {
      return named;
    }
  }
  return state.list?.length === 1 ? state.list[0].name : null;
}

/* One of the page's views, and no other. */
function view(name) {
  for (const id of ["message", "empty", "overview", "bandit"]) $(id).hidden = id !== name;
}

function say(title, text) {
  view("message");
  const back = make("p", {}, make("a", {href: "#"}, "All bandits"));
  keep($("message"), [title, text], (node) =>
    node.replaceChildren(make("div", {class: "card welcome"}, make("h1", {}, title), make("p", {}, text), back)));
}

function drawNavigation() {
  const name = wanted();
  const links = state.list.length > 1 ? [["", "Overview"], ...state.list.map((entry) => [entry.name, entry.name])] : [];
  const here = (target) => (target || null) === name && {"aria-current": "page"};
  keep($("bandits"), [links, name], (node) => node.replaceChildren(...links.map(([target, text]) =>
    make("a", {href: "#" + encodeURIComponent(target), ...here(target)}, text))));
}

// ---- nobody there yet

function commands() {
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  const secret = local ? "" : " \\\n  -H 'Authorization: Bearer KEY'";
  const json = " \\\n  -H 'Content-Type: application/json'";
  const base = new URL(".", HERE).href;
  const spaced = (body) => JSON.stringify(body, null, 1).replace(/([[{])\s+|\s+([\]}])/g, "$1$2").replace(/\s+/g, " ");
  const curl = (method, path, body) => `curl -X ${method} ${base}${path}${secret}${json} \\\n  -d '${spaced(body)}'`;
  const made = {name: "front-page", dimension: 3, epsilon: 1, holdback: 0.1};
  const items = {news: [1, 0, 0], sport: [0, 1, 0], music: [0, 0, 1]};
  return [
    ["Say what to learn, and how private it is:", curl("POST", "bandits", made)],
    ["Name the items, with public features of each:", curl("PUT", "bandits/front-page/items", {items})],
    ["Ask for a decision:", curl("POST", "bandits/front-page/decisions", {candidates: ["news", "sport", "music"]})],
  ];
}

async function copy(text, button, pre) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {  // not allowed here: mark it, so that a key copies it
    getSelection().selectAllChildren(pre);
    button.textContent = "Marked";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

function drawEmpty() {
  view("empty");
  document.title = "adaprivate";
  keep($("steps"), commands(), (node, steps) => node.replaceChildren(...steps.map(([words, command]) => {
    const pre = make("pre", {tabindex: "0"}, command), button = make("button", {type: "button"}, "Copy");
    button.addEventListener("click", () => copy(command, button, pre));
    return make("li", {}, make("div", {class: "command"}, words, button), pre);
  })));
}

// ---- several

/* What learning is worth changes when a batch closes: a card asks again with a new version, and now and then. */
async function cardSeries(entry) {
  const known = state.cards.get(entry.name);
  if (known && known.version === entry.version && Date.now() - known.at < 20000) return;
  state.cards.set(entry.name, {version: entry.version, at: Date.now(), series: await ask(bandit(entry.name, "/series"))});
}

/* The lines of the chart, small. */
function spark(series) {
  const ends = {learned: series.rounds.policy, holdback: series.rounds.holdback};
  const lines = Object.entries(ends).map(([kind, all]) => [kind, series[kind].filter((entry) => entry.cumulative)
    .map((entry) => [entry.rounds[1] / all, entry.cumulative.mean])]);
  const means = lines.flatMap(([, line]) => line.map(([, mean]) => mean));
  const low = Math.min(...means), reach = Math.max(...means) - low || 1;
  const place = ([part, mean]) => `${100 * part},${40 - (36 * (mean - low)) / reach}`;
  const node = shape("svg", {class: "spark", viewBox: "0 0 100 44", preserveAspectRatio: "none", "aria-hidden": "true"});
  for (const [kind, line] of lines) node.prepend(shape("polyline", {class: kind, points: line.map(place).join(" ")}));
  return node;
}

function card(entry, series) {
  const worth = series ? liftWords(series.lift, entry.holdback > 0, series.learned.length) : {tone: "open", text: ""};
  const budget = `epsilon ${priced(entry, "epsilon")}, delta ${priced(entry, "delta")}`;
  const facts = `${counted(entry.decided, "round")} decided, version ${whole(entry.version)}, ${entry.policy}`;
  return make("li", {}, make("a", {class: "card", href: "#" + encodeURIComponent(entry.name)},
    make("span", {class: "head"},
      make("strong", {}, entry.name),
      make("span", {class: "state", "data-state": entry.state}, STATES[entry.state] ?? entry.state)),
    make("span", {class: "soft small"}, `Protects ${protectedUnit(entry.unit)}: ${budget}`),
    make("span", {class: "worth", "data-tone": worth.tone}, worth.text),
    series ? spark(series) : null,
    make("span", {class: "soft small facts"}, facts)));
}

async function drawOverview() {
  for (const entry of state.list.slice(0, 24)) await cardSeries(entry);
  if (wanted() !== null) return;
  view("overview");
  document.title = "Bandits \u00b7 adaprivate";
  const shown = state.list.map((entry) => [entry, state.cards.get(entry.name)?.series]);
  const seen = shown.map(([entry, series]) => [entry, series?.lift, series?.learned.length]);
  keep($("cards"), seen, (node) => node.replaceChildren(...shown.map(([entry, series]) => card(entry, series))));
}

// ---- one

const chart = new Chart($("plot"), $("tip"), (place, found) => [
  make("b", {}, chart.byTime ? moment(place, now()) : `About round ${whole(Math.round(place))}`),
  ...found.map(({line, point}) => {
    const rounds = line.band ? `rounds up to ${whole(point.rounds[1])}` : `rounds ${span(...point.rounds)}`;
    const more = make("span", {class: "soft"}, `batch ${whole(point.batch + 1)}, ${rounds}`);
    return make("div", {class: "row"},
      make("i", {class: line.kind}), make("span", {}, `${line.label} ${interval(point)}`, make("br"), more));
  }),
]);

function interval(point) {
  if (point.low === null || point.high === null) return fixed(point.mean, 3);
  const places = Math.max(3, digits((point.high - point.low) / 2));
  return `${fixed(point.mean, places)} (${fixed(point.low, places)} to ${fixed(point.high, places)})`;
}

/* The points of one stream that have an estimate, of all rounds so far or of each batch, placed in time or by rounds. */
function points(stream, soFar, placed) {
  return stream.map((entry) => ({entry, estimate: soFar ? entry.cumulative : entry}))
    .filter(({estimate}) => typeof estimate?.mean === "number")
    .map(({entry: {at, batch, rounds}, estimate: {mean, low, high}}) =>
      ({x: placed({at, rounds}), at, batch, rounds, mean, low: low ?? null, high: high ?? null}));
}

/* Whether time tells the batches apart. After a rush they were all due at once, and rounds do it better. */
const spread = (stream) => new Set(stream.map((entry) => Math.round(entry.at))).size > 0.7 * stream.length;

/* What the chart draws of a series: lines, whether they are placed in time, whether of all rounds so far. */
function picture(status, series) {
  const summed = series.learned.some((entry) => typeof entry.cumulative?.mean === "number");
  const band = summed && state.scope === "cumulative", byTime = spread(series.learned);
  const streams = [["learned", "Learned", 1 - status.holdback]];
  if (status.holdback > 0) streams.push(["holdback", "Random choice", status.holdback]);
  const lines = streams.map(([kind, label, part]) =>
    ({kind, label, band, points: points(series[kind], band, ({at, rounds}) => (byTime ? at : rounds[1] / part))}));
  return {lines, byTime, band, summed};
}

function drawWorth(status, series) {
  const {lines, byTime, band, summed} = picture(status, series);
  const worth = liftWords(series.lift, status.holdback > 0, series.learned.length);
  write($("lift"), worth.text);
  $("lift").dataset.tone = worth.tone;
  write($("lift-note"), status.holdback > 0 ? holdbackWords(status) : "");
  $("scope").hidden = !summed;
  keep($("legend"), lines.map((line) => line.kind), (node, kinds) => node.replaceChildren(...kinds.map((kind) => {
    const sample = shape("svg", {viewBox: "0 0 26 12", "aria-hidden": "true"});
    const band = shape("rect", {class: kind, width: 26, height: 12, rx: 2});
    sample.append(band, shape("line", {class: kind, x2: 26, y1: 6, y2: 6}));
    return make("span", {}, sample, kind === "learned" ? "Learned rounds" : "Random choice (holdback)");
  })));
  const ends = lines.filter((line) => line.points.length).map((line) => `${line.label} ${interval(line.points.at(-1))}`);
  const nothing = status.version === 0 ? "The first batch has not been released yet." : "No batch has an estimate yet.";
  const words = `Mean reward over time, last values: ${ends.join("; ")}. Arrow keys step through the batches.`;
  chart.show(lines, byTime, ends.length ? words : nothing, nothing);
  write($("caption"), ends.length ? captionWords(band, byTime, series.estimate) : "");
  $("numbers").hidden = ends.length === 0;
  if ($("numbers").open) drawNumbers(lines);
}

function captionWords(band, byTime, estimate) {
  const what = `Mean reward of ${band ? "all rounds so far" : "each batch"}`;
  const where = byTime ? "" : ", by number of rounds decided";
  const marks = band ? "bands" : "whiskers";
  const sums = `Read off the released sums; ${marks} are 95\u202f% intervals and include the privacy noise.`;
  const source = estimate === "model" ? "As the model has it that was learned from the releases." : sums;
  return `${what}${where}. ${source} Batches without an estimate are left out.`;
}

function drawNumbers(lines) {
  keep($("numbers").querySelector("div"), lines, (node) => {
    const value = (number) => (number === null ? "\u2013" : fixed(number, 4));
    const row = (label, {batch, rounds, at, mean, low, high}) =>
      [`${label}, batch ${whole(batch + 1)}`, span(...rounds), moment(at, now()), ...[mean, low, high].map(value)];
    const rows = lines.flatMap((line) => line.points.slice(-200).map((point) => row(line.label, point)));
    const numbers = ["Rounds", "Released", "Mean", "Low", "High"].map((title) => [title, "number"]);
    node.replaceChildren(table([["Stream"], ...numbers], rows));
  });
}

function drawBandit() {
  const {status, series} = state;
  if (!status || status.name !== wanted()) return;
  view("bandit");
  document.title = `${status.name} \u00b7 adaprivate`;
  drawTitle(status);
  drawGuarantee(status);
  drawBatches(status, now());
  drawWorth(status, series);
  drawItems(status, series);
  drawNotes(status);
}

// ---- asking, again and again

async function look() {
  state.list = (await ask("bandits")).bandits;
  drawNavigation();
  const name = wanted();
  if (name === null) return state.list.length ? drawOverview() : drawEmpty();
  const [status, series] = await Promise.all([ask(bandit(name)), ask(bandit(name, "/series"))]);
  const before = state.status;
  Object.assign(state, {status, series});
  drawBandit();
  if (before?.name !== status.name || before.version === status.version) return;
  write($("announcement"), `Version ${status.version}. ${$("lift").textContent}`);
}

function connected(words) {
  state.lost = null;
  $("lost").hidden = true;
  $("live").className = "live on";
  write($("live-words"), words);
}

function disconnected() {
  state.lost ??= Date.now() / 1000;
  $("live").className = "live off";
  write($("live-words"), "Not connected");
  write($("lost"), `Connection lost at ${time(state.lost)}. What is shown is from then; trying again.`);
  $("lost").hidden = false;
}

async function poll() {
  if (state.polling) return;
  clearTimeout(state.timer);
  state.polling = true;
  const asked = location.hash;
  try {
    await look();
    connected("Live");
  } catch (error) {
    if (error instanceof Refused && error.code < 500) {
      connected("Live");
      const titles = {401: "A key is needed", 403: "This key may not read here", 404: `No bandit is named ${wanted()}`};
      say(titles[error.code] ?? "The service did not answer this", error.message);
    } else {
      disconnected();
    }
  }
  state.polling = false;
  if (location.hash !== asked) return poll();
  if (document.visibilityState === "visible") state.timer = setTimeout(poll, 1000 * EVERY);
}

document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && poll());
addEventListener("online", poll);
addEventListener("hashchange", () => {
  showAll = false;
  chart.leave();
  if (state.list) drawNavigation();
  poll();
  scrollTo(0, 0);
});
let closed = [];
const unfold = (open) => closed.forEach((fold) => { fold.open = open; });
addEventListener("beforeprint", () => { closed = [...document.querySelectorAll("details:not([open])")]; unfold(true); });
addEventListener("afterprint", () => unfold(false));
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
$("scope").addEventListener("change", (event) => { state.scope = event.target.value; chart.leave(); drawBandit(); });
$("numbers").addEventListener("toggle", drawBandit);
$("more").addEventListener("click", () => { showAll = !showAll; drawBandit(); });
poll();
