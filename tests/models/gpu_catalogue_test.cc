#include "models/gpu_catalogue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "graph/error.h"
#include "models/gpu_file.h"

namespace cairn {
namespace {

const std::filesystem::path kBadGpus =
    std::filesystem::path(CAIRN_SOURCE_DIR) / "tests/models/bad/gpus";

template <typename Call>
std::string refusal_of(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string gpu_refusal(const std::string& name) {
  return refusal_of([&] { find_gpu(name, {}); });
}

std::string size_refusal(const std::string& text) {
  return refusal_of([&] { parse_bytes(text, "--budget"); });
}

// The first line of the message for a file, without the path before ":line:column".
std::string file_refusal(const std::string& name) {
  const std::string path = (kBadGpus / name).string();
  const std::string message =
      refusal_of([&] { read_gpus(read_document(path), read_builtin_gpus().defaults); });
  const std::string line = message.substr(0, message.find('\n'));
  return line.starts_with(path) ? line.substr(path.size()) : line;
}

const GpuEntry& entry_of(const std::vector<GpuEntry>& gpus, const std::string& id) {
  const auto found = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const GpuEntry& entry) { return entry.device.id == id; });
  REQUIRE(found != gpus.end());
  return *found;
}

std::int64_t capacity_of(const std::string& name) { return capacity_bytes(find_gpu(name, {})); }

// A user's folder, gone at the end of the test.
class UserFolder {
 public:
  UserFolder() : path_(std::filesystem::temp_directory_path() / "cairn_gpu_catalogue_test") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_ / "gpus");
  }
  ~UserFolder() { std::filesystem::remove_all(path_); }
  UserFolder(const UserFolder&) = delete;
  UserFolder& operator=(const UserFolder&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / "gpus" / name) << text;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_ = {};
};

}  // namespace

