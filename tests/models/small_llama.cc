#include "tests/models/small_llama.h"

#include "graph/error.h"
#include "models/load_model.h"

namespace cairn::test {

ModelRequest small_llama(std::int64_t layers) {
  return {.model = "llama-3.1-8b",
          .tokens = 8,
          .vocab = 100,
          .set = {{"hidden", "64"},
                  {"heads", "4"},
                  {"kv_heads", "4"},
                  {"head_dim", "16"},
                  {"ffn", "96"},
                  {"layers", std::to_string(layers)}}};
}

std::string refusal_of(const ModelRequest& request) {
  try {
    load_model(request);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace cairn::test
