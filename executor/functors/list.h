#pragma once

#include <cstddef>
#include <type_traits>

#include "executor/functors/attention.h"
#include "executor/functors/gated.h"
#include "executor/functors/images.h"
#include "executor/functors/losses.h"
#include "executor/functors/mixing.h"
#include "executor/functors/norms.h"
#include "executor/functors/optimizers.h"
#include "executor/functors/pointwise.h"
#include "executor/functors/random.h"
#include "executor/functors/routing.h"
#include "executor/functors/rows.h"
#include "executor/functors/tables.h"

// Every functor that a device has to be able to run. Each device instantiates the list once, with
// its own compiler; the rest of the executor knows a functor by its place here.

namespace cairn {

template <class... Functors>
struct FunctorList {
  static constexpr std::size_t kCount = sizeof...(Functors);
};

template <class Real>
using FunctorsOf = FunctorList<
    Map<Real, Same>, Map<Real, Negated>, Map<Real, Affine>, Map<Real, Constant>, Map<Real, Gelu>,
    Map<Real, Sigmoid>, Map<Real, Silu>, Map<Real, Tanh>, Map<Real, Relu>, Map<Real, Clamp>,
    Map<Real, Power>, Map<Real, Rsqrt>, Map2<Real, Sum>, Map2<Real, Difference>,
    Map2<Real, Product>, Map2<Real, Quotient>, Map2<Real, NegatedQuotientOfSquare>,
    Map2<Real, GeluGradient>, Map2<Real, SigmoidGradient>, Map2<Real, SiluGradient>,
    Map2<Real, TanhGradient>, Map2<Real, ReluGradient>, Map2<Real, ClampGradient>,
    Map2<Real, ScaledProduct>, Map2<Real, RsqrtGradient>, RowSum<Real>, OuterSum<Real>,
    RowSoftmax<Real>, RowSoftmaxGradient<Real>, RowNorm<Real>, RowNormGradient<Real>,
    NormWeightGradient<Real>, Dropout<Real>, FillNormal<Real>, MeanNll<Real>, NllGradient<Real>,
    MeanLogOf<Real>, CrossEntropyGradient<Real>, Lookup<Real>, LookupGradient<Real>,
    TableProduct<Real>, MaskCausal<Real>, MaskCausalGradient<Real>, AttentionForward<Real>,
    AttentionDots<Real>, AttentionQueryGradient<Real>, AttentionKeyGradient<Real>, AdamWStep<Real>,
    SgdStep<Real>, ImageColumns<Real>, ColumnsImage<Real>, MaxPool<Real>, MaxPoolGradient<Real>,
    AveragePool<Real>, AveragePoolGradient<Real>, AdaptivePool<Real>, AdaptivePoolGradient<Real>,
    ChannelNorm<Real>, ChannelNormGradient<Real>>;

// What layers of language models have beside these.
template <class Real>
using LanguageFunctorsOf =
    FunctorList<Map<Real, GeluTanh>, Map2<Real, GeluTanhGradient>, Map2<Real, GatedBy<Silu>>,
                Map2<Real, GatedBy<GeluTanh>>, GatedGradient<Real, Silu, SiluGradient>,
                GatedGradient<Real, GeluTanh, GeluTanhGradient>, Rotate<Real>,
                ComplexTableProduct<Real>, AddMask<Real>, MiddleSum<Real>, RowLength<Real>,
                FillIdentity<Real>, LargestOfRow<Real>, ScatterRow<Real>, GatherRow<Real>,
                OutsideGroups<Real>, FillWhere<Real>, TakeElements<Real>, PutElements<Real>,
                CombineRows<Real>, CombineRowsGradient<Real>, AddLookup<Real>, CopyColumns<Real>,
                RowLogSum<Real>, RowLoss<Real>, LogitGradient<Real>, MeanLossOf<Real>,
                CompiledLossGradient<Real>, AddColumnSum<Real>, AttentionBiasGradient<Real>,
                AttentionSinkGradient<Real>>;

template <class... Lists>
struct Joined;
template <class... As, class... Bs, class... Rest>
struct Joined<FunctorList<As...>, FunctorList<Bs...>, Rest...> {
  using type = typename Joined<FunctorList<As..., Bs...>, Rest...>::type;
};
template <class List>
struct Joined<List> {
  using type = List;
};

using AllFunctors = Joined<FunctorsOf<float>, FunctorsOf<double>, LanguageFunctorsOf<float>,
                           LanguageFunctorsOf<double>,
                           FunctorList<FillIntegers, FillUniform, Mix, SortByExpert, RowsOfEntries,
                                       CopyIntegers, MeanOf>>::type;

// The place of a functor in the list; not to compile where it has none.
template <class Functor, class... Functors>
constexpr int place_in(FunctorList<Functors...>) {
  static_assert((std::is_same_v<Functor, Functors> || ...), "not in AllFunctors");
  constexpr bool kIsIt[] = {std::is_same_v<Functor, Functors>...};
  int place = 0;
  while (!kIsIt[place]) ++place;
  return place;
}

template <class Functor>
constexpr int functor_place() {
  return place_in<Functor>(AllFunctors{});
}

}  // namespace cairn
