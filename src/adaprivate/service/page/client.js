/* Decisions for web pages, and rewards back. The service's address and a publishable key are in this script's own src.
 *   <script src="https://SERVICE/client.js?key=PUBLISHABLE"></script>
 *   const bandit = adaprivate.bandit("front-page");
 *   const decision = await bandit.decide(["a", "b", "c"], {context: {hour: 9}, user: "u-17"});   // show decision.item
 *   await decision.reward(1);                                  // or decision.rewardOnClick(element, {within: 30})
 * No cookies, no storage, nothing that tells browsers apart. */
"use strict";
globalThis.adaprivate = (() => {
  const source = new URL(document.currentScript.src);
  const key = source.searchParams.get("key");
  const unreported = new Set();  // in local mode

  const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
  const bits = () => crypto.getRandomValues(new BigUint64Array(1))[0];  // 64 of them; never Math.random
  // floor(p * 2^64), exactly: doubles times powers of two are exact, and so are their whole parts
  const threshold = (p) => BigInt(Math.floor(p * 2 ** 64));
  const happens = (p) => bits() < threshold(p);

  /* Whether the odds keep : 1 - keep are at most e^epsilon (at most e^30). Exact: whole numbers in units of 2^-64, and the
   * exponential is rounded down. */
  function allows(epsilon, keep) {
    if (!Number.isFinite(keep) || keep <= 0.5 || keep >= 1 || !(epsilon > 0)) return false;
    const x = threshold(Math.min(epsilon, 30)), kept = threshold(keep);
    let most = 0n;
    for (let term = 1n << 128n, n = 1n; term; n++) { most += term; term = term * x / (n << 64n); }
    return kept << 128n <= ((1n << 64n) - kept) * most;
  }

  /* What is told in local mode: the reward rounded to a bit (1 with probability reward), kept with probability keep. */
  function told(reward, keep) {
    const bit = happens(reward);
    return Number(happens(keep) ? bit : !bit);
  }

  /* One request, repeated as it is while nobody answers or the service is busy. */
  async function send(method, path, body, headers, patience) {
    const end = Date.now() + 1000 * patience;
    for (let wait = 0.2; ; wait *= 2) {
      const answer = await fetch(new URL(path, source), {
        method, body: JSON.stringify(body), keepalive: method === "PUT",  // rewards outlive the page
        headers: {"Content-Type": "application/json", ...(key && {Authorization: "Bearer " + key}), ...headers},
        credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer",
        signal: AbortSignal.timeout(Math.max(1, end - Date.now())),
      }).then(async (got) => ({status: got.status, body: await got.json()})).catch(() => ({status: 0, body: {}}));
      if (![0, 429, 502, 503, 504].includes(answer.status) || Date.now() + 1000 * wait > end) return answer;
      await pause(wait);
    }
  }

  class Decision {
    #keep; #report; #clicked = false;

    constructor({decision_id: decisionId, keep, item, version, propensity, holdback, fallback = false, problem}) {
      Object.assign(this, {decisionId, item, version, propensity, holdback, fallback, problem});
      this.#keep = keep;
      if (this.local) unreported.add(this);
    }

    get local() { return typeof this.#keep === "number"; }

    /* Reports a reward between 0 and 1, or a boolean. Resolves to "recorded", "duplicate", "late", ... or "unsent".
     * In local mode the bit is drawn here, once: called or sent again it is the same, for two bits tell more than one.
     * Then call it when the visit is over, not at the click: the time of sending would tell the click. */
    reward(reward) {
      reward = Number(reward);
      if (!(reward >= 0 && reward <= 1)) throw new RangeError("Expected reward between 0 and 1.");
      if (this.fallback) return Promise.resolve("unsent");
      unreported.delete(this);
      return this.#report ??= this.#send(this.local ? told(reward, this.#keep) : reward);
    }

    async #send(reward) {
      const {body} = await send("PUT", `decisions/${encodeURIComponent(this.decisionId)}/reward`, {reward}, {}, 60);
      return typeof body.status === "string" ? body.status : String(body.type ?? "unsent").split(":").pop();
    }

    /* The visit is over. In local mode every decision is reported, those without a reward too (0, told like any other):
     * else its absence would tell. */
    settle() { return this.local ? this.reward(this.#clicked) : this.#report ?? Promise.resolve("unsent"); }

    /* A click within so many seconds is a reward of 1, sent at once. In local mode exactly one report is sent, at the END
     * of those seconds or when the page is left, clicked or not: sent at the click, its time would tell what its bit hides.
     * (Whoever serves the page that a click leads to learns of it there.) */
    rewardOnClick(element, {within = 30} = {}) {
      return new Promise((done) => {
        const click = () => { this.#clicked = true; if (!this.local) done(this.reward(1)); };
        element.addEventListener("click", click, {once: true});
        pause(within).then(() => { element.removeEventListener("click", click); done(this.settle()); });
      });
    }
  }
  addEventListener("pagehide", () => unreported.forEach((decision) => decision.settle()));

  /* localEpsilon: whatever the service says, nothing leaves this page but bits told at this epsilon or a smaller one. */
  const bandit = (name, {localEpsilon} = {}) => ({
    /* Candidates: item ids or {id, features}; none: all items. If nothing is decided in `patience` seconds, `fallback` is
     * true and `item` the service's default item or the first candidate. */
    async decide(candidates, {context, user, patience = 2} = {}) {
      const once = {"Idempotency-Key": `${bits()}-${bits()}`};  // repeated, it is the same decision
      const asked = {candidates, context, user};
      const {status, body} = await send("POST", `bandits/${encodeURIComponent(name)}/decisions`, asked, once, patience);
      const fits = localEpsilon === undefined || allows(localEpsilon, body.keep);
      if (status === 200 && fits) return new Decision(body);
      const ids = candidates?.map((candidate) => candidate.id ?? candidate) ?? [body.item ?? null];
      const item = ids.includes(body.item) ? body.item : ids[0];
      return new Decision({item, fallback: true, problem: body.detail ?? "No answer that fits."});
    },
  });

  return {allows, bandit, threshold, told};
})();
