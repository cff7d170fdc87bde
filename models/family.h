#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ops/op_kind.h"
#include "models/document.h"
#include "models/expression.h"

// A family file, parsed: a symbolic model with named dims. docs/formats.md describes the format.
// A layer file (models/layers/) spells out one op in smaller ops: an op kind, the way one library
// runs it, or a composite that families and other layers use like a kind.

namespace cairn {

// An expression and where it stands, for errors that turn up when it is evaluated.
struct PlacedExpression {
  Expression expression = {};
  const Document* document = nullptr;  // it was read from
  const Node* node = nullptr;          // in that document
};

// kDerived: any value, computed from the dims before it; no key or option gives it.
enum class DimType { kSize, kFlag, kRate, kFactor, kText, kDerived };

// A dim, and the config.json keys that give it.
struct FamilyDim {
  std::string name = {};
  DimType type = DimType::kSize;
  std::vector<std::string> config_keys = {};
  std::optional<PlacedExpression> default_value = {};  // without one, the key must be there
  std::optional<PlacedExpression> null_value = {};     // where the key is there and its value null
  std::int64_t least = 1;                              // of a size; of a factor 0, or 1: above 0
};

// A dim with a value for each block of a repeat.
struct PerLayerDim {
  std::string name = {};
  std::vector<std::string> config_keys = {};  // of a list
  bool is_membership = false;             // the list holds numbers of blocks; the value is a flag
  std::vector<std::string> allowed = {};  // texts; empty: any value
  std::optional<PlacedExpression> default_value = {};  // may use `block`
};

// A condition on dims that must hold, and what to say where it does not.
struct FamilyRequirement {
  PlacedExpression condition = {};
  std::string otherwise = {};
};

// What the user should know where a condition on dims holds.
struct FamilyNote {
  PlacedExpression condition = {};
  std::string text = {};
};

struct FamilyInput {
  std::string name = {};
  const Document* document = nullptr;
  Position position = {};
  std::string data_type = {};  // a type's name, or "activation"
  std::vector<PlacedExpression> shape = {};
  bool is_learned = false;  // a parameter of the model that is no op's
};

// Shares another op's parameter: {weight: embed, if: tied}.
struct SharedWeight {
  std::string op_name = {};
  std::optional<PlacedExpression> condition = {};
};

struct FamilyOp {
  std::string name = {};
  const Document* document = nullptr;
  Position position = {};
  const OpKindInfo* kind = nullptr;  // null: a composite layer
  std::string layer_name = {};       // of a composite layer
  Position kind_position = {};
  std::vector<std::string> inputs = {};
  std::vector<std::string> output_names = {};  // of an op with several outputs
  std::vector<std::pair<AttributeKey, PlacedExpression>> attributes = {};
  std::vector<PlacedExpression> widths = {};  // AttributeKey::kWidths
  // Of a linear layer that is several in one: their names and widths, in the order of its columns.
  std::vector<std::pair<std::string, PlacedExpression>> fused = {};
  std::vector<std::pair<std::string, PlacedExpression>> layer_attributes = {};  // of a composite
  std::string data_type = {};                      // "", or one of type_names_of_files()
  std::string type_of = {};                        // instead: a tensor's name, whose type it is
  std::optional<PlacedExpression> condition = {};  // where false, the first input passes through
  std::optional<SharedWeight> shared_weight = {};
  std::string module = {};
  std::string held_until = {};  // "", a scope below, or a later op's name
  std::string each = {};  // of a layer: ops in a row with the same run once for each item of a list
  bool is_logits = false;
  bool is_cap = false;   // of the logits: part of a loss that takes the head
  bool is_base = false;  // of an adapter's layer: the linear layer that the adapter is beside
  bool is_input_embeddings = false;  // what get_input_embeddings() of Transformers makes
  bool is_bare = false;              // a linear that is no module: a function of a parameter
  bool has_adapter_weights = false;  // its parameters are an adapter's, of the adapter's type
  bool autocast = true;  // false: a part of a function whose own inputs autocast has cast
};

// Until when a name holds its tensor, besides the names of ops of its list.
inline constexpr std::string_view kModuleScope = "module";    // until that list of ops ends
inline constexpr std::string_view kBlockScope = "block";      // until the repeated block ends
inline constexpr std::string_view kForwardScope = "forward";  // until the last op
inline constexpr std::string_view kLossScope = "loss";        // until the loss is made

// One op, or a block of them repeated `count` times.
struct FamilyItem {
  FamilyOp op = {};  // when `block_ops` is empty
  std::vector<FamilyOp> block_ops = {};
  std::string block_name = {};  // "layers": the ops are layers.0.q, layers.1.q, ...
  PlacedExpression count = {};
  std::string carry_name = {};  // what each block hands to the next
  std::string carry_from = {};  // what the first block gets
  std::string module = {};
  Position position = {};
};

// How one op kind is run: by its own kernel, or spelled out by a layer file. Or which composite
// stands for the one that ops name.
struct Implementation {
  std::string option = {};  // of kImplementationOptions, which chooses; "": always the default
  std::string default_choice = {};
  std::map<std::string, std::string> layer_of_choice = {};  // "" is the kind's own kernel
  const Document* document = nullptr;
  Position key_position = {};
  Position position = {};
};

enum class Samples { kTokens, kImages };

struct Family {
  std::string name = {};
  std::string title = {};
  std::vector<std::string> model_types = {};
  std::vector<std::string> architectures = {};  // of a config: which it counts; empty: any
  std::string library = {};                     // whose code it is: "hf"; "": not said
  std::vector<std::string> stands_for = {};     // families whose models that library runs so
  Samples samples = Samples::kTokens;           // of images: there are no tokens
  std::vector<FamilyDim> dims = {};
  std::vector<PerLayerDim> per_layer = {};
  std::vector<FamilyRequirement> requirements = {};
  std::vector<FamilyNote> notes = {};
  std::string token_limit_dim = {};  // the dim that bounds --tokens by default; "" for none
  std::vector<FamilyInput> inputs = {};
  std::map<std::string, Implementation> implementations = {};  // by op kind or composite
  std::vector<std::string> adapter_targets = {};  // where a recipe with adapters names none
  // Targets that PEFT takes for experts' parameters too.
  std::vector<std::string> refused_targets = {};
  std::vector<std::string> unquantized = {};  // linear layers that its library never quantises
  // The layer file of a linear layer with a weight of 4 bits; the library has no 8 bits then. "":
  // those of bitsandbytes as Transformers has them.
  std::string linear_4bit = {};
  bool quantizes_head = false;
  bool has_full_embedding_states = false;  // Recipe::has_full_embedding_states, of its trainer
  std::vector<FamilyItem> items = {};
  std::shared_ptr<const Document> document = {};
  std::vector<std::shared_ptr<const Document>> included = {};  // section files
};

struct LayerAttribute {
  std::string name = {};
  std::optional<PlacedExpression> default_value = {};  // may use the attributes before it
};

struct Layer {
  std::string name = {};
  std::string of_kind = {};  // "": a composite
  std::vector<std::string> inputs = {};
  std::vector<LayerAttribute> attributes = {};  // of a composite; else those of its kind
  std::vector<std::string> outputs = {};        // names its ops make
  // Of a loss: it has the head, the linear that makes the logits, in itself. Its first input is the
  // head's, and its attributes are.
  bool takes_head = false;
  // Of a layer with an adapter: the type of the adapter's weights, where the recipe asks for none.
  std::string adapter_type = {};
  std::vector<FamilyRequirement> requirements = {};  // of a composite: on its attributes
  bool is_inline = false;  // a composite that is no call: what goes in is held no longer for it
  std::vector<FamilyOp> ops = {};
  std::shared_ptr<const Document> document = {};
};

// Throw InputError with the position in the file. `sections` are the files that the family
// includes, in its order.
Family parse_family(Document document, std::vector<Document> sections = {});
Layer parse_layer(Document document);

// Some keys of a family file, without reading the rest of it strictly.
std::vector<std::string> family_model_types(const Document& document);
std::vector<std::string> family_includes(const Document& document);
std::string family_library(const Document& document);
std::vector<std::string> family_stands_for(const Document& document);

}  // namespace cairn
