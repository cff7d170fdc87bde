#pragma once

#include <cmath>
#include <cstdint>

#include "executor/functors/elements.h"
#include "executor/functors/head_rows.h"
#include "executor/functors/random.h"

// Attention by an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022): no matrix of
// scores is ever in memory, one logarithm of a sum is kept a query. Query i sees keys up to i where
// causal, and of those the last `window` where that is not 0. A cap bounds scores by a tanh, before
// a bias is added; a sink takes part in the softmax of a head and has no value. What dropout leaves
// out counts in the softmax, and has no value either.

namespace cairn {

inline constexpr int kMaxHeadDim = 512;

// How rows of q, k, v, and of the output's gradient, are read.
enum class AttentionRows {
  kDenseReals,  // of the type that is computed in
  kDenseBf16,
  kStrided,
};

// q and out are [batch, tokens, heads, head_dim], k and v [batch, keys, kv_heads, head_dim].
struct AttentionTensors {
  Elements q = {};
  Elements k = {};
  Elements v = {};
  Elements logsumexp = {};  // [batch, heads, logsumexp_rows], of which the first are the tokens'
  std::int64_t logsumexp_rows = 0;
  std::int64_t tokens = 0;
  std::int64_t keys = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  bool is_causal = false;
  std::int64_t window = 0;
  double scale = 1.0;
  double cap = 0.0;     // none where 0
  Elements bias = {};   // [batch, heads, tokens, keys]
  Elements sinks = {};  // [heads]
  bool has_bias = false;
  bool has_sinks = false;
  double probability = 0.0;  // of dropping a score
  Elements random = {};      // int64: the seed
  AttentionRows rows = AttentionRows::kStrided;

  CAIRN_HOST_DEVICE std::int64_t first_key(std::int64_t query) const {
    if (!is_causal || window == 0 || query < window) return 0;
    return query - window + 1;
  }
  CAIRN_HOST_DEVICE std::int64_t end_key(std::int64_t query) const {
    return is_causal && query + 1 < keys ? query + 1 : keys;
  }
  // Rows of what is written, in row-major order.
  CAIRN_HOST_DEVICE std::int64_t query_row(std::int64_t batch, std::int64_t query,
                                           std::int64_t head) const {
    return (batch * tokens + query) * heads + head;
  }
  CAIRN_HOST_DEVICE std::int64_t key_row(std::int64_t batch, std::int64_t key,
                                         std::int64_t kv_head) const {
    return (batch * keys + key) * kv_heads + kv_head;
  }
  CAIRN_HOST_DEVICE std::int64_t logsumexp_at(std::int64_t batch, std::int64_t query,
                                              std::int64_t head) const {
    return (batch * heads + head) * logsumexp_rows + query;
  }
  CAIRN_HOST_DEVICE std::int64_t kv_head_of(std::int64_t head) const {
    return head / (heads / kv_heads);
  }
  CAIRN_HOST_DEVICE std::int64_t pair_at(std::int64_t batch, std::int64_t query, std::int64_t head,
                                         std::int64_t key) const {
    return ((batch * heads + head) * tokens + query) * keys + key;
  }
  // Of the product of a query and a key, before a bias.
  template <class Real>
  CAIRN_HOST_DEVICE Real bounded_score(Real product) const {
    const Real scaled = product * static_cast<Real>(scale);
    const Real c = static_cast<Real>(cap);
    return cap == 0.0 ? scaled : c * std::tanh(scaled / c);
  }
  template <class Real>
  CAIRN_HOST_DEVICE Real added_bias(std::int64_t pair) const {
    return has_bias ? bias.get<Real>(pair) : Real(0);
  }
  // What dropout makes of a probability: a factor.
  template <class Real>
  CAIRN_HOST_DEVICE Real kept(std::int64_t pair) const {
    if (probability == 0.0) return Real(1);
    const auto seed = static_cast<std::uint64_t>(random.integer(0));
    const bool stays = random_uniform(seed, static_cast<std::uint64_t>(pair)) >= probability;
    return stays ? static_cast<Real>(1.0 / (1.0 - probability)) : Real(0);
  }
};

// f.at_index<Rows>(i), with what the rows are.
template <class Real, class Functor>
CAIRN_HOST_DEVICE void run_on_rows(const Functor& f, AttentionRows rows, std::int64_t i) {
  switch (rows) {
    case AttentionRows::kDenseReals:
      return f.template at_index<DenseRows<Real>>(i);
    case AttentionRows::kDenseBf16:
      return f.template at_index<DenseRows<std::uint16_t>>(i);
    case AttentionRows::kStrided:
      return f.template at_index<StridedRows>(i);
  }
}

// One query of one head for each index of [batch, heads, tokens].
template <class Real>
struct AttentionForward {
  AttentionTensors at = {};
  Elements out = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const { run_on_rows<Real>(*this, at.rows, i); }

