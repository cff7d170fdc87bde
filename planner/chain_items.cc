#include "planner/chain_items.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "graph/error.h"

namespace cairn {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Items in one array, each after the one around it: nesting can be as deep as the chain is long.
struct FlatItem {
  ChainItem item = {};
  std::int64_t parent = -1;
};

struct Recompute {  // of blocks [first, last] in the frame of an item
  std::int64_t parent = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t slots = 0;
};

ChainItem make_item(ChainItem::Kind kind, std::int64_t begin, std::int64_t end) {
  return {.kind = kind,
          .begin = static_cast<std::int32_t>(begin),
          .end = static_cast<std::int32_t>(end)};
}

// Appends what is inside the regions that `waiting` has.
void add_recomputes(const NestedTable& table, std::vector<Recompute> waiting,
                    std::vector<FlatItem>& flat) {
  while (!waiting.empty()) {
    Recompute frame = waiting.back();
    waiting.pop_back();
    for (; frame.first < frame.last;) {
      const NestedSplit choice = table.best_split(frame.first, frame.last, frame.slots);
      CAIRN_CHECK(choice.split > frame.first, "no choice gives the cost of a row");
      const ChainItem::Kind kind =
          choice.keeps_first ? ChainItem::Kind::kKept : ChainItem::Kind::kRegion;
      if (!choice.keeps_first) {
        waiting.push_back({.parent = static_cast<std::int64_t>(flat.size()),
                           .first = frame.first,
                           .last = choice.split - 1,
                           .slots = choice.left_slots});
      }
      flat.push_back({.item = make_item(kind, frame.first, choice.split), .parent = frame.parent});
      frame.first = choice.split;
      frame.slots = choice.right_slots;
    }
    flat.push_back({.item = make_item(ChainItem::Kind::kKept, frame.last, frame.last + 1),
                    .parent = frame.parent});
  }
}

std::vector<ChainItem> nest(std::vector<FlatItem> flat) {
  std::vector<ChainItem> items;
  for (std::size_t i = flat.size(); i-- > 0;) {  // what is inside comes behind
    ChainItem& item = flat[i].item;
    std::reverse(item.inner.begin(), item.inner.end());
    std::vector<ChainItem>& siblings =
        flat[i].parent < 0 ? items : flat[at(flat[i].parent)].item.inner;
    siblings.push_back(std::move(item));
  }
  std::reverse(items.begin(), items.end());
  return items;
}

}  // namespace

std::vector<ChainItem> items_of_choices(const Chain& chain, const ChainSums& sums,
                                        const NestedTable& table, const RootPoints& root,
                                        std::int64_t bytes) {
  std::vector<FlatItem> flat;
  std::vector<Recompute> regions;
  const auto block_count = static_cast<std::int64_t>(chain.blocks.size());
  for (std::int64_t first = 0; first < block_count;) {
    const RootChoice choice = best_root_choice(chain, sums, table, root, first, bytes);
    CAIRN_CHECK(choice.end > first, "no choice gives the cost of a point");
    ChainItem item = make_item(ChainItem::Kind::kKept, first, choice.end);
    if (choice.kind == RootChoice::Kind::kOption) {
      item.kind = ChainItem::Kind::kOption;
      item.option = static_cast<std::int32_t>(choice.option);
    }
    if (choice.kind == RootChoice::Kind::kRegion) {
      item.kind = ChainItem::Kind::kRegion;
      regions.push_back({.parent = static_cast<std::int64_t>(flat.size()),
                         .first = first,
                         .last = choice.end - 1,
                         .slots = choice.left_slots});
    }
    flat.push_back({.item = std::move(item)});
    first = choice.end;
    bytes = choice.left_over_bytes;
  }
  add_recomputes(table, std::move(regions), flat);
  return nest(std::move(flat));
}

}  // namespace cairn
