#include "models/measured_file.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"
#include "models/write_file.h"
#include "tests/docs/fenced_files.h"

namespace cairn {
namespace {

MeasuredFile read(const std::string& text) {
  return read_measured_file(parse_document("measured.yaml", "cairn_measurements: 1\n" + text));
}

// The first line of the message.
std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  return "accepted";
}

// A case with all keys that must be there, on line 3.
std::string case_with(const std::string& more) {
  return "cases:\n- {id: a, kind: full_step, metric: peak_bytes, source: here, date: 2026, " +
         more + "}\n";
}

TEST_CASE("a case takes from the file's defaults what it does not say, of the recipe key by key") {
  const MeasuredFile file = read(
      "defaults:\n"
      "  kind: full_step\n"
      "  metric: peak_bytes\n"
      "  source: here\n"
      "  date: 2026-01\n"
      "  confidence: 3\n"
      "  gpu: a100-40\n"
      "  model: gpt2\n"
      "  recipe: {batch: 4, tokens: 512, precision: fp32, attention: eager}\n"
      "cases:\n"
      "- {id: a, value: 60.0 GiB}\n"
      "- {id: b, value: 1536 B, confidence: 1, gpu: null, recipe: {batch: 1, attention: null}}\n");
  REQUIRE(file.cases.size() == 2);
  const MeasuredCase& a = file.cases[0];
  CHECK(a.value_bytes == std::int64_t{60} << 30);
  CHECK(a.value_text == "60.0 GiB");
  CHECK(a.confidence == 3);
  CHECK(a.gpu == "a100-40");
  REQUIRE(a.run);
  CHECK(a.run->request.model == "gpt2");
  CHECK(a.run->request.batch == 4);
  CHECK(a.run->request.implementations.at("attention") == "eager");
  CHECK(!a.is_blind);
  const MeasuredCase& b = file.cases[1];
  CHECK(b.value_bytes == 1536);
  CHECK(b.confidence == 1);
  CHECK(b.gpu.empty());
  CHECK(b.run->request.batch == 1);
  CHECK(b.run->request.tokens == 512);
  CHECK(b.run->request.precision == find_precision("fp32"));
  CHECK(b.run->request.implementations.empty());
}

TEST_CASE("a difference has a second run, which changes knobs of the first") {
  const MeasuredCase measured =
      read(case_with("value: 12.5 GiB, confidence: 3, model: gpt2, recipe: {batch: 2, optimizer: "
                     "adamw, checkpointing: {strategy: sqrt, extent: whole}}, minus: {optimizer: "
                     "sgd}"))
          .cases[0];
  REQUIRE(measured.minus);
  CHECK(measured.run->request.optimizer == "adamw");
  CHECK(measured.minus->request.optimizer == "sgd");
  CHECK(measured.minus->request.batch == 2);
  CHECK(measured.minus->checkpointing == "sqrt");
  CHECK(measured.minus->extent == Extent::kWhole);
}

TEST_CASE("a recipe may begin with a recipe file, which its own knobs override") {
  const test::TemporaryFolder folder;
  write_file(
      folder.path() / "mine.yaml",
      "title: Mine\noptimizer: sgd\nattention: eager\ncheckpointing: {strategy: sqrt, extent: "
      "whole}\n");
  const std::string text =
      "cairn_measurements: 1\n" + case_with(
                                      "value: 1 GiB, confidence: 3, model: gpt2, recipe: {base: "
                                      "./mine.yaml, batch: 2, attention: flash}");
  const MeasuredFile file =
      read_measured_file(parse_document((folder.path() / "measured.yaml").string(), text));
  const MeasuredRun& run = *file.cases[0].run;
  CHECK(run.request.optimizer == "sgd");
  CHECK(run.request.batch == 2);
  CHECK(run.request.implementations.at("attention") == "flash");
  CHECK(run.checkpointing == "sqrt");
  CHECK(run.extent == Extent::kWhole);
  CHECK(refusal(case_with("value: 1 GiB, confidence: 3, model: gpt2, recipe: {base: mine}"))
            .starts_with("--recipe: expected a recipe"));
}

TEST_CASE("a value may be a number of units") {
  // 29.8 * 265,289,728
  CHECK(read(case_with("value: 29.8, unit: 265289728 B, confidence: 3, model: gpt2"))
            .cases[0]
            .value_bytes == 7905633894);
}

TEST_CASE("a model may stand in the file, with its dims and folders") {
  const MeasuredCase measured =
      read(case_with("value: 1 GiB, confidence: 3, model: {family: gpt2, dims: {hidden: 64}, "
                     "models: mine, set: {layers: 2}}"))
          .cases[0];
  REQUIRE(measured.run->model);
  CHECK(measured.run->model->name == "gpt2");
  CHECK(measured.run->request.folders.at(0) == "mine");
  CHECK(measured.run->request.set.at(0).second == "2");
}

TEST_CASE("bounds are percent, of metrics, kinds and a confidence") {
  const MeasuredFile file = read(
      "bounds: [{metrics: [peak_bytes, resident_bytes], confidence: 3, median: 3 %, p90: 8%}, "
      "{kinds: loss_head, worst: 0.5 %}]\n");
  REQUIRE(file.bounds.size() == 2);
  CHECK(file.bounds[0].metrics.size() == 2);
  CHECK(*file.bounds[0].median == doctest::Approx(0.03));
  CHECK(*file.bounds[0].percentile_90 == doctest::Approx(0.08));
  CHECK(!file.bounds[0].worst);
  CHECK(*file.bounds[1].worst == doctest::Approx(0.005));
}

TEST_CASE("what is no share is none") {
  CHECK(parse_percent("3%"));
  CHECK(parse_percent("3.5 %"));
  for (const char* const text : {"", "3", "%", "-1%", "a%", "3%%", "nan%", "3  %"}) {
    CHECK_MESSAGE(!parse_percent(text), text);
  }
}

TEST_CASE("what is no case is refused at its place") {
  CHECK(refusal("") == "measured.yaml:1:1: measurements: missing key 'cases', or 'bounds'");
  CHECK(refusal("casse: []") ==
        "measured.yaml:2:1: measurements: unknown key 'casse'; did you mean 'cases'?");
  CHECK(refusal("cases:\n- {kind: peft}") == "measured.yaml:3:3: a case: missing key 'id'");
  CHECK(refusal(case_with("value: 1 GiB, model: gpt2")) ==
        "measured.yaml:3:3: case 'a': missing key 'confidence'");
  CHECK(refusal(case_with("value: 1 GiB, confidence: 4, model: gpt2")) ==
        "measured.yaml:3:88: case 'a': key 'confidence': expected 1 to 3, found 4");
  CHECK(refusal(case_with("value: 1 GiB, confidence: 3")) ==
        "measured.yaml:3:3: case 'a': missing key 'model'");
  CHECK(refusal(case_with("value: 1 GO, confidence: 3, model: gpt2"))
            .starts_with("measured.yaml:3:74: case 'a': key 'value': expected a size in B, KiB"));
  CHECK(refusal(case_with("value: 1 GiB, confidence: 3, model: {name: gpt2, file: x.yaml}")) ==
        "measured.yaml:3:110: case 'a': key 'model': expected one of the keys 'name', 'file' and "
        "'family'");
  CHECK(refusal(case_with("value: 1 GiB, confidence: 3, model: gpt2, recipe: {batchh: 2}")) ==
        "measured.yaml:3:125: case 'a': key 'recipe': unknown key 'batchh'; did you mean 'batch'?");
  CHECK(refusal(case_with("value: 1 GiB, confidence: 3, model: gpt2, recipe: {batch: 0}"))
            .ends_with("key 'batch': expected a positive integer, found 0"));
  CHECK(refusal(case_with("value: 1 GiB, confidence: 3, minus: {batch: 2}, not_modelled: x"))
            .ends_with("key 'minus': expected a 'model' beside it, found none"));
  CHECK(refusal("cases:\n- {id: a, kind: full_step, metric: reserved_bytes, source: x, date: 1, "
                "confidence: 1, value: 1 GiB, model: gpt2}")
            .ends_with("key 'metric': reserved_bytes are not modelled: expected 'not_modelled' to "
                       "say so"));
  CHECK(refusal("cases:\n- {id: a, kind: full_step, metric: device_bytes, source: x, date: 1, "
                "confidence: 1, value: 1 GiB, model: gpt2}")
            .ends_with("case 'a': missing key 'context'"));
  CHECK(refusal("bounds: [{confidence: 3}]")
            .ends_with("expected one of the keys 'median', 'p90' "
                       "and 'worst'"));
  CHECK(refusal("bounds: [{worst: 3}]")
            .ends_with("key 'worst': expected percent such as 3 %, "
                       "found '3'"));
}

TEST_CASE("an id is used once in a file, and is a plain word") {
  const std::string one =
      "- {id: a, kind: peft, metric: peak_bytes, source: x, date: 1, "
      "confidence: 1, value: 1 GiB, not_modelled: why}\n";
  CHECK(refusal("cases:\n" + one + one) == "measured.yaml:4:3: case 'a': the id is used twice");
  CHECK(refusal("cases:\n- {id: a b}").ends_with("found 'a b'"));
}

}  // namespace
}  // namespace cairn
