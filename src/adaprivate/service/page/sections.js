
// The parts of a bandit's page. All text comes in as text, never as markup: names and item ids may be anybody's.

const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  for (const child of children) if (child !== null) node.append(child instanceof Node ? child : String(child));
  return node;
}

const drawn = new WeakMap();

/* Draws a node again only if what it shows has changed: nothing flickers, no selection or scroll position is lost. */
function keep(node, value, draw) {
  const text = JSON.stringify(value);
  if (drawn.get(node) === text) return;
  drawn.set(node, text);
  draw(node, value);
}

const write = (node, text) => keep(node, text, () => { node.textContent = text; });
const list = (node, lines) => keep(node, lines, () => node.replaceChildren(...lines.map((line) => make("li", {}, line))));
const pairs = (node, rows) => keep(node, rows, () => node.replaceChildren(...rows.map(([term, value, more]) =>
  make("div", {}, make("dt", {}, term), make("dd", {}, value, more ? make("small", {}, more) : null)))));

function fold(id, title, lines) {
  $(id).hidden = lines.length === 0;
  write($(id).querySelector("summary"), title);
  list($(id).querySelector("ul"), lines);
}

/* A bar with its number beside it. */
function meter(fraction, text) {
  const length = make("span");
  length.style.width = `${100 * Math.min(1, Math.max(0, fraction))}%`;
  const track = make("div", {class: "bar", "aria-hidden": "true"}, length);
  return make("div", {class: "meter"}, make("span", {class: "value"}, text), track);
}

function table(head, rows, className = "") {
  const titles = head.map(([title, kind]) => make("th", {scope: "col", class: kind ?? ""}, title));
  const cells = (row) => row.map((cell, i) => make(i ? "td" : "th", i ? {class: head[i][1] ?? ""} : {scope: "row"}, cell));
  const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row))));
  return make("table", {class: className}, make("thead", {}, make("tr", {}, ...titles)), body);
}

function drawTitle(status) {
  write($("name"), status.name);
  write($("state"), STATES[status.state] ?? status.state);
  $("state").dataset.state = status.state;
  const decided = `${counted(status.rounds.decided, "round")} decided since ${day(status.created_at)}`;
  write($("subtitle"), `${status.policy}, version ${whole(status.version)}, ${decided}`);
  $("reason").hidden = !status.reason;
  write($("reason"), status.reason ?? "");
}

function drawGuarantee(status) {
  const {sentence, enforced = [], assumptions = [], void: broken = []} = status.guarantee;
  write($("sentence"), sentence);
  $("void").hidden = broken.length === 0;
  $("guarantee").classList.toggle("broken", broken.length > 0);
  list($("void-list"), broken);
  const whom = status.unit === "user" ? "every person" : "every reward";
  const stated = (name) => priced(status.guarantee, name);
  pairs($("seal"), [["Epsilon", stated("epsilon")], ["Delta", stated("delta")], ["Protects", whom]]);
  fold("enforced", `What the software enforces (${enforced.length})`, enforced);
  fold("assumptions", `What you must keep to (${assumptions.length})`, assumptions);
  const {budget} = status;
  write($("budget").querySelector("summary"), `Budget: epsilon ${stated("epsilon")}, delta ${stated("delta")}`);
  write($("budget").querySelector("p"), budget.explanation);
}

const RECENT = 5;

