"use strict";
// Numbers, times and sentences. Nothing here knows the page.

const MINUS = "\u2212";
const grouped = new Intl.NumberFormat("en");
const whole = (n) => grouped.format(n);
const counted = (n, one, many = one + "s") => `${whole(n)} ${n === 1 ? one : many}`;
const span = (start, end) => `${whole(start + 1)}\u2013${whole(end)}`;  // of rounds, as people count
const share = (p) => (100 * p).toFixed(p > 0 && p < 0.0995 ? 1 : 0) + "\u202f%";

/* Digits after the point that an interval of this half width deserves. */
function digits(half) {
  return half > 0 && isFinite(half) ? Math.min(6, Math.max(2, 1 + Math.ceil(-Math.log10(half)))) : 3;
}

function fixed(value, places) {
  const text = Math.abs(value).toFixed(places);
  return value < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/* A number as short as it can be said: 0.00001, 3, 1.5, 1e-9. */
function short(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-6 || size >= 1e9)) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return new Intl.NumberFormat("en", {maximumSignificantDigits: 4}).format(value);
}

function duration(seconds) {
  const s = Math.round(seconds);
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const found = units.find(([unit]) => s >= 2 * unit || s === unit);
  return found ? counted(Math.round(s / found[0]), found[1]) : "under a second";
}

const clockFormats = new Map();
function clock(seconds, options) {
  const key = JSON.stringify(options);
  if (!clockFormats.has(key)) clockFormats.set(key, new Intl.DateTimeFormat("en-GB", options));
  return clockFormats.get(key).format(new Date(1000 * seconds));
}
const time = (at) => clock(at, {hour: "2-digit", minute: "2-digit", second: "2-digit"});
const minute = (at) => clock(at, {hour: "2-digit", minute: "2-digit"});
const date = (at) => clock(at, {day: "numeric", month: "short"});
const day = (at) => clock(at, {day: "numeric", month: "short", year: "numeric"});

/* A moment, as much of it as is needed: the time today, the day and the time otherwise. */
function moment(at, now) {
  return day(at) === day(now) ? time(at) : `${date(at)} ${minute(at)}`;
}

const STATES = {open: "Open", paused: "Paused", halted: "Halted", moved: "Moved"};
const protectedUnit = (unit, local) =>
  unit === "user" ? "all rewards of any one person" : local ? "any one reward, even from this service" : "any one reward";

/* Epsilon or delta as it is stated; where the guarantee is void, what is paid at most. */
function priced({void: broken = [], at_most: most, ...stated}, name) {
  return !broken.length ? short(stated[name]) : most ? `void (at most ${short(most[name])})` : "void (not known)";
}

/* Who is in the holdback: rounds, or people where they are protected. */
const heldBack = ({holdback, unit}) => `${share(holdback)} of ${unit === "user" ? "people" : "rounds"}`;

function holdbackWords(status) {
  const people = "all decisions for them are random, and only the first visit of each counts.";
  const rounds = "they choose at random, by a public coin, and show what learning adds.";
  return `${heldBack(status)} are held back: ${status.unit === "user" ? people : rounds}`;
}

/* What learning is worth: {tone, text}. Tone is good, bad or open. */
function liftWords(lift, hasHoldback, releases) {
  const open = (text) => ({tone: "open", text});
  if (!hasHoldback) return open("What random choice would earn is not measured: this bandit has no holdback.");
  if (releases === 0) return open("Too early to tell: no batch has been released yet.");
  if (!lift || lift.mean === null) return open("Too early to tell: learned rounds or holdback have no estimate yet.");
  const places = Math.max(3, digits((lift.high - lift.low) / 2));
  const say = (value) => Math.min(1, Math.abs(value)).toFixed(places);  // no reward is above 1: an interval may be wider
  const side = (value) => `${say(value)} ${value < 0 ? "less" : "more"}`;
  const earn = `Learned rounds earn ${side(lift.mean)} than random choice`;
  if (lift.low > 0) return {tone: "good", text: `${earn} (${say(lift.low)} to ${say(lift.high)}).`};
  if (lift.high < 0) return {tone: "bad", text: `${earn} (${say(lift.high)} to ${say(lift.low)} less).`};
  const between = `between ${side(lift.low)} and ${side(lift.high)}`;
  return open(`Too early to tell whether learned rounds earn more than random choice: ${between}.`);
}

/* When the next batch closes. */
function nextWords(next, window, now, state) {
  if (!next || next.end === null) return "No batch follows: all planned rounds are over.";
  const size = next.end - next.start;
  const all = counted(size, "round");
  const begun = next.assigned < size ? `${whole(next.assigned)} of ${all} decided.` : `All ${all} decided.`;
  if (state === "halted" || state === "moved") return `${begun} It will not close here.`;
  const later = window < 1 ? "right" : duration(window);
  if (next.closes_at === null) return `${begun} It closes ${later} after the last of them.`;
  const left = next.closes_at - now;
  if (left <= 0) return `${begun} It is closing.`;
  return `${begun} It closes at ${moment(next.closes_at, now)}, in ${duration(left)}.`;
}
