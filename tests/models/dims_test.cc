#include "models/dims.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/error.h"

namespace cairn {
namespace {

const char* const kFamily =
    "family: f\n"
    "dims: {hidden: hidden_size, heads: [n_head, num_heads, 8], head_dim: [hd, hidden // heads],\n"
    "       window: [w, 0]}\n"
    "flags: {tied: [tie, true]}\n"
    "rates: {p: [drop, 0.1]}\n"
    "texts: {act: [hidden_act, 'silu']}\n"
    "inputs: {x: {dtype: activation, shape: [batch, tokens, hidden]}}\n"
    "ops:\n"
    "  - loss: {op: mean, in: x}\n";

using Overrides = std::vector<std::pair<std::string, std::string>>;

// "hidden 64, heads 8, ...", or the message.
std::string resolved(const std::string& config, const Overrides& set = {},
                     bool by_dim_name = false) {
  const Family family = parse_family(parse_document("family", kFamily));
  std::vector<DimOverride> overrides;
  for (const auto& [name, value] : set) overrides.push_back({name, value, "--set " + name});
  std::string text;
  try {
    const Document document = parse_document("config", config);
    const std::vector<DimSource> sources = {
        {.document = &document, .mapping = &document.root, .by_dim_name = by_dim_name}};
    for (const ResolvedDim& dim : resolve_dims(family, sources, overrides)) {
      text += (text.empty() ? "" : ", ") + dim.name + " " + spell(dim.value);
    }
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  return text;
}

}  // namespace

TEST_CASE("dims come from the config's keys, else from their defaults, in the family's order") {
  CHECK(resolved("{hidden_size: 64}") ==
        "hidden 64, heads 8, head_dim 8, window 0, tied 1, p 0.1, act 'silu'");
  CHECK(
      resolved("{act: x, drop: 0, tie: false, hidden_size: 64, num_heads: 4, hidden_act: relu}") ==
      "hidden 64, heads 4, head_dim 16, window 0, tied 0, p 0, act 'relu'");
}

TEST_CASE("of several keys the first one present counts, and a null counts as absent") {
  CHECK(resolved("{hidden_size: 64, num_heads: 4, n_head: 2}").find("heads 2") !=
        std::string::npos);
  CHECK(resolved("{hidden_size: 64, num_heads: 4, n_head: null}").find("heads 4") !=
        std::string::npos);
}

TEST_CASE("a mapping says what null stands for and the least size, and a factor may pass one") {
  const auto value_of = [](const std::string& config) {
    const Family family = parse_family(parse_document(
        "family",
        "family: f\n"
        "dims: {heads: {key: [n_head, num_heads], default: 8, if_null: 1 + 1, least: 0}}\n"
        "factors: {share: [pct, 0.25], most: {key: most, default: 1, least: 0}}\n"
        "inputs: {x: {dtype: activation, shape: [batch, tokens, heads]}}\n"
        "ops: [loss: {op: mean, in: x}]\n"));
    try {
      const Document document = parse_document("config", config);
      const std::vector<DimSource> sources = {{.document = &document, .mapping = &document.root}};
      std::string text;
      for (const ResolvedDim& dim : resolve_dims(family, sources, {})) {
        text += (text.empty() ? "" : ", ") + spell(dim.value);
      }
      return text;
    } catch (const InputError& error) {
      const std::string message = error.what();
      return message.substr(0, message.find('\n'));
    }
  };
  CHECK(value_of("{other: 1}") == "8, 0.25, 1");
  CHECK(value_of("{num_heads: null, pct: 1.5}") == "2, 1.5, 1");
  CHECK(value_of("{n_head: null, num_heads: 3}") == "3, 0.25, 1");
  CHECK(value_of("{n_head: 0}") == "0, 0.25, 1");
  CHECK(value_of("{n_head: -1}") ==
        "config:1:10: key 'n_head': expected an integer from 0, found -1");
  CHECK(value_of("{pct: 0.0}") == "config:1:7: key 'pct': expected a number above 0, found 0");
  CHECK(value_of("{most: 0.0}") == "8, 0.25, 0");
  CHECK(value_of("{most: -1}") == "config:1:8: key 'most': expected a number from 0, found -1");
}

TEST_CASE("a model file names the dims themselves") {
  CHECK(resolved("{hidden: 64, heads: 4}", {}, true).starts_with("hidden 64, heads 4"));
  CHECK(resolved("{hidden_size: 64}", {}, true) ==
        "config:1:2: family 'f' has no dim 'hidden_size'; it has hidden, heads, head_dim, window, "
        "tied, p, act; did you mean 'hidden'?");
  CHECK(resolved("{hidden: 64, head: 4}", {}, true) ==
        "config:1:14: family 'f' has no dim 'head'; it has hidden, heads, head_dim, window, tied, "
        "p, act; did you mean 'heads'?");
  CHECK(resolved("{heads: 4}", {}, true) ==
        "config:1:1: missing key 'hidden', which family 'f' needs; or give it: --set hidden=...");
}

TEST_CASE("a missing key is asked for by its name, and a slip is pointed out") {
  CHECK(resolved("{n_head: 4}") ==
        "config:1:1: missing key 'hidden_size', which family 'f' needs; or give it: --set "
        "hidden=...");
  CHECK(resolved("{hiddensize: 4}") ==
        "config:1:1: missing key 'hidden_size', which family 'f' needs, found 'hiddensize'; or "
        "give it: --set hidden=...");
  CHECK(resolved("{hidden_size: null}") ==
        "config:1:2: key 'hidden_size': expected a value, found nothing");
}

TEST_CASE("values of the wrong type are refused where they stand") {
  CHECK(resolved("{hidden_size: 0}") ==
        "config:1:15: key 'hidden_size': expected a positive integer, found 0");
  CHECK(resolved("{hidden_size: [64]}") ==
        "config:1:15: key 'hidden_size': expected an integer, found a list");
  CHECK(resolved("{hidden_size: 64, tie: 1}") ==
        "config:1:24: key 'tie': expected true or false, found '1'");
  CHECK(resolved("{hidden_size: 64, drop: 1.5}") ==
        "config:1:25: key 'drop': expected a rate in [0, 1), found 1.5");
  CHECK(resolved("{hidden_size: 64, drop: -0.1}") ==
        "config:1:25: key 'drop': expected a rate in [0, 1), found -0.1");
  CHECK(resolved("{hidden_size: 64, hidden_act: {a: b}}") ==
        "config:1:31: key 'hidden_act': expected a text, found a mapping");
}

TEST_CASE("what the user sets wins, and later defaults follow it") {
  CHECK(resolved("{hidden_size: 64}", {{"heads", "4"}})
            .starts_with("hidden 64, heads 4, head_dim 16"));
  CHECK(resolved("{hidden_size: 64}", {{"tied", "false"}, {"p", "0.25"}, {"act", "relu"}})
            .ends_with("tied 0, p 0.25, act 'relu'"));
  // It need not be in the config at all.
  CHECK(resolved("{}", {{"hidden", "64"}}).starts_with("hidden 64"));
}

TEST_CASE("a size may be set in thousands or millions") {
  CHECK(resolved("{hidden_size: 64}", {{"hidden", "248k"}}).starts_with("hidden 248000,"));
  CHECK(resolved("{hidden_size: 64}", {{"hidden", "2M"}}).starts_with("hidden 2000000,"));
  CHECK(resolved("{hidden_size: 64}", {{"hidden", "9000000000000000000k"}}) ==
        "--set hidden: 9000000000000000000 x 1000 does not fit in 63 bits");
}

TEST_CASE("what the user sets has to make sense") {
  const std::string expected_size =
      "--set heads: expected a positive integer (248k is 248000), found '";
  for (const char* value :
       {"0", "-4", "4.5", "", "k", "four", "4 ", "0x10", "9999999999999999999", "+4", "1e3"}) {
    CHECK(resolved("{hidden_size: 64}", {{"heads", value}}) == expected_size + value + "'");
  }
  CHECK(resolved("{hidden_size: 64}", {{"tied", "yes"}}) ==
        "--set tied: expected true or false, found 'yes'");
  for (const char* value : {"1", "-0.1", "nan", "inf", "", "0.1x", "half"}) {
    CHECK(resolved("{hidden_size: 64}", {{"p", value}}) ==
          "--set p: expected a rate in [0, 1), found '" + std::string(value) + "'");
  }
  CHECK(resolved("{hidden_size: 64}", {{"hiden", "4"}}) ==
        "--set hiden: family 'f' has no dim 'hiden'; it has hidden, heads, head_dim, window, tied, "
        "p, act; did you mean 'hidden'?");
  CHECK(resolved("{hidden_size: 64}", {{"hidden_size", "4"}}) ==
        "--set hidden_size: family 'f' has no dim 'hidden_size'; it has hidden, heads, head_dim, "
        "window, tied, p, act; did you mean 'hidden' (config key hidden_size)?");
}

TEST_CASE("an override of a huge config is found without walking it for every dim") {
  std::string config = "{hidden_size: 64";
  for (int i = 0; i < 20'000; ++i) config += ", k" + std::to_string(i) + ": 1";
  CHECK(resolved(config + "}").starts_with("hidden 64"));
}

TEST_CASE("a family has at most 1,000 dims") {
  std::string family = "family: f\ndims:\n";
  for (int i = 0; i <= 1000; ++i) family += "  d" + std::to_string(i) + ": [k, 1]\n";
  std::string message;
  try {
    parse_family(parse_document("family", family));
  } catch (const InputError& error) {
    message = error.what();
  }
  CHECK(message.substr(0, message.find('\n')) ==
        "family:1003:3: expected at most 1000 dims, found more");
}

TEST_CASE("a config key may be a path into mappings and lists") {
  const Family family = parse_family(parse_document(
      "family",
      "family: f\ndims: {depth: 'depths[1]', rotary: ['rope.x[0].factor', 'labels[]', 7]}\n"
      "inputs: {x: {dtype: fp32, shape: [4]}}\nops:\n  - l: {op: gelu, in: x}\n"));
  const auto resolve = [&](const std::string& config) {
    const Document document = parse_document("config", config);
    const std::vector<DimSource> sources = {{.document = &document, .mapping = &document.root}};
    try {
      const std::vector<ResolvedDim> dims = resolve_dims(family, sources, {});
      return spell(dims[0].value) + " " + spell(dims[1].value);
    } catch (const InputError& error) {
      const std::string message = error.what();
      return message.substr(0, message.find('\n'));
    }
  };
  CHECK(resolve("{depths: [3, 4]}") == "4 7");
  CHECK(resolve("{depths: [3, 4], rope: {x: [{factor: 5}]}}") == "4 5");
  CHECK(resolve("{depths: [3, 4], rope: {y: 1}}") == "4 7");
  CHECK(resolve("{depths: [3, 4], labels: {a: 1, b: 2}}") == "4 2");
  CHECK(resolve("{depths: [3, 4], labels: 2}") ==
        "config:1:26: key 'labels': expected a mapping or a list, found '2'");
  CHECK(resolve("{depths: {a: 1}}") ==
        "config:1:10: key 'depths': expected a list, found a mapping");
  CHECK(resolve("{depths: [3, -4]}") ==
        "config:1:14: key 'depths[1]': expected a positive integer, found -4");
  CHECK(resolve("{depths: 3}") == "config:1:10: key 'depths': expected a list, found '3'");
  CHECK(resolve("{depths: [3, 4], rope: 5}") ==
        "config:1:24: key 'rope': expected a mapping, found '5'");
  CHECK(resolve("{depths: [3]}") ==
        "config:1:1: missing key 'depths[1]', which family 'f' needs, found 'depths'; or give it: "
        "--set depth=...");
}

}  // namespace cairn