TEST_CASE("every entry of the catalogue loads, and leaves room for tensors") {
  const std::vector<GpuEntry> gpus = list_gpus({});
  CHECK(gpus.size() == 41);
  std::set<std::string> ids;
  for (const GpuEntry& entry : gpus) {
    CAPTURE(entry.device.id);
    CHECK(ids.insert(entry.device.id).second);
    CHECK_FALSE(entry.device.name.empty());
    CHECK_FALSE(entry.arch.empty());
    CHECK_FALSE(entry.confidence.empty());
    CHECK(entry.device.has_rates);
    CHECK(entry.device.matmul_16bit_flops > entry.device.matmul_fp32_flops);
    CHECK(entry.device.launch_ns == 4000);
    REQUIRE(entry.device.reserves.size() == 2);
    if (entry.has_capacity) {
      CHECK(capacity_bytes(entry.device) > 8'000'000'000);
      CHECK_FALSE(entry.device.total_origin.empty());
      CHECK(find_gpu(entry.device.id, {}).name == entry.device.name);
      CHECK(find_gpu(entry.device.name, {}).id == entry.device.id);
    } else {
      CHECK(entry.device.total_bytes == 0);
    }
  }
}

TEST_CASE("a card's capacity is the smallest total PyTorch printed, less the reserves") {
  const DeviceSpec device = find_gpu("rtx4090", {});
  // 23.51 GiB = 23.51 * 2^30 = 25243670282.24, rounded down.
  CHECK(device.total_bytes == 25'243'670'282);
  CHECK(device.total_origin == "smallest total that PyTorch printed, 23.51 GiB");
  REQUIRE(device.reserves.size() == 2);
  CHECK(device.reserves[0].what == "CUDA context");
  CHECK(device.reserves[0].bytes == 504'658'658);  // 0.47 GiB = 504658657.92, rounded up
  CHECK(device.reserves[1].what == "cuBLAS workspace");
  CHECK(device.reserves[1].bytes == 8'519'680);  // 2 * 4096 KiB + 8 * 16 KiB
  // 25243670282 - 504658658 - 8519680, about 23.03 GiB.
  CHECK(capacity_bytes(device) == 24'730'491'944);
}

TEST_CASE("the cuBLAS workspace depends on the architecture") {
  const std::vector<GpuEntry> gpus = list_gpus({});
  const auto workspace = [&](const char* id) {
    return entry_of(gpus, id).device.reserves[1].bytes;
  };
  CHECK(workspace("t4") == 8'519'680);
  CHECK(workspace("a100-40") == 8'519'680);
  CHECK(workspace("h100sxm") == 33'554'432);  // 9.0
  CHECK(workspace("b200") == 33'554'432);     // 10.0
  CHECK(workspace("b300") == 33'554'432);     // 10.3
  CHECK(workspace("rtx5090") == 33'554'432);  // 12.0
  CHECK(workspace("mi250x") == 33'554'432);   // ROCm
  CHECK(workspace("mi300x") == 134'217'728);  // gfx942
  CHECK(workspace("mi355x") == 134'217'728);  // gfx950
  CHECK(entry_of(gpus, "mi300x").device.reserves[0].what == "ROCm context");
  CHECK(entry_of(gpus, "mi300x").device.reserves[1].what == "hipBLAS workspace");
}

TEST_CASE("capacities of two more cards") {
  // 79.1 GiB = 84932978278.4; less 504658658 and 33554432: about 78.60 GiB.
  CHECK(capacity_of("h100sxm") == 84'394'765'188);
  // No total of PyTorch's: (97871 - 640) MiB = 101954093056; less 504658658 and 33554432.
  CHECK(find_gpu("gh200-96", {}).total_origin ==
        "nvidia-smi's 97871 MiB less 640 MiB for the driver");
  CHECK(capacity_of("gh200-96") == 101'415'879'966);
}

TEST_CASE("rates are achievable ones: measured, else a stated part of the peak") {
  const DeviceSpec h100 = find_gpu("h100sxm", {});
  CHECK(h100.matmul_16bit_flops == doctest::Approx(794.5e12));  // measured
  CHECK(h100.matmul_fp32_flops == doctest::Approx(53.6e12));    // 0.8 * 67
  CHECK(h100.bandwidth_bytes == doctest::Approx(2847.5e9));     // 0.85 * 3350
  const DeviceSpec rtx4090 = find_gpu("rtx4090", {});
  CHECK(rtx4090.matmul_16bit_flops == doctest::Approx(132.16e12));  // 0.8 * 165.2
  const DeviceSpec t4 = find_gpu("t4", {});
  CHECK(t4.matmul_16bit_flops == doctest::Approx(52e12));  // 0.8 * 65, of fp16
  CHECK(t4.lacks_bf16);
  CHECK_FALSE(rtx4090.lacks_bf16);
  CHECK_FALSE(find_gpu("24GiB", {}).lacks_bf16);
  const DeviceSpec mi250x = find_gpu("mi250x", {});
  CHECK(mi250x.matmul_16bit_flops == doctest::Approx(105.325e12));  // 0.55 * 191.5
  CHECK(mi250x.matmul_fp32_flops == doctest::Approx(13.1725e12));   // 0.55 * 23.95
}

TEST_CASE("a bare size is a card's total as nvidia-smi prints it") {
  const DeviceSpec device = find_gpu("24GiB", {});
  CHECK(device.id == "24GiB");
  CHECK(device.total_bytes == 25'769'803'776);
  CHECK_FALSE(device.has_rates);
  REQUIRE(device.reserves.size() == 3);
  CHECK(device.reserves[0].what == "driver");
  CHECK(device.reserves[0].bytes == 671'088'640);  // 640 MiB
  CHECK(device.reserves[1].bytes == 504'658'658);
  CHECK(device.reserves[2].bytes == 8'519'680);
  // 25769803776 - 671088640 - 504658658 - 8519680, about 22.90 GiB.
  CHECK(capacity_bytes(device) == 24'585'536'798);
  CHECK(find_gpu("24GB", {}).total_bytes == 24'000'000'000);
  CHECK(find_gpu("24564MiB", {}).total_bytes == 25'757'220'864);
  CHECK(find_gpu("25769803776", {}).total_bytes == 25'769'803'776);
}

TEST_CASE("ids and names are found in common spellings") {
  for (const char* spelling :
       {"rtx4090", "RTX 4090", "rtx-4090", "GeForce RTX 4090", "NVIDIA GeForce RTX 4090"}) {
    CHECK(find_gpu(spelling, {}).id == "rtx4090");
  }
  CHECK(find_gpu("A100-80 SXM", {}).id == "a100-80sxm");
  CHECK(find_gpu("NVIDIA A100 80GB PCIe", {}).id == "a100-80pcie");
  CHECK(find_gpu("nvidia l4", {}).id == "l4");
  CHECK(find_gpu("Tesla T4", {}).id == "t4");
  CHECK(find_gpu("V100 32", {}).id == "v100-32");
  CHECK(find_gpu("amd-mi300x", {}).id == "mi300x");
}

TEST_CASE("a name that fits several cards lists them") {
  CHECK(gpu_refusal("h100") ==
        "GPU 'h100': several cards fit; expected one of: h100pcie, h100sxm, h100nvl");
  CHECK(gpu_refusal("A100-80") ==
        "GPU 'A100-80': several cards fit; expected one of: a100-80pcie, a100-80sxm");
  CHECK(gpu_refusal("a100 80gb") ==
        "GPU 'a100 80gb': several cards fit; expected one of: a100-80pcie, a100-80sxm");
  CHECK(gpu_refusal("100-80") ==
        "GPU '100-80': several cards fit; expected one of: a100-80pcie, a100-80sxm; or a total "
        "with its unit, such as 24GiB");
}

TEST_CASE("a part of a name is no name: cards of other capacities share it") {
  const std::string expected = "expected a GPU of the catalogue, or a card's total such as 24GiB";
  CHECK(gpu_refusal("rtx4060ti") ==
        "GPU 'rtx4060ti': " + expected + "; did you mean 'rtx4060ti-16'?");
  CHECK(gpu_refusal("4090") == "GPU '4090': " + expected + "; did you mean 'rtx4090'?");
  CHECK(gpu_refusal("3090ti") == "GPU '3090ti': " + expected + "; did you mean 'rtx3090ti'?");
}

TEST_CASE("an unknown name offers the nearest") {
  const std::string expected = "expected a GPU of the catalogue, or a card's total such as 24GiB";
  CHECK(gpu_refusal("rtx4099") == "GPU 'rtx4099': " + expected + "; did you mean 'rtx4090'?");
  CHECK(gpu_refusal("xt4090") == "GPU 'xt4090': " + expected + "; did you mean 'rtx4090'?");
  CHECK(gpu_refusal("abacus of wood") == "GPU 'abacus of wood': " + expected);
  CHECK(gpu_refusal("") == "GPU '': " + expected);
  CHECK(gpu_refusal("nvidia") == "GPU 'nvidia': " + expected);
}

TEST_CASE("a card without a verified capacity asks for the size") {
  CHECK(gpu_refusal("b300") ==
        "GPU 'b300': the catalogue has no verified capacity of the B300 SXM; expected its total "
        "instead, as nvidia-smi prints it, such as 24GiB");
  CHECK(gpu_refusal("H100 NVL") ==
        "GPU 'h100nvl': the catalogue has no verified capacity of the H100 NVL 94GB; expected its "
        "total instead, as nvidia-smi prints it, such as 24GiB");
}

TEST_CASE("a total that is none is refused") {
  CHECK(gpu_refusal("24G") ==
        "GPU: expected a size in B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, found '24G'; write GiB (a "
        "power of 1024) or GB (a power of 1000)");
  CHECK(gpu_refusal("-24GiB") == "GPU: expected a size above zero, found '-24GiB'");
  CHECK(gpu_refusal("-1") == "GPU: expected a size above zero, found '-1'");
  // 640 MiB + 481.3 MiB + 8.1 MiB
  CHECK(gpu_refusal("1GiB") ==
        "GPU: expected a name, or a total above the 1129 MiB that the driver, CUDA and cuBLAS "
        "take, found '1GiB'");
  CHECK(gpu_refusal("24") ==
        "GPU: expected a name, or a total above the 1129 MiB that the driver, CUDA and cuBLAS "
        "take, found '24'; did you mean 24GiB?");
  CHECK(gpu_refusal("9999TiB") == "GPU: expected at most 1024TiB, found '9999TiB'");
}

TEST_CASE("sizes are exact") {
  CHECK(parse_bytes("1073741824", "--budget") == 1'073'741'824);
  CHECK(parse_bytes("1B", "--budget") == 1);
  CHECK(parse_bytes("512KiB", "--budget") == 524'288);
  CHECK(parse_bytes("512MiB", "--budget") == 536'870'912);
  CHECK(parse_bytes("24GiB", "--budget") == 25'769'803'776);
  CHECK(parse_bytes("2TiB", "--budget") == 2'199'023'255'552);
  CHECK(parse_bytes("3kB", "--budget") == 3'000);
  CHECK(parse_bytes("3MB", "--budget") == 3'000'000);
  CHECK(parse_bytes("16GB", "--budget") == 16'000'000'000);
  CHECK(parse_bytes("1TB", "--budget") == 1'000'000'000'000);
  CHECK(parse_bytes("1024TiB", "--budget") == 1'125'899'906'842'624);
}

TEST_CASE("the case of a unit, and blanks around it, do not matter") {
  CHECK(parse_bytes("24gb", "--budget") == 24'000'000'000);
  CHECK(parse_bytes("24gib", "--budget") == 25'769'803'776);
  CHECK(parse_bytes("24GIB", "--budget") == 25'769'803'776);
  CHECK(parse_bytes("3KB", "--budget") == 3'000);
  CHECK(parse_bytes(" 24 GiB ", "--budget") == 25'769'803'776);
}

TEST_CASE("decimals are rounded down to a byte") {
  CHECK(parse_bytes("1.5GiB", "--budget") == 1'610'612'736);
  CHECK(parse_bytes("0.47GiB", "--budget") == 504'658'657);      // .92 dropped
  CHECK(parse_bytes("23.51GiB", "--budget") == 25'243'670'282);  // .24 dropped
  CHECK(parse_bytes("1.0009765625KiB", "--budget") == 1'025);    // 1024 + 1 exactly
  CHECK(parse_bytes("0.9999999999999999999999999GiB", "--budget") == 1'073'741'823);
}

TEST_CASE("what is no size is refused") {
  CHECK(size_refusal("") == "--budget: expected a size such as 24GiB, found ''");
  CHECK(size_refusal("GiB") == "--budget: expected a size such as 24GiB, found 'GiB'");
  CHECK(size_refusal("1.GiB") == "--budget: expected a size such as 24GiB, found '1.GiB'");
  CHECK(size_refusal(".5GiB") == "--budget: expected a size such as 24GiB, found '.5GiB'");
  CHECK(size_refusal("+1GiB") == "--budget: expected a size such as 24GiB, found '+1GiB'");
  CHECK(size_refusal("0") == "--budget: expected a size above zero, found '0'");
  CHECK(size_refusal("0.0GiB") == "--budget: expected a size above zero, found '0.0GiB'");
  CHECK(size_refusal("0.0001KiB") == "--budget: expected a size above zero, found '0.0001KiB'");
  CHECK(size_refusal("-6GiB") == "--budget: expected a size above zero, found '-6GiB'");
  CHECK(size_refusal("1.5") ==
        "--budget: expected a unit such as GiB behind the number, found '1.5'");
  CHECK(size_refusal("1.5B") == "--budget: expected whole bytes, found '1.5B'");
  CHECK(size_refusal("1024.1TiB") == "--budget: expected at most 1024TiB, found '1024.1TiB'");
  CHECK(size_refusal("1125899906842625") ==
        "--budget: expected at most 1024TiB, found '1125899906842625'");
  CHECK(size_refusal("99999999999999999999") ==
        "--budget: expected at most 1024TiB, found '99999999999999999999'");
  const std::string units = "--budget: expected a size in B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, ";
  CHECK(size_refusal("6m") ==
        units + "found '6m'; write MiB (a power of 1024) or MB (a power of 1000)");
  CHECK(size_refusal("6GiBs") == units + "found '6GiBs'");
  CHECK(size_refusal("1e9") == units + "found '1e9'");
  CHECK(size_refusal("1,5GiB") == units + "found '1,5GiB'");
  CHECK(size_refusal("\x1b[31m") == "--budget: expected a size such as 24GiB, found '?[31m'");
}

TEST_CASE("a user's folder adds cards, and replaces those of the same id") {
  const UserFolder folder;
  folder.write("a.yaml",
               "gpus:\n"
               "  - {id: mine, name: My card, compute: 8.9, nvidia_smi_total_mib: 10000}\n"
               "  - {id: rtx4090, name: My RTX 4090, torch_total_gib_seen: [20.0]}\n");
  folder.write("b.yaml",
               "defaults: {driver_gap_mib: 100, context_gib: 1}\n"
               "gpus:\n"
               "  - {id: yours, name: Your card, nvidia_smi_total_mib: 10000}\n");
  folder.write("notes.txt", "not a GPU file");
  const std::vector<GpuEntry> gpus = list_gpus({folder.path()});
  CHECK(gpus.size() == 43);
  const DeviceSpec mine = find_gpu("My Card", {folder.path()});
  CHECK(mine.id == "mine");
  CHECK_FALSE(mine.has_rates);
  CHECK(mine.total_bytes == 9'814'671'360);  // (10000 - 640) MiB
  const DeviceSpec replaced = find_gpu("rtx4090", {folder.path()});
  CHECK(replaced.name == "My RTX 4090");
  CHECK(replaced.total_bytes == 21'474'836'480);  // 20 GiB
  CHECK_FALSE(replaced.has_rates);
  const DeviceSpec yours = find_gpu("yours", {folder.path()});
  CHECK(yours.total_bytes == 10'380'902'400);  // (10000 - 100) MiB
  CHECK(yours.reserves[0].bytes == 1'073'741'824);
  CHECK(yours.reserves[1].bytes == 8'519'680);  // inherited
  // A file's defaults are its own.
  CHECK(find_gpu("24GiB", {folder.path()}).reserves[0].bytes == 671'088'640);
}

TEST_CASE("a user's folder without a folder of GPUs adds none") {
  CHECK(list_gpus({std::filesystem::path(CAIRN_SOURCE_DIR) / "docs"}).size() == 41);
}

TEST_CASE("a bad file in a user's folder is told by its place") {
  const UserFolder folder;
  folder.write("bad.yaml", "gpus:\n  - {id: mine}\n");
  CHECK(refusal_of([&] { find_gpu("rtx4090", {folder.path()}); }) ==
        (folder.path() / "gpus/bad.yaml").string() +
            ":2:5: GPU 'mine': missing key 'name'\n  - {id: mine}\n    ^");
}

TEST_CASE("a decimal size says what it is in GiB, since cards hold binary sizes") {
  CHECK(find_gpu("80GB", {}).note == "80GB is 74.5 GiB; a card that is sold as 80 GB holds 80GiB");
  CHECK(find_gpu("80GiB", {}).note.empty());
  CHECK(find_gpu("rtx4090", {}).note.empty());
}

TEST_CASE("each bad GPU file is refused with its own message") {
  const std::vector<std::pair<std::string, std::string>> messages = {
      {"not_a_list.yaml", ":2:3: GPU file: key 'gpus': expected a list, found a mapping"},
      {"no_gpus.yaml", ":1:1: GPU file: missing key 'gpus', found 'gpu'"},
      {"missing_id.yaml", ":2:5: GPU: missing key 'id'"},
      {"missing_name.yaml", ":2:5: GPU 'mine': missing key 'name'"},
      {"id_like_a_size.yaml",
       ":2:9: GPU: key 'id': expected a name that begins with a letter, found '24gb'"},
      {"unknown_key.yaml",
       ":4:5: GPU 'mine': unknown key 'nvidia_smi_total_mb'; did you mean "
       "'nvidia_smi_total_mib'?"},
      {"negative_memory.yaml",
       ":4:27: GPU 'mine': key 'nvidia_smi_total_mib': expected an integer from 1 to 1073741824, "
       "found '-24564'"},
      {"fractional_memory.yaml",
       ":4:27: GPU 'mine': key 'nvidia_smi_total_mib': expected an integer, found '24564.5'"},
      {"memory_overflow.yaml",
       ":4:27: GPU 'mine': key 'nvidia_smi_total_mib': expected an integer from 1 to 1073741824, "
       "found '9007199254740993'"},
      {"memory_below_reserves.yaml",
       ":2:5: GPU 'mine': its total leaves nothing behind what the driver, CUDA and cuBLAS take"},
      {"torch_total_not_a_list.yaml",
       ":4:27: GPU 'mine': key 'torch_total_gib_seen': expected a list, found '23.5'"},
      {"torch_total_zero.yaml",
       ":4:34: GPU 'mine': key 'torch_total_gib_seen': expected a number above 0 and at most "
       "1048576, found '0'"},
      {"rate_of_text.yaml",
       ":4:24: GPU 'mine': key 'bf16_dense_tflops': expected a number, found the text '165'"},
      {"rate_in_flops.yaml",
       ":4:24: GPU 'mine': key 'bf16_dense_tflops': expected a number above 0 and at most "
       "1000000, found '1.65e14'"},
      {"negative_link.yaml",
       ":4:23: GPU 'mine': key 'nvlink_total_gbs': expected a rate in GB/s, found '-1'"},
      {"unknown_confidence.yaml",
       ":4:17: GPU 'mine': key 'confidence': expected low, med or high, found 'sure'"},
      {"same_id_twice.yaml", ":3:5: GPU 'mine': the file has it twice"},
      {"fraction_above_one.yaml",
       ":2:20: GPU defaults: key 'matmul_fraction': expected a number above 0 and at most 1, "
       "found '80'"},
      {"unknown_workspace.yaml",
       ":2:28: GPU defaults: key 'cublas_workspace_bytes': unknown key 'sm90'; expected one of: "
       "default, sm90_sm100_sm120, rocm, gfx94x_gfx95x"},
  };
  std::size_t file_count = 0;
  for (const auto& file : std::filesystem::directory_iterator(kBadGpus)) {
    CAPTURE(file.path().filename().string());
    ++file_count;
    const auto expected = std::find_if(messages.begin(), messages.end(), [&](const auto& entry) {
      return entry.first == file.path().filename();
    });
    REQUIRE(expected != messages.end());
    CHECK(file_refusal(expected->first) == expected->second);
  }
  CHECK(file_count == messages.size());
}

}  // namespace cairn
