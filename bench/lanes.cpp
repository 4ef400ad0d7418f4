// The lane kernel of DQPRM in plain C++, to see how far hocket's is from it: the same tables, the same algorithm, the
// same random numbers and, without fused multiplications (-ffp-contract=off), the same bits.
//
//   g++ -O3 -march=native -fno-trapping-math -ffp-contract=off -shared -fPIC -o lanes.so lanes.cpp
//
// Sixteen lanes go in lock step: what needs no table is a loop over lanes, which the compiler turns into vector
// instructions; what a lane learns is a vector over the U states of its machine.

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

constexpr int kLanes = 16, kActions = 5, kOutcomes = 3;

struct Tables {  // of one agent
    const uint16_t* next_cell;   // [D, S, A * K]
    const uint32_t* dynamics;    // [U]
    const uint16_t* kind;        // [S]
    const uint32_t* limit;       // [H, J - 1, U]
    const uint32_t* next_state;  // [H, J, U]
    const float* reward;         // [H, J, U]
    const uint8_t* is_final;     // [U]
    uint32_t distinct, cells, outcomes, start, initial;  // outcomes: J
};

struct Rule {
    float rate, rate_decay, beta, beta_growth, discount;
    int64_t max_episode_steps;
    uint32_t slip_limit;
};

inline uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

inline float weight(float value, float best, float beta) {
    constexpr double ln2 = 0.693147180559945309417232121458;
    constexpr float c1 = ln2, c2 = ln2 * ln2 / 2, c3 = ln2 * ln2 * ln2 / 6, c4 = ln2 * ln2 * ln2 * ln2 / 24,
                    c5 = ln2 * ln2 * ln2 * ln2 * ln2 / 120, c6 = ln2 * ln2 * ln2 * ln2 * ln2 * ln2 / 720;
    float scaled = std::max(-126.0f, beta * (value - best) * 1.44269504088896340736f);
    int32_t whole = static_cast<int32_t>(scaled - 0.5f);
    float f = scaled - static_cast<float>(whole);
    float power = 1.0f + f * (c1 + f * (c2 + f * (c3 + f * (c4 + f * (c5 + f * c6)))));
    int32_t bits = (whole + 127) << 23;
    float scale;
    std::memcpy(&scale, &bits, sizeof scale);
    return power * scale;
}

template <int U>
struct Row {  // of numbers for all states of a machine, in one register
    typedef float Floats __attribute__((vector_size(4 * U)));
    typedef uint32_t Words __attribute__((vector_size(4 * U)));

    template <typename Vector, typename Number>
    static Vector load(const Number* from) {
        Vector found;
        std::memcpy(&found, from, sizeof found);
        return found;
    }
    static Floats largest(Floats one, Floats other) { return other > one ? other : one; }
};

template <int U>
inline typename Row<U>::Floats goals(const float* q, size_t end, uint32_t ready, const Tables& table, float discount) {
    using Floats = typename Row<U>::Floats;
    using Words = typename Row<U>::Words;
    const float* row = q + end * kActions * U;
    auto value = [&](int action) { return Row<U>::template load<Floats>(row + action * U); };
    const Floats best = Row<U>::largest(Row<U>::largest(Row<U>::largest(value(0), value(1)),
                                                        Row<U>::largest(value(2), value(3))), value(4));
    const size_t kind = table.kind[end];
    const uint32_t* next_state = table.next_state + kind * table.outcomes * U;
    const float* paid = table.reward + kind * table.outcomes * U;
    const uint32_t* limit = table.limit + kind * (table.outcomes - 1) * U;
    Words target = Row<U>::template load<Words>(next_state);
    Floats reward = Row<U>::template load<Floats>(paid);
    for (int later = 1; later < table.outcomes; ++later) {
        const auto passed = ready >= Row<U>::template load<Words>(limit + (later - 1) * U);
        target = passed ? Row<U>::template load<Words>(next_state + later * U) : target;
        reward = passed ? Row<U>::template load<Floats>(paid + later * U) : reward;
    }
    return reward + discount * __builtin_shuffle(best, target);
}

