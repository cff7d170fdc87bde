#pragma once

namespace cairn {

enum class ExitCode {
  kDone = 0,           // it fits, or the question was answered
  kDoesNotFit = 1,     // nothing listed fits, or a plan is invalid
  kBadInput = 2,       // a file, an option or a value is at fault
  kDeviceFailure = 3,  // the device failed, not the plan
};

}  // namespace cairn