  template <class Rows>
  CAIRN_HOST_DEVICE void at_index(std::int64_t i) const {
    const std::int64_t query = i % at.tokens;
    const std::int64_t head = i / at.tokens % at.heads;
    const std::int64_t batch = i / at.tokens / at.heads;
    const std::int64_t kv_head = at.kv_head_of(head);
    const auto q = Rows::of(at.q, batch, head)[query];
    const Rows k = Rows::of(at.k, batch, kv_head);
    const Rows v = Rows::of(at.v, batch, kv_head);
    Real sums[kMaxHeadDim];
    for (std::int64_t d = 0; d < at.value_dim; ++d) sums[d] = Real(0);
    bool is_first = !at.has_sinks;
    Real largest = is_first ? Real(0) : at.sinks.get<Real>(head);
    Real total = is_first ? Real(0) : Real(1);
    for (std::int64_t key = at.first_key(query); key < at.end_key(query); ++key) {
      const std::int64_t pair = at.pair_at(batch, query, head, key);
      const Real score =
          at.bounded_score(dot<Real>(q, k[key], at.head_dim)) + at.added_bias<Real>(pair);
      if (is_first || score > largest) {
        const Real shrink = is_first ? Real(0) : std::exp(largest - score);
        total *= shrink;
        for (std::int64_t d = 0; d < at.value_dim; ++d) sums[d] *= shrink;
        largest = score;
        is_first = false;
      }
      const Real weight = std::exp(score - largest);
      total += weight;
      add_scaled(sums, weight * at.kept<Real>(pair), v[key], at.value_dim);
    }
    const std::int64_t begin = at.query_row(batch, query, head) * at.value_dim;
    for (std::int64_t d = 0; d < at.value_dim; ++d) out.set<Real>(begin + d, sums[d] / total);
    at.logsumexp.set<Real>(at.logsumexp_at(batch, query, head), largest + std::log(total));
  }
};

struct AttentionGradients {
  AttentionTensors at = {};
  Elements out = {};       // the forward's
  Elements gradient = {};  // of it
  Elements dots = {};      // [batch, heads, tokens]: the sum of out * gradient of a query
};

template <class Real>
struct AttentionDots {
  AttentionGradients of = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t query = i % of.at.tokens;
    const std::int64_t head = i / of.at.tokens % of.at.heads;
    const std::int64_t batch = i / of.at.tokens / of.at.heads;
    const StridedRow out = StridedRows::of(of.out, batch, head)[query];
    const StridedRow gradient = StridedRows::of(of.gradient, batch, head)[query];
    of.dots.set<Real>(i, dot<Real>(out, gradient, of.at.value_dim));
  }
};

// The rows of one head of queries, and of the keys and values that it reads.
template <class Rows>
struct AttentionHead {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  Rows q = {};
  Rows k = {};
  Rows v = {};
  Rows gradient = {};
};

template <class Rows>
CAIRN_HOST_DEVICE AttentionHead<Rows> attention_head(const AttentionGradients& of,
                                                     std::int64_t batch, std::int64_t head) {
  const std::int64_t kv_head = of.at.kv_head_of(head);
  return {batch,
          head,
          Rows::of(of.at.q, batch, head),
          Rows::of(of.at.k, batch, kv_head),
          Rows::of(of.at.v, batch, kv_head),
          Rows::of(of.gradient, batch, head)};
}

// One pair of query and key.
template <class Real>
struct AttentionPair {
  Real probability = Real(0);  // as dropout left it
  Real gradient = Real(0);     // of the score with its bias
  Real slope = Real(1);        // of the score by what the cap bounds
};

template <class Real, class Rows>
CAIRN_HOST_DEVICE AttentionPair<Real> attention_pair(const AttentionGradients& of,
                                                     const AttentionHead<Rows>& head,
                                                     std::int64_t query, std::int64_t key) {
  const AttentionTensors& at = of.at;
  const std::int64_t pair = at.pair_at(head.batch, query, head.head, key);
  const Real bounded = at.bounded_score(dot<Real>(head.q[query], head.k[key], at.head_dim));
  const Real logsumexp = at.logsumexp.get<Real>(at.logsumexp_at(head.batch, query, head.head));
  const Real probability = std::exp(bounded + at.added_bias<Real>(pair) - logsumexp);
  const Real kept = at.kept<Real>(pair);
  const Real along = dot<Real>(head.gradient[query], head.v[key], at.value_dim);
  const Real dot_of_query =
      of.dots.get<Real>((head.batch * at.heads + head.head) * at.tokens + query);
  const Real t = at.cap == 0.0 ? Real(0) : bounded / static_cast<Real>(at.cap);
  return {probability * kept, probability * (along * kept - dot_of_query), Real(1) - t * t};
}

