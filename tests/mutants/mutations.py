"""Mistakes in the real source that tests must notice: file, exact old text, new text, why, and who must notice."""

from typing import NamedTuple

SOURCES = ("tests/conformance/test_exact_sources.py",)
SUITE = "tests/conformance/test_policies.py"


class Mutation(NamedTuple):
    """``tests``: files, or (file, expression for -k); one of them must fail."""

    file: str
    old: str
    new: str
    why: str
    tests: tuple = SOURCES


def suite(expression):
    """The conformance suite on what fits this expression."""
    return ((SUITE, expression),)


EXACT = suite("(adaprivate-ts-1 or noise-aware-ts) and (exact-releases or exact-channels-cost)")
SAME = suite("(adaprivate-ts-1 or noise-aware-ts or noise-aware-ucb) and (compiled-releases or releases-come or those-of)")
PLAN, BOOK, NOISE = "mechanisms/plan.py", "mechanisms/book.py", "mechanisms/noise.py"
STATED, LEDGER, OF_PEOPLE = "mechanisms/plan_base.py", "people/ledger.py", "mechanisms/units/ledger.py"
CHARGED = ("tests/mechanisms/test_ledger.py",)
PREFIX, EVENT, CONTRIBUTIONS = "mechanisms/prefix.py", "mechanisms/units/event.py", "mechanisms/contributions.py"
WHOLE, ENTERING = "whole.py", ("tests/mechanisms/test_whole.py",)
POLICY, ENGINES, FILES = "runtime/policy.py", "runtime/engines.py", "runtime/storage.py"
BOOKS, SAMPLING = "policies/core/books.py", "policies/arms/sampling.py"
CHANNELS, ROUTED = "mechanisms/channels.py", ("tests/mechanisms/test_channels.py",)
ROUTE, SIMULATED = "policies/noise_aware/settings.py", "policies/noise_aware/starting.py"
ENTERED, LOCAL = "policies/noise_aware/simulated.py", ("tests/policies/test_local.py",)
CHOSEN = (("tests/conformance/test_channels.py", "channels-cost or are-those-of-the-book or public-moments"),)
PUBLISHED = "tests/evaluate/test_people.py"
RUNS = "tests/evaluate/test_runs.py"

SERVED, ERASED = "tests/service/test_core.py", "tests/service/test_erasure.py"
JOINT, PAIRS = "mechanisms/units/joint.py", ("tests/mechanisms/test_joint_unit.py",)

PEOPLE, TOLD = "people/visits.py", ("tests/mechanisms/test_people.py",)
CLIPPING, RIVALS = (
    "policies/core/clipping.py",
    (("tests/policies/test_user_rivals.py", "compiled or clipping_moves or k_events"),),
)

LINES, IN_LINES = "policies/core/lanes.py", ("tests/policies/test_lanes.py",)
STOCK = "policies/core/stock.py"
INTERRUPTED = ("tests/policies/test_interrupted.py",)
MOMENTS = (("tests/policies/test_public_moments.py", "planned_at or at_once or close_nothing"),)
FITS = (("tests/mechanisms/test_ledger.py", "might_not_fit"),)
PUBLIC = "public-names and "
CLIPPED, USER = suite(f"{PUBLIC}noise-aware-greedy"), "mechanisms/units/user.py"

