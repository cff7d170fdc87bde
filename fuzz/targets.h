#pragma once

#include <string_view>

// What the fuzzers feed with arbitrary bytes, and what tests/fuzz/replay_test.cc feeds with every
// file of fuzz/corpus. Each returns for any input, refused or not; anything else is a find.

namespace cairn::fuzz {

void document(std::string_view bytes);
void expression(std::string_view bytes);
void plain_graph(std::string_view bytes);  // lowered, replayed and validated as well
void chain(std::string_view bytes);        // and the plain graph that is made of it
void plan(std::string_view bytes);         // behind its plain graph; written and read again too
void costs(std::string_view bytes);        // the same of measured costs
void recipe(std::string_view bytes);       // read, and taken by a model
void hf_config(std::string_view bytes);    // or a model file: to its graph, with two layers
void measured(std::string_view bytes);     // read, not run
void family(std::string_view bytes);       // or a layer; a family to its graph as well

}  // namespace cairn::fuzz
