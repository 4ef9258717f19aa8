// Algorithm 1 (Thompson sampling on running sums) and LinUCB on the synthetic world of fixed arms, with d and K known to the
// compiler: what the engine is measured against. The same random streams, so that regret is the same.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {
constexpr int D = DIMENSION, K = CANDIDATES;

const uint64_t* limits;
const double *widths, *heights;

struct Stream {  // xoshiro256++
    uint64_t a, b, c, d;
    explicit Stream(const uint64_t* words) : a(words[0]), b(words[1]), c(words[2]), d(words[3]) {}
    uint64_t bits() {
        const uint64_t total = a + d, result = ((total << 23) | (total >> 41)) + a, shifted = b << 17;
        c ^= a;
        d ^= b;
        b ^= c;
        a ^= d;
        c ^= shifted;
        d = (d << 45) | (d >> 19);
        return result;
    }
    double uniform() { return (bits() >> 11) * (1.0 / 9007199254740992.0); }
    int64_t below(int64_t count) { return int64_t(uniform() * count); }
    double normal() {  // a ziggurat of 256 layers
        constexpr double edge = 3.6541528853610088;
        while (true) {
            const uint64_t word = bits();
            const int layer = word & 255;
            const uint64_t size = (word >> 9) & 0x000FFFFFFFFFFFFF;
            double x = size * widths[layer];
            if (word & 256) x = -x;
            if (size < limits[layer]) return x;
            if (layer == 0) {
                while (true) {
                    const double far = -std::log1p(-uniform()) / edge, height = -std::log1p(-uniform());
                    if (2 * height > far * far) return x > 0 ? edge + far : -edge - far;
                }
            }
            if ((heights[layer - 1] - heights[layer]) * uniform() + heights[layer] < std::exp(-0.5 * x * x)) return x;
        }
    }
};

template <int d> struct Model {
    alignas(64) double S[d][d] = {}, w[d] = {}, phi[d] = {};
    explicit Model(double ridge) {
        for (int i = 0; i < d; ++i) S[i][i] = 1 / std::sqrt(ridge);
    }
    void rotate(const double* __restrict x, double* __restrict out) const {
        alignas(64) double sum[d] = {};
        for (int i = 0; i < d; ++i) {
            const double entry = x[i];
            for (int j = 0; j < d; ++j) sum[j] += S[i][j] * entry;
        }
        for (int j = 0; j < d; ++j) out[j] = sum[j];
    }
    double absorb(const double* x) {
        rotate(x, phi);
        double grown = 1, along = 0;
        for (int j = 0; j < d; ++j) grown += phi[j] * phi[j], along += phi[j] * w[j];
        const double gain = 1 / (grown + std::sqrt(grown));
        for (int i = 0; i < d; ++i) {
            double pull = 0;
            for (int j = 0; j < d; ++j) pull += S[i][j] * phi[j];
            pull *= gain;
            for (int j = 0; j < d; ++j) S[i][j] -= pull * phi[j];
        }
        for (int j = 0; j < d; ++j) w[j] -= gain * along * phi[j];
        return 1 / std::sqrt(grown);
    }
};

template <int d, int k> struct World {
    const double *arms, *means;
    int64_t *order, count;
    Stream rounds, rewards;
    int64_t places[k];
    double best = 0, u = 0;
    World(const double* arms, const double* means, int64_t* order, int64_t count, const uint64_t* words)
        : arms(arms), means(means), order(order), count(count), rounds(words), rewards(words + 16) {}
    const double* features(int a) const { return arms + places[a] * d; }
    void draw() {
        best = 0;
        for (int a = 0; a < k; ++a) {
            std::swap(order[a], order[a + rounds.below(count - a)]);
            places[a] = order[a];
            best = std::max(best, means[places[a]]);
        }
        u = rewards.uniform();
    }
};
}  // namespace

extern "C" void use_tables(const uint64_t* some_limits, const double* some_widths, const double* some_heights) {
    limits = some_limits, widths = some_widths, heights = some_heights;
}

extern "C" double thompson(const double* arms, const double* means, int64_t* order, int64_t count, int64_t rounds,
                           const int64_t* ends, int64_t batches, const double* noise, double ridge, double width,
                           double centre, const uint64_t* own, const uint64_t* shared) {
    World<D, K> world(arms, means, order, count, shared);
    Model<D> model(ridge);
    Stream stream(own);
    alignas(64) double z[D], theta[D], total[D] = {};
    double regret = 0;
    int64_t batch = 0;
    for (int64_t t = 0; t < rounds; ++t) {
        world.draw();
        for (int j = 0; j < D; ++j) z[j] = model.w[j] + width * stream.normal();
        for (int i = 0; i < D; ++i) {
            double sum = 0;
            for (int j = 0; j < D; ++j) sum += model.S[i][j] * z[j];
            theta[i] = sum;
        }
        int chosen = 0;
        double top = -1e300;
        for (int a = 0; a < K; ++a) {
            const double* x = world.features(a);
            double score = 0;
            for (int j = 0; j < D; ++j) score += x[j] * theta[j];
            if (score > top) top = score, chosen = a;
        }
        const double mean = means[world.places[chosen]], *x = world.features(chosen);
        regret += world.best - mean;
        model.absorb(x);
        const double weight = (world.u < mean ? 1.0 : 0.0) - centre;
        for (int j = 0; j < D; ++j) total[j] += weight * x[j];
        if (batch < batches && t + 1 == ends[batch]) {
            double sum[D];
            for (int j = 0; j < D; ++j) sum[j] = total[j] + noise[batch * D + j];
            model.rotate(sum, model.w);
            ++batch;
        }
    }
    return regret;
}

extern "C" double optimistic(const double* arms, const double* means, int64_t* order, int64_t count, int64_t rounds,
                             double ridge, double width, double centre, const uint64_t* shared) {
    World<D, K> world(arms, means, order, count, shared);
    Model<D> model(ridge);
    alignas(64) double phi[D];
    double regret = 0;
    for (int64_t t = 0; t < rounds; ++t) {
        world.draw();
        int chosen = 0;
        double top = 0;
        for (int a = 0; a < K; ++a) {
            model.rotate(world.features(a), phi);
            double along = 0, square = 0;
            for (int j = 0; j < D; ++j) along += phi[j] * model.w[j], square += phi[j] * phi[j];
            const double score = along + width * std::sqrt(square);
            if (a == 0 || score > top + 1e-12 * (1 + std::fabs(top))) top = score, chosen = a;
        }
        const double mean = means[world.places[chosen]];
        regret += world.best - mean;
        const double shrink = model.absorb(world.features(chosen));
        const double weight = ((world.u < mean ? 1.0 : 0.0) - centre) * shrink;
        for (int j = 0; j < D; ++j) model.w[j] += weight * model.phi[j];
    }
    return regret;
}
