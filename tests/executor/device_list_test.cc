#include "executor/device_list.h"

#include <doctest/doctest.h>

#include <string>

#include "graph/error.h"

namespace cairn {
namespace {

std::string refusal(const char* name) {
  try {
    make_device(name);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("the CPU is there everywhere") { CHECK(make_device("cpu")->name() == "cpu"); }

TEST_CASE("a device of another name is refused with the nearest") {
  CHECK(refusal("kuda") ==
        "--device: expected cpu, cuda or cuda:N, found 'kuda'; did you mean 'cuda'?");
  CHECK(refusal("CPU") ==
        "--device: expected cpu, cuda or cuda:N, found 'CPU'; did you mean 'cpu'?");
  CHECK(refusal("rocm") == "--device: expected cpu, cuda or cuda:N, found 'rocm'");
  for (const char* name : {"", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999"}) {
    CAPTURE(name);
    CHECK(refusal(name) != "");
  }
}

TEST_CASE("a GPU that is not there is a fault of the device, in one line") {
  try {
    make_device("cuda:4096");
    FAIL("there are not as many GPUs");
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    INFO(text);
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.substr(0, 20) == "--device cuda:4096: ");
    const bool says_which = text.find("was not found when it was configured") != text.npos ||
                            text.find("has no NVIDIA driver") != text.npos ||
                            text.find("driver is too old") != text.npos ||
                            text.find("shows no GPU") != text.npos ||
                            text.find("there is no GPU cuda:4096") != text.npos;
    CHECK(says_which);
  }
}

TEST_CASE("time between marks") {
  const std::unique_ptr<Device> device = make_device("cpu");
  const std::int64_t begin = device->mark();
  const std::int64_t end = device->mark();
  CHECK(device->elapsed_ns(begin, begin) == 0);
  CHECK(device->elapsed_ns(begin, end) > 0);
}

}  // namespace
}  // namespace cairn