function drawBatches(status, now) {
  const {rounds, next_batch: next} = status;
  const streams = status.holdback > 0 ? `${whole(rounds.policy)} learned, ${whole(rounds.holdback)} holdback` : "";
  pairs($("counts"), [
    ["Version", whole(status.version), status.version === 1 ? "batch released" : "batches released"],
    ["Rounds decided", whole(rounds.decided), streams],
  ]);
  const planned = next.end !== null;
  const size = planned ? next.end - next.start : 1, done = planned ? Math.min(next.assigned, size) : 0;
  $("progress").firstChild.style.width = `${(100 * done) / size}%`;
  $("progress").setAttribute("aria-valuemax", size);
  $("progress").setAttribute("aria-valuenow", done);
  $("progress").classList.toggle("closing", next.closes_at !== null);
  write($("next-words"), nextWords(next, status.reward_window, now, status.state));
  keep($("releases"), status.batches, (node, batches) => {
    const rows = [...batches].reverse()
      .map(({batch, start, end, released_at: at}) => [whole(batch + 1), span(start, end), moment(at, now)]);
    const head = [["Batch"], ["Rounds", "number"], ["Released", "number"]];
    node.replaceChildren(rows.length ? table(head, rows.slice(0, RECENT)) : make("p", {class: "soft"}, "None yet."));
    $("earlier").hidden = rows.length <= RECENT;
    write($("earlier").querySelector("summary"), `Earlier (${rows.length - RECENT})`);
    $("earlier").querySelector("div").replaceChildren(table(head, rows.slice(RECENT)));
  });
}

const FEW = 10;
let order = {key: "", ids: []}, showAll = false;

/* The order of items changes with the version only, so that rows do not jump about between releases. */
function ordered(name, version, items) {
  const key = JSON.stringify([name, version, items.length]);
  if (order.key !== key) {
    const score = (item) => item.score ?? -1e9;
    const sorted = [...items].sort((a, b) => b.shown - a.shown || score(b) - score(a) || (a.id < b.id ? -1 : 1));
    order = {key, ids: sorted.map((item) => item.id)};
  }
  const found = new Map(items.map((item) => [item.id, item]));
  return order.ids.map((id) => found.get(id)).filter((item) => item);
}

function drawItems(status, series) {
  const items = ordered(status.name, status.version, series.items);
  const seen = showAll ? items : items.slice(0, FEW);
  const scores = items.map((item) => item.score).filter((score) => score !== null);
  const scored = scores.length > 0;  // where features come with a context an item alone has none
  const least = Math.min(0, ...scores), most = Math.max(...scores, least + 1e-9);
  const largest = Math.max(...items.map((item) => item.share), 1e-9);
  keep($("items"), [seen, least, most, largest], (node) => {
    const rows = seen.map((item) => [
      make("span", {class: "id", title: item.id}, item.id),
      meter(item.share / largest, share(item.share)),
      ...scored ? [item.score === null ? "\u2013" : meter((item.score - least) / (most - least), fixed(item.score, 3))] : [],
    ]);
    const head = [["Item"], ["Share of rounds"], ...scored ? [["Score", "score"]] : []];
    const none = make("p", {class: "soft"}, "No item has been named or shown yet.");
    node.replaceChildren(rows.length ? table(head, rows, "items") : none);
  });
  const words = "Share: how often learned rounds of released batches showed an item. "
    + (scored ? "Score: the mean reward that the last release lets one expect of it." : "");
  write($("items-note"), items.length ? words : "");
  $("more").hidden = items.length <= FEW;
  write($("more"), showAll ? `Show the first ${FEW}` : `Show all ${whole(items.length)} items`);
}

function drawNotes(status) {
  $("notes").hidden = status.notes.length === 0;
  list($("notes-list"), status.notes);
  const {dropped} = status;
  const kept = status.keep_rewards ? "kept after their batch closes" : "deleted when their batch closes";
  pairs($("settings"), [
    ["Protects", protectedUnit(status.unit, status.local)],
    ["Rounds planned", whole(status.rounds_planned)],
    ["Reward window", duration(status.reward_window)],
    ["Holdback", status.holdback > 0 ? `${heldBack(status)}, chosen at random` : "none"],
    ["Items", whole(status.items)],
    ["Dimension", whole(status.dimension)],
    ["Default item", status.default_item ?? "none"],
    ["Raw rewards", status.local ? "never seen, only flipped bits" : kept],
    ["Kept in sums", status.retention],
    ...(dropped.clipped ? [["Features clipped", whole(dropped.clipped)]] : []),
    ...(dropped.visits_beyond ? [["Visits not counted", whole(dropped.visits_beyond)]] : []),
  ]);
}