MUTATIONS = [
    Mutation(
        "people/identity.py",
        "text = str.__str__(user)",
        "text = str(user)",
        "a member of an enum and its text taken for two people",
        (("tests/policies/test_people.py", "spellings"),),
    ),
    Mutation(
        "people/identity.py",
        'unicodedata.normalize("NFC", text)',
        'unicodedata.normalize("NFKC", text)',
        "two people taken for one for their look",
        (("tests/policies/test_people.py", "two_users"),),
    ),
    Mutation(
        "check.py",
        "return name if isinstance(name, Unsaid) else",
        "return",
        "a context repeated by what refuses it",
        (("tests/policies/test_private_contexts.py", "repeats"),),
    ),
    Mutation(
        "runtime/inputs.py",
        "        offered = None\n    if offered",
        "        raise check.InputError(f'Expected {candidates}.')\n    if offered",
        "candidates repeated by what refuses them",
        (("tests/policies/test_private_contexts.py", "repeats"),),
    ),
    # --- what is public of what is private ------------------------------------------------------------------------------
    Mutation(
        OF_PEOPLE,
        "earlier.batch, earlier._reached",
        "0, earlier._reached",
        "visits charged to the first epoch after planning on",
        (("tests/policies/test_people.py", "after_planning_on"),),
    ),
    Mutation(
        USER,
        "        return x * (math.sqrt(n) - math.sqrt(n - 1))",
        "        own = self._users.get(str(person))\n"
        "        left = 0.5 if own is not None and own[-1] > 0 else 1.0\n"
        "        return x * (math.sqrt(n) - math.sqrt(n - 1)) * left",
        "a public weight that looks at what a person earned",
        CLIPPED,
    ),
    Mutation(
        USER,
        "        self.counted += 1",
        "        self.counted += bool(np.any(contribution != 0))",
        "people's count without rewards equal to the centre",
        CLIPPED,
    ),
    Mutation(
        OF_PEOPLE,
        "        return np.asarray(self.weigh(number, person, features) * 2.0**-VECTOR_BITS, np.float64)",
        "        far = np.abs(self._total.astype(float)).max() > 2.0**20\n"
        "        found = self.weigh(number, person, features) * 2.0**-VECTOR_BITS\n"
        "        return np.asarray(found / 2 if far else found, np.float64)",
        "a public weight that looks at the open sum",
        suite(f"{PUBLIC}noise-aware and not (greedy or -ts or ucb or joint)"),
    ),
    Mutation(
        POLICY,
        'text + "settles it.")',
        'text + f"settles it: it was {entry.reward}.")',
        "a refusal that repeats the first reward",
        suite(f"{PUBLIC}adaprivate-ts-1"),
    ),
    Mutation(
        POLICY,
        "next((entry.decision for entry in self._open.values()), None)",
        "next((entry.decision for entry in self._open.values() if entry.reward is None), None)",
        "an open decision that tells whether a reward came",
        suite(f"{PUBLIC}adaprivate-ts-1"),
    ),
    Mutation(
        CHANNELS,
        "        self._expect_due()\n        after = self._under",
        "        if not self.due:\n"
        "            raise check.InputError(f'Expected a due batch: {self._sums and self._sums._collector.state()}.')\n"
        "        after = self._under",
        "a private sum in the text of an error",
        suite(f"{PUBLIC}noise-aware-ts"),
    ),
    Mutation(
        "policies/noise_aware/options.py",
        '        if self.unit == "event":\n            return EventUnit()',
        '        if self.unit == "event" or self.counted_visits == 1:\n            return EventUnit()',
        "people not protected where one visit of each counts",
        (("tests/policies/test_people.py", "however_few"),),
    ),
    Mutation(
        CHANNELS,
        "        return Told(self.plan.flip_law.tell(check.reward(reward), self.source))",
        "        known = reward == self.plan.centre\n"
        "        return Told(reward if known else self.plan.flip_law.tell(check.reward(reward), self.source))",
        "a reward that is the centre told in clear",
        (("tests/mechanisms/test_channels.py", "two_outcomes"),),
    ),
    Mutation(
        NOISE,
        "return draws * discrete_gaussian_distance(",
        "return 0.5 * draws * discrete_gaussian_distance(",
        "half of the slack of exact noise",
        (("tests/mechanisms/test_noise.py", "slack"),),
    ),
    Mutation(
        "people/shares.py",
        "np.abs(encoder.T @ encoder)",
        "np.maximum(encoder.T @ encoder, 0)",
        "batches believed to cancel",
        (("tests/mechanisms/test_ledger.py", "in_full"),),
    ),
    # --- people, by rivals of the ledger --------------------------------------------------------------------------------
    Mutation(
        PEOPLE,
        "s.last = table.visits[place] < s.most",
        "s.last = table.visits[place] <= s.most",
        "one visit too many",
        TOLD,
    ),
    Mutation(PLAN, "return self.law.price(self.told)", "return self.law.price()", "a person's rewards priced as one", TOLD),
    Mutation(
        BOOK,
        "            self._told = self.plan.centre\n",
        "            self._told = reward\n",
        "a visit beyond the budget told in clear",
        TOLD,
    ),
    Mutation(
        "mechanisms/laws/randomised_response.py",
        "        part = math.nextafter(part, 0.0)\n    return part",
        "        break\n    return part",
        "parts of a budget that add up to more",
        TOLD,
    ),
    Mutation(
        CLIPPING, "most = clip * weight_of", "most = 2 * clip * weight_of", "people clipped at twice their reach", RIVALS
    ),
    Mutation(
        CLIPPING,
        "if not charge(people, open_batch.gram, open_batch.shares,",
        "if not charge(people, open_batch.gram // 2**30, open_batch.shares,",
        "batches that people enter not counted",
        RIVALS,
    ),
    Mutation(
        "policies/adaprivate/users.py",
        "    if counts_visit(book.counted, s.person):",
        "    if counts_visit(book.counted, s.person) or True:",
        "more than k events of a person summed",
        RIVALS,
    ),
    Mutation(
        "privacy/participation.py",
        "if attained else min(n, 2 * clip)",
        "if attained else min(n, clip)",
        "a replaced person priced as a removed one",
        RIVALS,
    ),
    # --- where noise comes from -----------------------------------------------------------------------------------------
    Mutation(
        SAMPLING,
        "return int(arm) if arm >= 0 else int(np.argmax(book.sample()))",
        "return int(arm) if arm >= 0 else int(np.argmax(np.array(book._sampler._sums) / 2**20 / (learner.pulls + 1.0)"
        " + learner.spread * np.random.default_rng().standard_normal(len(learner.pulls))))",
        "production arms chosen by floating-point samples",
    ),
    Mutation(
        ENGINES,
        "        if not isinstance(self.book, ArmBook):\n            return self.learner.choose(candidates, actions)",
        "        if isinstance(self.book, ArmBook):\n            self._before_noise()\n"
        "            theta = np.array(self.book._sampler._sums) / 2**20 / (self.state.pulls + 1.0)\n"
        "            from adaprivate.compiled import normal\n"
        "            theta = theta + self.state.spread * [normal(self.rng, 0) for _ in theta]\n"
        "            arm = int(self.settings.exact_choice(self.state, self.plan.book(self.source)))\n"
        "            actions[0] = int(np.argmax(theta)) if arm >= 0 else 0\n            return 0\n"
        "        if not isinstance(self.book, ArmBook):\n            return self.learner.choose(candidates, actions)",
        "production arms on the compiled path, its seeded stream instead of exact noise",
    ),
    Mutation(
        NOISE,
        "    def gaussian(self, values: Array, scale: float | Floats) -> Floats:\n"
        "        return _add(values, scale, _gaussian_sampler)",
        "    def gaussian(self, values: Array, scale: float | Floats) -> Floats:\n"
        "        rng, size = np.random.default_rng(), np.shape(values)\n"
        "        return np.asarray(values / 2**NOISE_BITS, np.float64) + scale * rng.standard_normal(size)",
        "secure noise from NumPy",
    ),
    Mutation(
        NOISE,
        "        for place, draw in zip(places, sampler(grid_scale, len(places))([0] * len(places)), strict=True):",
        "        drawn = np.rint(grid_scale * np.random.default_rng().standard_normal(len(places)))\n"
        "        for place, draw in zip(places, [int(one) for one in drawn], strict=True):",
        "the exact sampler by-passed with rounded floats",
    ),
    Mutation(
        NOISE,
        "return _add(values, scale, _laplace_sampler)",
        "return _add(values, scale, _gaussian_sampler)",
        "the wrong law",
    ),
    Mutation(
        NOISE,
        "return draws * discrete_gaussian_distance(check.real",
        "return discrete_gaussian_distance(check.real",
        "slack of one draw for all",
    ),
    # --- what noise must cover ------------------------------------------------------------------------------------------
    Mutation(
        PREFIX,
        "self.row_std = self.noise_multiplier * self.participation.change * reach * (1 + 2.0**-50)",
        "self.row_std = self.noise_multiplier * self.participation.change * (1 + 2.0**-50)",
        "noise that does not cover the strategy's sensitivity",
    ),
    Mutation(
        "privacy/participation.py",
        'check.real("feature_norm", feature_norm, above=0)\n    return Participation("event"',
        'check.real("feature_norm", feature_norm, above=0) / 2\n    return Participation("event"',
        "a reward's reach halved",
        EXACT,
    ),
    Mutation(
        "mechanisms/laws/gaussian.py",
        "return GaussianPrice(1 / noise_multiplier, slack, attained)",
        "return GaussianPrice(1 / noise_multiplier / 2**0.5, slack, attained)",
        "a price off by sqrt 2",
        EXACT,
    ),
    Mutation(
        "policies/noise_aware/settings.py",
        "return privacy.gaussian_sigma(self.epsilon, self.delta)",
        "return privacy.gaussian_sigma(self.epsilon, self.delta) / 2**0.5",
        "a calibration off by sqrt 2",
        suite("noise-aware-greedy and calibrations"),
    ),
    Mutation("mechanisms/laws/gaussian.py", "return source.slack(scale, draws)", "return 0.0", "slack dropped"),
    Mutation(PLAN, "else max(slacks, default=0.0)", "else min(slacks, default=0.0)", "the smallest slack of all epochs"),
    Mutation(
        PLAN,
        "        if self.sampling_rate < 1:\n            return privacy.SampledGaussianPrice",
        "        if self.sampling_rate < 0:\n            return privacy.SampledGaussianPrice",
        "a price that forgets sampling",
    ),
    Mutation(
        PLAN,
        "ArmSampler(self.arms, self.variance, Secure()).slack(self.rounds) if exact_noise else 0.0",
        "0.0",
        "no slack for samples",
    ),
    Mutation(
        "mechanisms/arm_sampler.py",
        "scales = np.sqrt(self.variance * weights) * (1 + 2.0**-50)",
        "scales = np.sqrt(self.variance) * np.ones(len(weights))",
        "samples that do not widen with pulls",
        suite("modified-thompson and exact-samples"),
    ),
    Mutation(
        "mechanisms/arm_sampler.py",
        "math.floor(check.reward(reward) * 2**EVENT_BITS)",
        "math.floor(check.reward(reward) * 2 ** (EVENT_BITS + 1))",
        "a reward counted for two",
        suite("modified-thompson and exact-samples"),
    ),
    # --- what a sum holds -----------------------------------------------------------------------------------------------
    Mutation(
        EVENT,
        "total, self._total = self._total, self._contribution.zero()",
        "total = self._total",
        "a batch that is never emptied",
    ),
    Mutation(
        WHOLE,
        "        sums.total[i] += product >> REWARD_BITS if product >= 0 else -(-product >> REWARD_BITS)\n",
        "        sums.total[i] += 2 * (product >> REWARD_BITS if product >= 0 else -(-product >> REWARD_BITS))\n",
        "an event counted twice",
        EXACT,
    ),
    Mutation(
        WHOLE,
        "            x[i] /= norm\n    square = 0\n",
        "            x[i] /= 1.0\n    square = 0\n",
        "features not clipped",
    ),
    Mutation(
        WHOLE,
        "        sums.total[i] += product >> REWARD_BITS if product >= 0 else -(-product >> REWARD_BITS)\n",
        "        sums.total[i] += product >> REWARD_BITS\n",
        "products rounded down, not towards zero",
        ENTERING,
    ),
    Mutation(
        WHOLE,
        "    if s.reached >= LARGEST - _MOST:\n        return _FULL\n",
        "",
        "sums that may wrap",
        ENTERING,
    ),
    Mutation(
        WHOLE,
        "2.0**REWARD_BITS)) - s.centre\n",
        "2.0**REWARD_BITS)) - 2 * s.centre\n",
        "the centre taken off twice",
        SAME,
    ),
    Mutation(
        CONTRIBUTIONS,
        "        return (value - self.centre) * x\n",
        "        return value * x\n",
        "the centre not taken off simulated sums",
    ),
    Mutation(
        BOOK,
        '        check.expect(event.round == self.round, "event.round", event.round, f"== {self.round}, the next one")\n',
        "",
        "a round that may be counted twice",
    ),
    Mutation(
        BOOK,
        '        check.expect(not self.due, "batch", self.batch, "to be closed before the next round is counted")\n',
        "",
        "a batch that goes on after its end",
    ),
    Mutation(
        BOOK,
        "after._collector = self._collector.copy()\n",
        "after._collector = self._collector\n",
        "closing that changes the book",
    ),
    Mutation(
        BOOK,
        "self.round == self.plan.ends[self.batch]",
        "self.round + 1 == self.plan.ends[self.batch]",
        "a batch released a round early",
    ),
    Mutation(
        BOOK,
        "return Told(self.plan.law.tell(reward, self.source))",
        "return reward",
        "a raw reward kept while it waits",
    ),
    Mutation(
        BOOK,
        "self._told = reward if type(reward) is Told else self.arrived(reward)",
        "self._told = reward",
        "a raw reward kept in the book",
    ),
    Mutation(
        BOOK,
        "        if self.source.exact:\n            raise check.InputError(COPY_REFUSED)\n",
        "",
        "books that can be copied",
    ),
    Mutation(
        BOOK,
        "after._stream = None if after._ended else mechanism.state",
        "after._stream = mechanism.state",
        "exact sums kept beyond their epoch",
        ("tests/mechanisms/test_retention.py",),
    ),
    Mutation(
        PLAN,
        "scaled = released if self.decoded else released / epoch.strategy.sensitivity()",
        "scaled = released",
        "rows published in another scale than learners read",
        SAME,
    ),
    # --- channels -------------------------------------------------------------------------------------------------------
    Mutation(CHANNELS, "total, count = after._blocks.pop(", "total, count = after._blocks.get(", "a block kept", ROUTED),
    Mutation(
        CHANNELS,
        "            self._blocks[block] = entered\n",
        "            self._blocks[block] = entered\n            self._flip = reward\n",
        "a reward through two channels",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "after._flip, after._blocks, after._closing = self._flip, dict(self._blocks), self._closing",
        "after._flip, after._blocks, after._closing = self._flip, self._blocks, self._closing",
        "books that share their blocks",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "self._sums._stream, self._sums._collector.copy()",
        "self._sums._stream, self._sums._collector",
        "books that share their sums",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "            return Told(self.plan.flip_law.told(_bit(reward)))",
        "            return Told(self.plan.flip_law.tell(_bit(reward), self.source))",
        "a local bit flipped again",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "Told(self.plan.flip_law.tell(reward, self.source)) if self.tells and not told else reward",
        "Told(reward) if self.tells and not told else reward",
        "the stand-in of a reward that never came told in clear",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "started = self._sums is not None and event.round >= self.plan.first",
        "started = self._sums is not None",
        "sums that begin too early",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "(GAUSSIAN, self._sums is not None))",
        "(GAUSSIAN, False))",
        "a guarantee without the sums that were paid for",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "if self._sums.batch == 0 and old.enters_like",
        "if old.enters_like",
        "sums begun anew after a release",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "late = new is None or plan.first >= self.round",
        "late = True",
        "sums that begin in the past",
        ROUTED,
    ),
    Mutation(CHANNELS, "self._slack if exact_noise else 0.0", "0.0", "sums to come without slack", ROUTED),
    Mutation(
        CHANNELS,
        "        if not self.local:\n            return statement\n",
        "        return statement\n",
        "noise of clients called exact and secret",
        ROUTED,
    ),
    Mutation(
        "privacy/price.py",
        "return max(price.delta(epsilon) for price in self.prices)",
        "return min(price.delta(epsilon) for price in self.prices)",
        "the better of two prices",
        ("tests/privacy/test_price.py",),
    ),
    Mutation(
        "mechanisms/laws/discrete_laplace.py",
        "        while _sampler(scale).map(1) > self.epsilon:\n            scale = math.nextafter(scale, math.inf)\n",
        "",
        "a scale rounded down",
        ("tests/mechanisms/test_discrete_laplace.py",),
    ),
    Mutation(
        CONTRIBUTIONS,
        "return np.asarray(x / lengths(x if shape is None else shape.whiten(x)))",
        "return np.asarray(x / lengths(x))",
        "directions of norm 1 where the noise is not round",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "        return RandomisedResponse(self.epsilon)\n",
        "        return RandomisedResponse(1.2 * self.epsilon)\n",
        "a flip of another strength than stated",
        suite("noise-aware-ucb and exact-channels"),
    ),
    Mutation(
        CHANNELS,
        "            if event.closes:  # first",
        "            if False:  # first",
        "blocks that are never closed",
        CHOSEN,
    ),
    Mutation(
        SIMULATED,
        "keep=RandomisedResponse(settings.epsilon).keep",
        "keep=RandomisedResponse(1.2 * settings.epsilon).keep",
        "a simulated flip of another strength than stated",
        CHOSEN,
    ),
    Mutation(
        ENTERED,
        "noise = geometric(book.words, s.epsilon) - geometric(book.words, s.epsilon)",
        "noise = geometric(book.words, 1.3 * s.epsilon) - geometric(book.words, 1.3 * s.epsilon)",
        "simulated noise of blocks too small",
        CHOSEN,
    ),
    Mutation(ENTERED, "        book.blocks[block] = 0.0\n", "", "simulated blocks not emptied", CHOSEN),
    Mutation(ENTERED, "        if not closes:\n", "        if False:\n", "simulated blocks released at once", CHOSEN),
    Mutation(
        ROUTE,
        'return {"channel": CHANNELS[s["channel"]], "block": int(s["block"]), "closes": bool(s["closes"])}',
        'return {"channel": CHANNELS[s["channel"]], "block": int(s["block"]), "closes": False}',
        "what the learner says of closing ignored",
        CHOSEN,
    ),
    Mutation(
        BOOKS,
        "            book.sums[row, i] += weight * book.direction[i]",
        "            book.sums[row, i] += weight * book.event[i]",
        "simulated directions not scaled",
        CHOSEN,
    ),
    Mutation(
        PLAN,
        "            features = directed(features)\n",
        "            features = features * 1.0\n",
        "directions of production not scaled",
        CHOSEN,
    ),
    Mutation(
        SIMULATED,
        '        begins = max(int(public.plan["first"][0]), int(public.scalars["round"][0]))\n',
        '        begins = int(public.scalars["round"][0])\n',
        "sums that begin late, their rounds counted from the choice on",
        CHOSEN,
    ),
    Mutation(
        ROUTE,
        "            first=0 if self.rows is None else self.rows.first,\n",
        "            first=0,\n",
        "a plan carried with another first round",
        CHOSEN,
    ),
    Mutation(
        ENGINES,
        "                self.learner.counted(features)\n",
        "                self.learner.counted(features * reward)\n",
        "a learner that counts rewards, and routes by them",
        CHOSEN,
    ),
    Mutation(
        POLICY,
        "        entry.reward = self._missing if reward is None else self._engine.arrived(value)",
        "        entry.reward = self._engine.arrived(value)",
        "a stand-in taken for a client's bit",
        LOCAL,
    ),
    Mutation(
        POLICY,
        '        if getattr(settings, "local", False):\n',
        "        if False:\n",
        "clients' bits flipped again in simulation",
        LOCAL,
    ),
    Mutation(
        "compiled.py",
        "np.int64 if isinstance(v, int) else np.float64)",
        "np.bool_ if isinstance(v, bool) else np.int64 if isinstance(v, int) else np.float64)",
        "memory that nobody wrote between the fields of a record",
        (("tests/policies/test_records.py", "bool_fills or every_byte_of_a_state"),),
    ),
    Mutation(
        "policies/core/linear.py",
        "room = np.zeros(matrix.size + 8)",
        "room = np.empty(matrix.size + 8)",
        "memory that nobody wrote around a public matrix",
        (("tests/policies/test_records.py", "every_byte_of_a_state"),),
    ),
    Mutation(
        POLICY,
        "        self._after_count()  # where",
        "        pass  # where",
        "a release that an interruption hides",
        (("tests/policies/test_counted_once.py", "interrupted"),),
    ),
    Mutation(
        POLICY,
        "        if self._planned == self.settings.planned:  # else",
        "        if True:  # else",
        "planned twice after an interruption",
        (("tests/policies/test_counted_once.py", "interrupted"),),
    ),
    Mutation(
        POLICY,
        "            reward = self._missing if entry.reward is None else entry.reward\n"
        "            if self._engine.one_step:",
        "            after = self._open.get(number + 1, entry).reward\n"
        "            reward = (after or self._missing) if entry.reward is None else entry.reward\n"
        "            if self._engine.one_step:",
        "a missing reward that takes the next one's value, which then counts twice",
        (("tests/policies/test_counted_once.py", "told_of_and"),),
    ),
    # --- simulation -----------------------------------------------------------------------------------------------------
    Mutation(
        BOOKS,
        "book.sums[row, i] += weight * features[i]",
        "book.sums[row, i] += 2.0 * weight * features[i]",
        "an event counted twice in simulation",
        SAME,
    ),
    Mutation(
        BOOKS,
        "released[i] = sums[0, i] + noise[batch, i]",
        "released[i] = sums[0, i] + noise[max(batch - 1, 0), i]",
        "the noise of another release",
        SAME,
    ),
    Mutation(
        BOOKS,
        "total += encoder[batch, j] * sums[j, i]",
        "total += encoder[j, batch] * sums[j, i]",
        "the encoder transposed",
        SAME,
    ),
    Mutation(
        PLAN,
        "C[first:last, first:last] = strategy.matrix() / strategy.sensitivity()",
        "C[first:last, first:last] = (strategy.matrix() / strategy.sensitivity()).T",
        "the encoder of all batches transposed",
        SAME,
    ),
    Mutation(
        PLAN,
        "rows.append(noise if self.decoded else noise / epoch.strategy.sensitivity())",
        "rows.append(noise)",
        "simulated noise of another width than stated",
        suite("noise-aware-ucb and (simulated-noise or compiled-channels)"),
    ),
    Mutation(
        "policies/core/tables.py",
        "def laplace_tables(seeds: Sequence[int], shape: tuple[int, int], scale: float) -> Floats:\n"
        '    """Independent Laplace noise of this scale: (seeds, *shape)."""\n'
        "    return per_seed(source_of(seeds).laplace(np.zeros((shape[0], shape[1] * len(seeds))), scale), len(seeds))",
        "def laplace_tables(seeds: Sequence[int], shape: tuple[int, int], scale: float) -> Floats:\n"
        '    """Independent Laplace noise of this scale: (seeds, *shape)."""\n'
        "    return per_seed(source_of(seeds).laplace(np.zeros((shape[0], shape[1] * len(seeds))), scale / 3), len(seeds))",
        "simulated Laplace noise a third as wide",
        suite("adap-ucb and releases-cost"),
    ),
    Mutation(
        "policies/arms/base.py",
        "    book.sums[arm] = 0.0\n",
        "",
        "an arm's rewards in every later release too",
        suite("(adac-ucb-1 or adac-ucb-0 or adac-ucb) and releases-cost"),
    ),
    Mutation(
        "mechanisms/messages.py",
        "        return self.noise_multiplier * self.participation.change * (1 + 2.0**-50)",
        "        return self.noise_multiplier * (1 + 2.0**-50)",
        "noise of messages for half of what another person moves",
        suite("ldp-linucb and exact-messages"),
    ),
    Mutation(
        "mechanisms/messages.py",
        "        integers = whole_vector(x / length if length > 1 else x)",
        "        integers = [int(entry) for entry in np.trunc(x * 2.0**EVENT_BITS)]",
        "longer contexts in messages than are paid for",
        suite("ldp-linucb and exact-messages"),
    ),
    Mutation(
        "policies/linear/elimination.py",
        "        state.total[j] = 0.0\n",
        "",
        "a phase's rewards in every later phase too",
        suite("coreset-elimination and releases-cost"),
    ),
    # --- a policy in use ------------------------------------------------------------------------------------------------
    Mutation(
        POLICY,
        "        entry.reward = self._missing if reward is None else self._engine.arrived(value)\n",
        "        entry.reward = self._engine.arrived(value)\n        self._count_until(number + 1)\n",
        "a round counted because its reward came",
    ),
    Mutation(
        POLICY,
        "        self._ready_for(offered, candidates)\n        found = self._engine.propensities(",
        "        found = self._engine.propensities(",
        "propensities of another moment than the next decision's",
    ),
    Mutation(
        POLICY,
        "        if entry.reward is not None:\n            text =",
        "        if entry is None:\n            text =",
        "a reward that can be told twice",
    ),
    Mutation(
        FILES,
        '            self.lease.take("the policy that saved it")\n',
        "",
        "noise drawn without a claim",
    ),
    Mutation(
        FILES,
        '            self.lease.take("the process that loaded it")\n',
        "",
        "a file loaded by two",
    ),
    Mutation(
        POLICY,
        "        with self._lock:\n            if self._busy:\n",
        "        if True:\n            if self._busy:\n",
        "no lock around what changes a policy",
        (("tests/conformance/test_exact_sources.py", "thread"),),
    ),
    Mutation(
        ENGINES,
        "                self._before_noise()\n                self._closed = self.book.close()",
        "                self._closed = self.book.close()",
        "a release without a claim",
    ),
    Mutation(FILES, 'os.O_EXCL, 0o600), "wb")', 'os.O_EXCL, 0o644), "wb")', "saved files that others can read"),
    Mutation(
        FILES,
        "        except FileExistsError:\n            raise self._refusal() from None\n",
        "        except FileExistsError:\n            pass\n",
        "a lease that two can take",
    ),
    Mutation(
        "runtime/decision.py",
        " if hmac.compare_digest(token.encode(), made.encode()) else None",
        " if made else None",
        "tokens that anyone can make up",
    ),
    Mutation(
        POLICY,
        "        if entry.decision.origin.life != life:\n",
        "        if False:\n",
        "a lost decision's reward taken for the one made since",
        (("tests/policies/test_tokens.py", "lost"),),
    ),
    Mutation(
        FILES,
        "        if self._process != os.getpid():\n",
        "        if False:\n",
        "a forked process that goes on",
        (("tests/policies/test_leases.py", "fork"),),
    ),
    Mutation(
        POLICY,
        "            self._count_until(max(self.book.round, int(self.learner.done[0])))\n",
        "            pass\n",
        "a round saved half counted",
        (("tests/policies/test_counted_once.py", "saved_whole"),),
    ),
    Mutation(
        FILES,
        ' and note.get("drew") is False\n',
        "\n",
        "a lease taken over from one that drew noise",
        (("tests/policies/test_leases.py", "died or taken_over"),),
    ),
    Mutation(
        FILES,
        '            if note.get("key") != self._key:\n',
        "            if False:\n",
        "noise drawn under another's lease",
        (("tests/policies/test_leases.py", "of_two_that_hold"),),
    ),
    Mutation(
        ENGINES,
        "            if self.learner.done[1] == release.batch:\n",
        "            if True:\n",
        "a release read twice after an interruption",
        (("tests/policies/test_counted_once.py", "interrupted"),),
    ),
    Mutation(
        ENGINES,
        "        if self.learner.done[0] == number:  #",
        "        if True:  #",
        "a round counted twice by the learner after an interruption",
        (("tests/policies/test_counted_once.py", "interrupted"),),
    ),
    # --- what interrupts ------------------------------------------------------------------------------------------------
    Mutation(
        POLICY,
        "            if self._busy:\n",
        "            if False:\n",
        "a reward entered twice, by a decision and by another that interrupts it",
        INTERRUPTED,
    ),
    Mutation(
        POLICY,
        "    @one_at_a_time\n    def _save",
        "    def _save",
        "a file older than a release made while it was written",
        INTERRUPTED,
    ),
    Mutation(
        POLICY,
        "pauses = self._unsure or number in self._pauses",
        "pauses = number in self._pauses",
        "a choice that was interrupted open for ever",
        INTERRUPTED,
    ),
    Mutation(
        POLICY,
        "        self.version, self._next_end = version, end\n        self._log_releases(before)\n",
        "        self.version = version\n        self._log_releases(before)\n        self._next_end = end\n",
        "releases counted twice where a log fails",
        INTERRUPTED,
    ),
    Mutation(
        POLICY,
        "pauses = self._unsure or number in self._pauses",
        "pauses = self._unsure",
        "a choice made before what is planned by its offers",
        MOMENTS,
    ),
    Mutation(POLICY, "due != 1 or", "due < 1 or", "rounds that are due left uncounted", MOMENTS),
    Mutation(
        ENGINES,
        "        if not self.learner.done.item(0) == self.book.round == number:",
        "        if self.book.round != number:",
        "a round counted twice by the learner where it chooses, too",
        INTERRUPTED,
    ),
    Mutation(
        BOOK,
        "            check.expect(number < self._until, ",
        "            check.expect(True, ",
        "a round that closes a batch entered unseen",
        ROUTED,
    ),
    Mutation(
        CHANNELS,
        "self.round >= self.plan.first and not self.due\n        return self._sums_now.sums_until",
        "not self.due\n        return self._sums_now.sums_until",
        "flips entered into sums that have not begun",
        ROUTED,
    ),
    Mutation(
        BOOK,
        "self._not_entered(error, len(features))",
        "self._not_entered(error, 1)",
        "rounds counted that were refused together",
        ("tests/mechanisms/test_books.py",),
    ),
    Mutation(OF_PEOPLE, "            self._reached += _MOST\n", "", "sums of people that may wrap", FITS),
    Mutation(
        OF_PEOPLE, "        self._reached = reached\n", "        self._reached = 0\n", "restored sums that may wrap", FITS
    ),
    Mutation(
        WHOLE,
        "if s.reached >= LARGEST - _MOST:",
        "if s.reached > LARGEST - _MOST:",
        "a sum of exactly what noise refuses",
        ENTERING,
    ),
    # --- private contexts ------------------------------------------------------------------------------------------------
    Mutation(
        JOINT,
        "math.nextafter(math.sqrt(8), math.inf), 2.0",
        "math.nextafter(math.sqrt(8), math.inf), 1.8",
        "products of features with too little noise",
        PAIRS,
    ),
    Mutation(
        JOINT,
        "math.floor(value * GRID + 0.5) - self.unit.middle",
        "math.floor(value * GRID + 0.5)",
        "rewards beside contexts not centred",
        PAIRS,
    ),
    Mutation(
        JOINT,
        "kept = len(rows) - 1 if constant else len(rows)",
        "kept = len(rows)",
        "a public corner released with noise, in the place of what follows",
        PAIRS,
    ),
    Mutation(
        JOINT,
        "np.concatenate([e[self._rows] * e[self._columns], weight * e])",
        "np.concatenate([e[self._rows] * e[self._columns] // GRID * GRID, weight * e])",
        "products of rows rounded once more",
        PAIRS,
    ),
    Mutation(
        JOINT,
        "            x = x / norm\n        constant",
        "            pass\n        constant",
        "long contexts not clipped",
        PAIRS,
    ),
    Mutation(
        PLAN,
        "            scales=np.tile(self.scales, replicas),\n",
        "",
        "all numbers of a release with the noise of one",
        PAIRS,
    ),
    Mutation(
        "policies/noise_aware/private_contexts.py",
        "    state.scalars[0].round += 1\n",
        "    state.scalars[0].round += 1\n    state.rotated[0] = features[0]\n",
        "a context left in the scratch of a public state",
        (("tests/policies/test_private_contexts.py", "function_of_what_was_released"),),
    ),
    Mutation(
        "policies/noise_aware/private_contexts.py",
        "noise = spread * sigma * sigma * (louder * louder + 4.0 * moment)",
        "noise = spread * sigma * sigma * louder * louder",
        "the design taken to be known",
        (("tests/policies/test_private_contexts.py", "stated_one"),),
    ),
    # --- people -------------------------------------------------------------------------------------------------------
    Mutation(
        LEDGER,
        "    for n in range(count):\n        product = 0.0\n        for i in range(size):\n"
        "            product += book.work[n, i] * book.work[new, i]\n",
        "    for n in range(0):\n        product = 0.0\n        for i in range(size):\n"
        "            product += book.work[n, i] * book.work[new, i]\n",
        "a ledger without cross terms",
        CHARGED,
    ),
    Mutation(LEDGER, "total += 2 * np.int64(", "total += np.int64(", "cross terms charged once, not twice", CHARGED),
    Mutation(
        LEDGER,
        "total += 2 * np.int64(book.work[n, size]) * np.int64(abs(product))",
        "total += 2 * np.int64(book.work[n, size]) * np.int64(product)",
        "a ledger that believes opposite visits to cancel",
        CHARGED,
    ),
    Mutation(
        LEDGER, "    book.spent[person] += cost\n", "    book.spent[person] = cost\n", "what was spent forgotten", CHARGED
    ),
    Mutation(
        LEDGER, "        if cost <= allowed:\n            break\n", "        break\n", "no check of what fits", CHARGED
    ),
    Mutation(
        LEDGER,
        "    if counted >= shares.shape[0]:\n",
        "    if counted >= 2 * shares.shape[0]:\n",
        "more visits than have shares",
        CHARGED,
    ),
    Mutation(
        "people/shares.py",
        "return np.where(products == 0, 0, rounded)",
        "return np.where(np.eye(len(products)) == 0, 0, rounded)",
        "noise of one batch taken for independent of another's",
        CHARGED,
    ),
    Mutation(
        LEDGER,
        "                into[: len(part)] = part\n",
        "                into[: len(part)] = part * (name != 'spent')\n",
        "what everyone spent forgotten when loaded",
        CHARGED,
    ),
    Mutation(
        "mechanisms/messages.py",
        "return source.gaussian(whole, self.sigma)",
        "return source.gaussian(whole, self.sigma / 2)",
        "messages with half their noise",
        suite("ldp-linucb and messages-are-made-once"),
    ),
    Mutation(
        OF_PEOPLE,
        "weight = math.floor(reward * 2**REWARD_BITS) - self._centre",
        "weight = 2 * math.floor(reward * 2**REWARD_BITS) - self._centre",
        "rewards of people that move twice as far",
        CHARGED,
    ),
    Mutation(
        OF_PEOPLE,
        "        self.batch += 1\n        return total\n",
        "        return total\n",
        "every visit charged to the first batch",
        suite("noise-aware and not (aware-greedy or aware-joint or aware-ts or aware-ucb) and compiled-channels-are"),
    ),
    Mutation(
        OF_PEOPLE,
        "        total, self._total = self._held(), self._zero()\n",
        "        total = self._held()\n",
        "a batch sum of people never reset",
        CHARGED,
    ),
    Mutation(
        "policies/core/settings.py",
        '"encoder", "gram",',
        '"encoder",',
        "people charged by the plan before the choice",
        suite("noise-aware and not (aware-greedy or aware-joint or aware-ts or aware-ucb) and compiled-channels-are"),
    ),
    Mutation(
        "runtime/inputs.py",
        "hashlib.blake2b(text, key=key, digest_size=8)",
        "hashlib.blake2b(text[:2], key=key, digest_size=8)",
        "people taken for one another",
        ("tests/policies/test_people.py",),
    ),
    # --- statements -----------------------------------------------------------------------------------------------------
    Mutation(STATED, "KEPT = (\n", 'KEPT = (\n    "no-replay",\n', "no-replay called enforced"),
    Mutation(
        STATED,
        'own = ("exact-noise", "secret-noise") if exact_noise else ()',
        'own = ("exact-noise", "secret-noise")',
        "simulated noise called exact and secret",
    ),
    Mutation(STATED, "simulated=not exact_noise,", "simulated=False,", "simulated noise that says it protects"),
    # --- people in logs -------------------------------------------------------------------------------------------------
    Mutation(
        "logs/judge.py",
        "same_rewards=replayed or by_person",
        "same_rewards=replayed",
        "a person in both halves of a log pays once",
        ((PUBLISHED, "published_estimate_protects"),),
    ),
    Mutation(
        "logs/release.py",
        "    largest, broadest = float(most.max()), float(part.max())",
        "    largest, broadest = float(shares.max()), float(part.max())",
        "one reward's share taken for a person's",
        ((PUBLISHED, "all_rewards_of_a_person or without_noise"),),
    ),
    Mutation(
        "logs/release.py",
        "    length = math.sqrt(1 + 2 * SPREAD_SHARE**2)",
        "    length = math.sqrt(1 + SPREAD_SHARE**2)",
        "room for two sums of a person where three are released",
        ((PUBLISHED, "all_rewards_of_a_person or without_noise"),),
    ),
    Mutation(
        "logs/judge.py",
        "(release_by_person if by_person else release)(",
        "release(",
        "an estimate that protects a reward published with a policy that protects people",
        ((PUBLISHED, "published_estimate_protects"),),
    ),
    Mutation(
        "logs/judge.py",
        "if released and seeds > 1:",
        "if released and seeds > len(each):",
        "several runs learn from the same rewards, and a published estimate states the price of one",
        ((RUNS, "published_estimate"),),
    ),
    Mutation(
        "logs/judge.py",
        "seeds = 1 if released else DEFAULT_SEEDS",
        "seeds = DEFAULT_SEEDS",
        "a published estimate asks for several runs unasked",
        ((RUNS, "published_estimate"),),
    ),
    Mutation(
        "logs/judge.py",
        "(one.value - one.low) ** 2 for one in found]) + luck**2)",
        "(one.value - one.low) ** 2 for one in found]))",
        "an interval leaves out the policy's own draws",
        ((RUNS, "how_far or afresh"),),
    ),
    Mutation(
        "logs/replay.py",
        "float(log.rewards[row]), user=users[row])",
        "float(log.rewards[row]), user=None if users[row] is None else row)",
        "every row of a log another person",
        ((PUBLISHED, "are_told"),),
    ),
    Mutation(
        "logs/release.py",
        "    variance = max(variance + slack, 0.0)\n",
        "    variance = max(variance, 0.0)\n",
        "no allowance for the noise of the sum that gives the interval",
        (("tests/evaluate/test_evaluation.py", "published_spread"),),
    ),
    Mutation(
        "logs/estimators.py",
        '    if estimator in ("replay", "snips"):\n        carried',
        '    if estimator == "replay":\n        carried',
        "snips near 1 is not of few",
        (("tests/evaluate/test_few_rewards.py", "without_a_reward_are_few"),),
    ),
    Mutation(
        "logs/intervals.py",
        "float(weight @ weight) if self.units.by_person else self.squares",
        "self.squares",
        "Wilson's interval takes a person's rows for independent",
        (("tests/evaluate/test_estimators.py", "wilsons"),),
    ),
    Mutation(
        "logs/intervals.py",
        " * (n - 1) / max(n - lost, 1)",
        "",
        "coefficients that were fitted are not counted",
        (("tests/evaluate/test_estimators.py", "sandwich"),),
    ),
    Mutation(
        "logs/intervals.py",
        "return min(self.effective, (y + m) ** 2 / (v + m * m)) if m > 0 else self.effective",
        "return self.effective",
        "a rare action that was never rewarded is surely worth nothing",
        (("tests/evaluate/test_few_rewards.py", "hardly_logged"),),
    ),
    Mutation(
        "logs/replay.py",
        "1.0 / log.count",
        "1.0 / part.counts.max()",
        "replay is even within a part of the log only",
        (("tests/evaluate/test_streams.py", "offer_less"),),
    ),
    Mutation(
        "logs/formats.py",
        '_place(given.get("_label_Action"))',
        'given.get("_label_Action")',
        "a place counted from 1 taken for one from 0",
        (("tests/data/test_private_rewards.py", "only_the_label"),),
    ),
    Mutation(
        "logs/columns.py",
        '        if role != "reward":\n            found.expect_private',
        '        if role == "user":\n            found.expect_private',
        "a reward is public as something else",
        (("tests/data/test_private_rewards.py", "no_other_role or no_single"),),
    ),
    # --- the service ----------------------------------------------------------------------------------------------------
    Mutation(
        "service/core.py",
        '            if room.state != "moved":\n                self._show(room, released)\n',
        "",
        "releases shown that the journal does not know",
        ((SERVED, "noted_before and sqlite"),),
    ),
    Mutation(
        "service/closing.py",
        'text = f"{before}:{bandit.uid}:',
        'text = f":{bandit.uid}:',
        "digests that are no chain",
        ((SERVED, "digest and sqlite"),),
    ),
    Mutation(
        "service/closing.py",
        "        reward = rewards.get(visit.round, bandit.missing)\n        book.add",
        "        reward = rewards.get(visit.round, 1.0)\n        book.add",
        "missing rewards of the holdback counted as 1",
        ((SERVED, "missing_rewards and sqlite"),),
    ),
    Mutation(
        "service/holdback.py",
        "UserVisitsUnit(1)",
        "UserVisitsUnit(5)",
        "a person of the holdback told of five times",
        ((SERVED, "(told_of_once or costs_no_more) and sqlite"),),
    ),
    Mutation(
        "service/closing.py",
        '                **({"sealed": schema.FOR_GOOD} if over else {}),\n',
        "",
        "rewards kept that no batch will use",
        ((SERVED, "no_batch_will_use and sqlite"),),
    ),
    Mutation(
        "service/deciding.py",
        "np.clip(mixture, LEAST_LIKELY, 1.0)",
        "np.clip(mixture, 0.02, 1.0)",
        "propensities with a floor",
        ((SERVED, "propensities_are and sqlite"),),
    ),
    Mutation(
        "service/estimating.py",
        "    told_before.add(*told.to_list())",
        "    told_before.add(*told.to_list())\n    told_before.add(*told.to_list())",
        "intervals of told rewards too narrow",
        ((SERVED, "told_reward_once and sqlite"),),
    ),
    Mutation(
        "service/deciding.py",
        "return np.asarray(drawn, dtype=np.int64)",
        "return np.asarray(drawn * 0, dtype=np.int64)",
        "a holdback that always shows the first",
        ((SERVED, "evenly and sqlite"),),
    ),
    Mutation(
        "service/deciding.py",
        "bandit.keys.people, bandit",
        "bytes(32), bandit",
        "people's names without a key",
        ((SERVED, "other_names and sqlite"),),
    ),
    Mutation(
        "service/arriving.py",
        "        elif arrival.round < sealed[arrival.stream]:\n",
        "        elif False:\n",
        "rewards taken after their batch was sealed",
        ((SERVED, "sqlite"),),
    ),
    Mutation(
        "service/grouping.py",
        "        elif decisions := self._decisions.taken(self._together):\n",
        "        elif self._rewards and self._settle(self._rewards.taken(self._together), self._reward):\n"
        "            pass\n"
        "        elif decisions := self._decisions.taken(self._together):\n",
        "decisions that wait for rewards",
        (("tests/service/test_grouping.py", "depend_on_rewards"),),
    ),
    Mutation(
        "service/routes.py",
        'text = f"{visit.key_id}\\n{given}',
        'text = f"{given}',
        "an idempotency key that crosses callers",
        (("tests/service/test_audit_leaks.py", "idempotency_key"),),
    ),
    Mutation(
        "service/door.py",
        '"The service made a mistake; it is in its log."',
        'f"The service made a mistake: {error}"',
        "answers that hold the text of an exception",
        (("tests/service/test_security.py", "text_of_an_exception"),),
    ),
    Mutation(
        "service/closing.py",
        "        connection.execute(schema.releases.insert()",
        "        connection.execute(schema.rewards.delete().where(schema.rewards.c.bandit == bandit.id))\n"
        "        connection.execute(schema.releases.insert()",
        "rewards deleted while decisions wait",
        ((ERASED, "same_rows and sqlite"),),
    ),
    Mutation(
        "service/core.py",
        "            wait()\n            with self.database.writing()",
        "            with self.database.writing()",
        "rewards deleted outside their slots",
        ((ERASED, "wait_for_a_slot and sqlite"),),
    ),
    Mutation(
        "service/erasure.py",
        "    yield Piece(schema.rewards, bandit, ())\n",
        "",
        "a refusal to delete that the log notes only where rewards came",
        ((ERASED, "refuses and sqlite"),),
    ),
    Mutation(
        "service/moving.py",
        "    _forget(database, row)\n",
        "",
        "rewards that stay for good where a bandit moved away",
        ((ERASED, "left and sqlite"),),
    ),
    Mutation(
        "logs/log_table.py",
        "hashes(spelled(block[columns.user]))",
        "hashes(block[columns.user])",
        "a user of a log who is two people by spelling",
        ((PUBLISHED, "spellings"),),
    ),
    Mutation(
        "service/erasure.py",
        "row.sealed if is_over else row.closed_round",
        "row.sealed",
        "rewards deleted before their batch is closed",
        ((ERASED, "dies_between and sqlite"),),
    ),
    Mutation(
        "service/database.py",
        '    "secure_delete = ON",',
        "   ",
        "deleted rewards that are not overwritten",
        ((ERASED, "no_byte"),),
    ),
    Mutation(
        "service/room.py",
        "min(batch.due_at, self._clock() + self.bandit.spec.reward_window)",
        "batch.due_at",
        "batches held open by a clock that was ahead",
        ((SERVED, "delays_a_batch and sqlite"),),
    ),
    Mutation(
        "service/keeping.py",
        '    if state != "behind" and not forgotten:\n',
        '    if state != "behind":\n',
        "a copy restored twice that goes on",
        (("tests/service/test_keeping.py", "restored_twice and sqlite"),),
    ),
    # --- what interrupts, and what is left over of it --------------------------------------------------------------------
    Mutation(
        CONTRIBUTIONS,
        "            whole.take()  # nothing, but",
        "            # nothing, but",
        "what is left of one person enters for another",
        (("tests/mechanisms/test_user_unit.py", "interruption"),),
    ),
    Mutation(
        BOOK,
        "        if error.by is not None and error.by is self._mark:\n",
        "        if True:\n",
        "a refusal of another sum taken for its own",
        (("tests/mechanisms/test_books.py", "own_sum"),),
    ),
    Mutation(
        PLAN,
        "math.fsum(slacks) if self.unit.needs_user else max(slacks, default=0.0)",
        "max(slacks, default=0.0)",
        "a person charged with the draws of one epoch",
        (("tests/mechanisms/test_books.py", "slack_of_every"),),
    ),
    Mutation(
        WHOLE,
        "raise NotEnteredError(text, self.mark)",
        "raise NotEnteredError(text, self)",
        "a refusal that leads to the private sum",
        (("tests/mechanisms/test_books.py", "nothing_private"),),
    ),
    Mutation(
        BOOK,
        "            self._enter(event)\n        except NotEnteredError as error:\n",
        "            self._enter(event)\n        except check.InputError as error:\n"
        "            self.round -= 1\n            error.by = None\n",
        "any error of what interrupts taken for a refusal",
        (("tests/policies/test_counted_once.py", "interruption_inside and items"),),
    ),
    # --- registers and catalogues -----------------------------------------------------------------------------------------
    Mutation(
        LINES,
        'builder.icmp_signed("<", j, i))\n',
        'builder.icmp_signed(">", j, i))\n',
        "the last among equals",
        IN_LINES,
    ),
    Mutation(
        LINES,
        'higher = builder.fcmp_ordered(">", new, old)',
        'higher = builder.fcmp_ordered(">=", new, old)',
        "a later equal in place of the first",
        IN_LINES,
    ),
    Mutation(
        LINES,
        "                mask, start = code.within(size), code.number(0)\n",
        "                mask, start = code.within(code.shape(4)[0]), code.number(0)\n",
        "features read beyond their end",
        IN_LINES,
    ),
    Mutation(
        LINES,
        "builder.select(mean_stays, more, less)",
        "builder.select(mean_stays, less, less)",
        "an event foreseen that moves the mean",
        IN_LINES,
    ),
    Mutation(
        LINES,
        "        grown = builder.fadd(one, code.times(strength, square))\n",
        "        grown = builder.fadd(one, square)\n",
        "an event whose strength is forgotten",
        IN_LINES,
    ),
    Mutation(
        STOCK,
        "lost = 0.5000001 * step * (math.sqrt(d) if bold else 1.0)",
        "lost = 0.5000001 * step",
        "steps in several coordinates taken for one",
        (("tests/policies/test_catalogues.py", "take_from"),),
    ),
    Mutation(
        STOCK,
        "constant = 4.0 * HALF_ULP * (d + 6.0) * longest + (",
        "constant = (",
        "squares of single precision taken for exact",
        (("tests/policies/test_catalogues.py", "takes_from"),),
    ),
    Mutation(
        STOCK,
        "    lost = 0.5000001 * step * (math.sqrt(d) if bold else 1.0)\n",
        "    lost = 0.1 * step * (math.sqrt(d) if bold else 1.0)\n",
        "coarse steps taken for finer",
        ("tests/policies/test_catalogues.py",),
    ),
    Mutation(
        STOCK,
        "(root.shape[0] + 8.0) * 2.0**-51",
        "0.0",
        "theta taken for exact",
        (("tests/policies/test_catalogues.py", "loses"),),
    ),
    Mutation(
        "code_cache.py",
        " or state is object",
        "",
        "compiled code of arrays that outlives an edit",
        ("tests/policies/test_code_cache.py",),
    ),
]
