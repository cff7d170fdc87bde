#include "tests/planner/equal_chain.h"

#include <fmt/format.h>

#include "graph/graph_builder.h"

namespace cairn::test {

Graph equal_chain(std::int32_t layer_count, EqualSaves saves) {
  GraphBuilder builder("chain", DataType::kFloat32);
  TensorId x = builder.add_input_bytes("x0", 1, true);
  for (std::int32_t i = 0; i < layer_count; ++i) {
    CustomOp op{.name = fmt::format("f{}", i),
                .inputs = {x},
                .outputs = {{.name = fmt::format("x{}", i + 1), .bytes = 1}},
                .saved = {fmt::format("x{}", i)},
                .forward = {.time_ns = 1},
                .block = i};
    if (saves == EqualSaves::kAll) {
      op.auxiliaries = {{.name = fmt::format("state{}", i), .bytes = 1}};
      op.saved.insert(op.saved.end(), {op.outputs[0].name, op.auxiliaries[0].name});
    }
    x = builder.add_custom(op)[0];
  }
  return builder.build(builder.add_custom({.name = "loss",
                                           .inputs = {x},
                                           .outputs = {{.name = "loss", .bytes = 0}},
                                           .saved = {fmt::format("x{}", layer_count)},
                                           .forward = {.time_ns = 1}})[0]);
}

}  // namespace cairn::test