// One query of one head for each index of [batch, heads, tokens].
template <class Real>
struct AttentionQueryGradient {
  AttentionGradients of = {};
  Elements query_gradient = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    run_on_rows<Real>(*this, of.at.rows, i);
  }

  template <class Rows>
  CAIRN_HOST_DEVICE void at_index(std::int64_t i) const {
    const AttentionTensors& at = of.at;
    const std::int64_t query = i % at.tokens;
    const AttentionHead<Rows> head =
        attention_head<Rows>(of, i / at.tokens / at.heads, i / at.tokens % at.heads);
    Real sums[kMaxHeadDim];
    for (std::int64_t d = 0; d < at.head_dim; ++d) sums[d] = Real(0);
    for (std::int64_t key = at.first_key(query); key < at.end_key(query); ++key) {
      const AttentionPair<Real> pair = attention_pair<Real>(of, head, query, key);
      add_scaled(sums, pair.gradient * pair.slope, head.k[key], at.head_dim);
    }
    const std::int64_t begin = at.query_row(head.batch, query, head.head) * at.head_dim;
    for (std::int64_t d = 0; d < at.head_dim; ++d) {
      query_gradient.set<Real>(begin + d, sums[d] * static_cast<Real>(at.scale));
    }
  }
};

// One key of one head of keys for each index of [batch, kv_heads, keys]: over every query of every
// head that reads it, in order.
template <class Real>
struct AttentionKeyGradient {
  AttentionGradients of = {};
  Elements key_gradient = {};
  Elements value_gradient = {};

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    run_on_rows<Real>(*this, of.at.rows, i);
  }

  template <class Rows>
  CAIRN_HOST_DEVICE void at_index(std::int64_t i) const {
    const AttentionTensors& at = of.at;
    const std::int64_t key = i % at.keys;
    const std::int64_t kv_head = i / at.keys % at.kv_heads;
    const std::int64_t batch = i / at.keys / at.kv_heads;
    const std::int64_t group = at.heads / at.kv_heads;
    Real key_sums[kMaxHeadDim];
    Real value_sums[kMaxHeadDim];
    for (std::int64_t d = 0; d < at.head_dim; ++d) key_sums[d] = Real(0);
    for (std::int64_t d = 0; d < at.value_dim; ++d) value_sums[d] = Real(0);
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      const AttentionHead<Rows> head = attention_head<Rows>(of, batch, h);
      for (std::int64_t query = 0; query < at.tokens; ++query) {
        if (key < at.first_key(query) || key >= at.end_key(query)) continue;
        const AttentionPair<Real> pair = attention_pair<Real>(of, head, query, key);
        add_scaled(key_sums, pair.gradient * pair.slope, head.q[query], at.head_dim);
        add_scaled(value_sums, pair.probability, head.gradient[query], at.value_dim);
      }
    }
    const std::int64_t row = at.key_row(batch, key, kv_head);
    for (std::int64_t d = 0; d < at.head_dim; ++d) {
      key_gradient.set<Real>(row * at.head_dim + d, key_sums[d] * static_cast<Real>(at.scale));
    }
    for (std::int64_t d = 0; d < at.value_dim; ++d) {
      value_gradient.set<Real>(row * at.value_dim + d, value_sums[d]);
    }
  }
};

// One element of the bias, [samples, heads, tokens, keys], for each index; one of a single sample
// adds up all of the batch.
template <class Real>
struct AttentionBiasGradient {
  AttentionGradients of = {};
  Elements bias_gradient = {};
  std::int64_t batch_count = 0;
  bool has_one_sample = false;

  CAIRN_HOST_DEVICE void operator()(std::int64_t i) const {
    const AttentionTensors& at = of.at;
    const std::int64_t key = i % at.keys;
    const std::int64_t query = i / at.keys % at.tokens;
    const std::int64_t head = i / at.keys / at.tokens % at.heads;
    const std::int64_t sample = i / at.keys / at.tokens / at.heads;
    Real sum = Real(0);
    const std::int64_t begin = has_one_sample ? 0 : sample;
    const std::int64_t end = has_one_sample ? batch_count : sample + 1;
    for (std::int64_t batch = begin; batch < end; ++batch) {
      const auto rows = attention_head<StridedRows>(of, batch, head);
      sum += attention_pair<Real>(of, rows, query, key).gradient;
    }
    bias_gradient.set<Real>(i, sum);
  }
};

// One head for each index: minus the sink's probability times the dots of every query.
template <class Real>
struct AttentionSinkGradient {
  AttentionGradients of = {};
  Elements sink_gradient = {};
  std::int64_t batch_count = 0;

  CAIRN_HOST_DEVICE void operator()(std::int64_t head) const {
    const AttentionTensors& at = of.at;
    const Real sink = at.sinks.get<Real>(head);
    Real sum = Real(0);
    for (std::int64_t batch = 0; batch < batch_count; ++batch) {
      for (std::int64_t query = 0; query < at.tokens; ++query) {
        const Real logsumexp = at.logsumexp.get<Real>(at.logsumexp_at(batch, query, head));
        const Real dot = of.dots.get<Real>((batch * at.heads + head) * at.tokens + query);
        sum -= std::exp(sink - logsumexp) * dot;
      }
    }
    sink_gradient.set<Real>(head, sum);
  }
};

}  // namespace cairn
