#include "models/optimizer.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"
#include "models/optimizer_bytes.h"

namespace cairn {
namespace {

constexpr Precision kFp32 = {.parameter_type = DataType::kFloat32};
constexpr Precision kBf16 = {.parameter_type = DataType::kBFloat16};
constexpr Precision kBf16Master = {.parameter_type = DataType::kBFloat16,
                                   .master_type = DataType::kFloat32};

SteppedParameter parameter(Shape shape, DataType type = DataType::kFloat32) {
  const std::int64_t bytes = tensor_bytes(type, shape, "w");
  return {.name = "w", .shape = std::move(shape), .type = type, .bytes = bytes};
}

SteppedParameter table(Shape shape) {
  SteppedParameter made = parameter(std::move(shape));
  made.is_table = true;
  return made;
}

OptimizerBytes bytes_of(const std::string& optimizer, const SteppedParameter& parameter,
                        OptimizerLoop loop = OptimizerLoop::kFused) {
  return optimizer_rule(
             {.precision = kFp32, .optimizer = optimizer, .step = {.optimizer_loop = loop}})
      .bytes_of(parameter);
}

std::string error_of(const Recipe& recipe) {
  try {
    optimizer_rule(recipe);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("an 8-bit state of bitsandbytes is a byte an element and a scale for each 256") {
  const OptimizerBytes whole = bytes_of("adamw-8bit", parameter({64, 64}));
  CHECK(whole.state_bytes == 2 * (4096 + 4 * 16));
  CHECK(whole.shared_state_bytes == 2 * 4 * 256);
  CHECK(whole.temporary_bytes == 0);
  // 12,000 elements are 46 blocks and the beginning of one.
  const SteppedParameter bf16 = parameter({300, 40}, DataType::kBFloat16);
  CHECK(bytes_of("adam-8bit", bf16).state_bytes == 2 * (12'000 + 4 * 47));
  CHECK(bytes_of("lion-8bit", bf16).state_bytes == 12'000 + 4 * 47);
  CHECK(bytes_of("lion-8bit", bf16).shared_state_bytes == 4 * 256);
}

TEST_CASE("small parameters have states of 32 bits with every optimizer of 8") {
  CHECK(bytes_of("adamw-8bit", parameter({4095})).state_bytes == 2 * 4 * 4095);
  CHECK(bytes_of("adamw-8bit", parameter({4095})).shared_state_bytes == 0);
  CHECK(bytes_of("lion-32bit", parameter({300, 40}, DataType::kBFloat16)).state_bytes == 48'000);
}

TEST_CASE("embeddings have states of 32 bits where the trainer asks for it") {
  CHECK(bytes_of("adamw-8bit", table({64, 64})).state_bytes == 2 * (4096 + 4 * 16));
  Recipe trainers{.precision = kFp32, .optimizer = "adamw-8bit", .has_full_embedding_states = true};
  CHECK(optimizer_rule(trainers).bytes_of(table({64, 64})).state_bytes == 2 * 4 * 4096);
  CHECK(optimizer_rule(trainers).bytes_of(parameter({64, 64})).state_bytes == 2 * (4096 + 4 * 16));
  trainers.optimizer = "paged-lion-8bit";
  CHECK(optimizer_rule(trainers).bytes_of(table({1000, 100})).paged_state_bytes == 4 * 100'000);
  // No other library has such an override, and Muon knows tables by another rule.
  trainers.optimizer = "adamw-torch-8bit";
  CHECK(optimizer_rule(trainers).bytes_of(table({64, 64})).state_bytes ==
        bytes_of("adamw-torch-8bit", parameter({64, 64})).state_bytes);
}

TEST_CASE("from 100,000 elements on a paged optimizer has its states in unified memory") {
  const OptimizerBytes below = bytes_of("paged-adamw-32bit", parameter({99'999}));
  CHECK(below.state_bytes == 2 * 4 * 99'999);
  CHECK(below.paged_state_bytes == 0);
  const OptimizerBytes from = bytes_of("paged-adamw-32bit", parameter({100'000}));
  CHECK(from.state_bytes == 0);
  CHECK(from.paged_state_bytes == 2 * 4 * 100'000);
  // The scales stay on the device: 100,000 elements are 390 blocks and the beginning of one.
  const OptimizerBytes scales = bytes_of("paged-lion-8bit", parameter({100'000}));
  CHECK(scales.state_bytes == 4 * 391);
  CHECK(scales.paged_state_bytes == 100'000);
}

TEST_CASE("torchao quantises states of whole blocks alone, each with a table of its own") {
  const SteppedParameter whole = parameter({16, 256}, DataType::kBFloat16);
  CHECK(bytes_of("adamw-torch-8bit", whole).state_bytes == 2 * (4096 + 4 * 16 + 1024));
  CHECK(bytes_of("adamw-torch-4bit", whole).state_bytes == 2 * (2048 + 4 * 16 + 64));
  CHECK(bytes_of("adamw-torch-fp8", whole).state_bytes == 2 * (4096 + 4 * 16));
  const SteppedParameter broken = parameter({300, 40}, DataType::kBFloat16);
  CHECK(bytes_of("adamw-torch-8bit", broken).state_bytes == 2 * 2 * 12'000);
}

TEST_CASE("Adafactor has sums of rows and columns, and temporaries in fp32") {
  const OptimizerBytes fp32 = bytes_of("adafactor", parameter({300, 40}));
  CHECK(fp32.state_bytes == 4 * 340);
  CHECK(fp32.temporary_bytes == 2 * 48'000 + 1360);
  CHECK(fp32.early_temporary_bytes == 2 * 48'000);
  CHECK(fp32.early_carried_bytes == 48'000);
  CHECK(bytes_of("adafactor", parameter({300, 40}, DataType::kBFloat16)).temporary_bytes ==
        4 * 48'000 + 1360);
  CHECK(bytes_of("adafactor", parameter({1000})).state_bytes == 4000);
  // Seven matrices of 30 x 20.
  CHECK(bytes_of("adafactor", parameter({7, 30, 20})).state_bytes == 4 * 7 * 50);
  // torch.optim's states are of the parameter's type; row and column means, and a mean of these.
  const SteppedParameter bf16 = parameter({300, 40}, DataType::kBFloat16);
  const OptimizerBytes torch = bytes_of("adafactor-torch", bf16);
  CHECK(torch.state_bytes == 2 * 340);
  CHECK(torch.temporary_bytes == 24'000 + 680 + 2);
  CHECK(bytes_of("adafactor-torch", bf16, OptimizerLoop::kForeach).temporary_bytes == 24'000);
}

TEST_CASE("Muon steps hidden matrices, and AdamW behind it tables, the head, norms and biases") {
  const OptimizerBytes matrix = bytes_of("muon", parameter({300, 40}, DataType::kBFloat16));
  CHECK(matrix.state_bytes == 24'000);
  CHECK(matrix.temporary_bytes == 3 * 24'000 + 2 * 2 * 1600);
  CHECK(matrix.part == 0);
  CHECK(bytes_of("muon", parameter({300, 40})).temporary_bytes ==
        48'000 + 2 * 24'000 + 2 * 2 * 1600);
  CHECK(bytes_of("muon", table({300, 40})).state_bytes == 2 * 48'000);
  CHECK(bytes_of("muon", table({300, 40})).part == 1);
  CHECK(bytes_of("muon", parameter({40})).state_bytes == 2 * 160);
  CHECK(bytes_of("muon", parameter({2, 30, 40})).state_bytes == 2 * 9600);  // no matrix
  SteppedParameter head = parameter({300, 40});
  head.is_head = true;
  CHECK(bytes_of("muon", head, OptimizerLoop::kForLoop).temporary_bytes == 2 * 48'000);
}

TEST_CASE("states of another type than what is stepped") {
  const auto with_states = [](const std::string& optimizer, DataType states, DataType stepped) {
    return optimizer_rule(
               {.precision = kFp32, .optimizer = optimizer, .optimizer_state_type = states})
        .bytes_of(parameter({10}, stepped))
        .state_bytes;
  };
  CHECK(with_states("adamw", DataType::kBFloat16, DataType::kFloat32) == 40);
  CHECK(with_states("adamw", DataType::kFloat32, DataType::kBFloat16) == 80);
  CHECK(with_states("adam", DataType::kFloat16, DataType::kFloat32) == 40);
  Recipe recipe{
      .precision = kFp32, .optimizer = "adamw-8bit", .optimizer_state_type = DataType::kBFloat16};
  CHECK(error_of(recipe) ==
        "--optimizer-states bf16 and --optimizer adamw-8bit: its states have types of their own; "
        "expected one of adamw, adam");
  recipe.optimizer = "sgd";
  CHECK(error_of(recipe) ==
        "--optimizer-states bf16 and --optimizer sgd: it has no states; expected one of adamw, "
        "adam");
  recipe.optimizer = "sgd-momentum";
  CHECK(error_of(recipe) ==
        "--optimizer-states bf16 and --optimizer sgd-momentum: its momentum is of the type of the "
        "gradients; expected one of adamw, adam");
  recipe.optimizer = "lion";
  CHECK(error_of(recipe) ==
        "--optimizer-states bf16 and --optimizer lion: its momentum is of the type of the "
        "parameters; expected one of adamw, adam");
  recipe.optimizer = "adamw";
  recipe.step.optimizer_loop = OptimizerLoop::kForeach;
  CHECK(error_of(recipe) ==
        "--optimizer-states bf16 and --optimizer-loop foreach: states of another type are counted "
        "in one kernel; expected fused");
}

TEST_CASE("names of Transformers' Trainer are known by") {
  CHECK(optimizer_name("adamw_bnb_8bit") == "adamw-8bit");
  CHECK(optimizer_name("adamw_8bit") == "adamw-8bit");
  CHECK(optimizer_name("paged_adamw") == "paged-adamw-32bit");
  CHECK(optimizer_name("adamw") == "adamw");
}

TEST_CASE("an optimizer refuses what its library does not have, and says what it has") {
  CHECK(error_of({.precision = kBf16, .optimizer = "adamw-8bits"})
            .find("did you mean 'adamw-8bit'") != std::string::npos);
  CHECK(error_of({.precision = kBf16,
                  .optimizer = "adamw-8bit",
                  .step = {.optimizer_loop = OptimizerLoop::kForeach}}) ==
        "--optimizer adamw-8bit has no foreach loop: expected --optimizer-loop fused");
  CHECK(error_of({.precision = kBf16,
                  .optimizer = "muon",
                  .step = {.optimizer_loop = OptimizerLoop::kForeach}}) ==
        "--optimizer muon has no foreach loop: expected --optimizer-loop fused or for-loop");
  CHECK(error_of({.precision = kBf16Master, .optimizer = "adafactor"}) ==
        "--optimizer adafactor and --precision bf16-master: it keeps no master weights; expected "
        "one of adamw, adam, sgd, sgd-momentum, lion");
  CHECK(error_of({.precision = kBf16Master, .optimizer = "adamw"}) == "no error");
}

}  // namespace
}  // namespace cairn