template <int U>
void train(float* all, uint32_t* cells, uint32_t* states, int64_t* clocks, const uint64_t* keys, const Tables* tables,
           const int32_t* agents, const Rule& rule, int64_t begin, int64_t steps) {
    const size_t size = static_cast<size_t>(tables[0].cells) * kActions * U;
    for (int64_t time = begin; time < begin + steps; ++time) {
        const float rate = rule.rate / (1.0f + rule.rate_decay * static_cast<float>(time));
        const float beta = rule.beta * (1.0f + rule.beta_growth * static_cast<float>(time));
        alignas(64) float value[kActions][kLanes];
        alignas(64) uint32_t action[kLanes], outcome[kLanes], ready[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {
            const float* row = all + lane * size + static_cast<size_t>(cells[lane]) * kActions * U + states[lane];
            asm("");  // sixteen loads are faster than what gathers them
            for (int option = 0; option < kActions; ++option) value[option][lane] = row[option * U];
        }
        const uint64_t golden = 0x9E3779B97F4A7C15ull, count = static_cast<uint64_t>(time) * 2;
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint64_t first = mix(keys[lane] + (count + 1) * golden), second = mix(keys[lane] + (count + 2) * golden);
            const float best = std::max(std::max(std::max(value[0][lane], value[1][lane]),
                                                 std::max(value[2][lane], value[3][lane])), value[4][lane]);
            const float w0 = weight(value[0][lane], best, beta), w1 = w0 + weight(value[1][lane], best, beta),
                        w2 = w1 + weight(value[2][lane], best, beta), w3 = w2 + weight(value[3][lane], best, beta),
                        w4 = w3 + weight(value[4][lane], best, beta);
            const float mark = static_cast<float>(static_cast<int32_t>(first >> 40)) * 0x1p-24f * w4;
            action[lane] = (mark >= w0) + (mark >= w1) + (mark >= w2) + (mark >= w3);
            const uint32_t slip = static_cast<uint32_t>(second >> 33);
            outcome[lane] = (slip < rule.slip_limit) + (slip < rule.slip_limit / 2);
            ready[lane] = static_cast<uint32_t>(second & 0x7FFFFFFF);
        }
        for (int lane = 0; lane < kLanes; ++lane) {
            const Tables& table = tables[agents[lane]];
            float* q = all + lane * size;
            const size_t cell = cells[lane], state = states[lane], move = action[lane] * kOutcomes + outcome[lane];
            auto arrive = [&](size_t own) {
                return table.next_cell[(own * table.cells + cell) * kActions * kOutcomes + move];
            };
            const size_t end = arrive(0);
            auto goal = goals<U>(q, end, ready[lane], table, rule.discount);
            for (uint32_t other = 1; other < table.distinct; ++other)
                if (const size_t own_end = arrive(other); own_end != end) {
                    const auto mine = Row<U>::template load<typename Row<U>::Words>(table.dynamics) == other;
                    goal = mine ? goals<U>(q, own_end, ready[lane], table, rule.discount) : goal;
                }
            float* here = q + (cell * kActions + action[lane]) * U;
            const auto old = Row<U>::template load<typename Row<U>::Floats>(here);
            const auto fresh = old + rate * (goal - old);
            std::memcpy(here, &fresh, sizeof fresh);
            const size_t next = arrive(table.dynamics[state]);
            const size_t kind = table.kind[next];
            size_t later = 0;
            for (uint32_t number = 0; number + 1 < table.outcomes; ++number) {
                asm("");  // not worth a vector
                later += ready[lane] >= table.limit[(kind * (table.outcomes - 1) + number) * U + state];
            }
            cells[lane] = next;
            states[lane] = table.next_state[(kind * table.outcomes + later) * U + state];
            if (table.is_final[states[lane]] || ++clocks[lane] >= rule.max_episode_steps)
                cells[lane] = table.start, states[lane] = table.initial, clocks[lane] = 0;
        }
    }
}

}  // namespace

extern "C" void train_lanes(int states, float* q, uint32_t* cells, uint32_t* machine, int64_t* clocks,
                            const uint64_t* keys, const Tables* tables, const int32_t* agents, const Rule* rule,
                            int64_t begin, int64_t steps) {
    auto chosen = states == 4 ? train<4> : train<8>;
    chosen(q, cells, machine, clocks, keys, tables, agents, *rule, begin, steps);
}
