#include "cli/run.h"

int main(int argc, char** argv) { return static_cast<int>(cairn::run_cairn(argc, argv)); }
