#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <utility>

#include "graph/error.h"
#include "models/expression.h"
#include "models/source_text.h"

// Recursive descent over the characters, one function a level of precedence, emitting postfix code.

namespace cairn {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxTextBytes = 10'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

struct Operator {
  std::string_view symbol;
  Operation operation;
};

// Longer symbols first, so that '//' is not read as '/'.
constexpr Operator kComparisons[] = {
    {"==", Operation::kEqual},        {"!=", Operation::kNotEqual}, {"<=", Operation::kLessEqual},
    {">=", Operation::kGreaterEqual}, {"<", Operation::kLess},      {">", Operation::kGreater}};
constexpr Operator kSums[] = {{"+", Operation::kAdd}, {"-", Operation::kSubtract}};
constexpr Operator kProducts[] = {{"*", Operation::kMultiply},
                                  {"//", Operation::kFloorDivide},
                                  {"/", Operation::kDivide},
                                  {"%", Operation::kRemainder}};
constexpr Operator kFunctions[] = {{"min", Operation::kMin},
                                   {"max", Operation::kMax},
                                   {"ceil_div", Operation::kCeilDivide},
                                   {"round_up", Operation::kRoundUp},
                                   {"floor", Operation::kFloor},
                                   {"sqrt", Operation::kSquareRoot},
                                   {"log", Operation::kLogarithm}};
constexpr std::string_view kWords[] = {"if", "else", "and", "or", "not"};

class Parser {
 public:
  explicit Parser(std::string_view text) { expression_.text = text; }

  Expression parse() {
    if (text().size() > kMaxTextBytes) {
      throw ExpressionError(
          fmt::format("expected at most {} characters, found more", kMaxTextBytes), kMaxTextBytes);
    }
    skip_blanks();
    conditional();
    if (offset_ < text().size()) fail("expected an operator or the end");
    return std::move(expression_);
  }

 private:
  // One level of nesting: a bracket, a sign, a 'not', an 'else'.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth) {
        throw ExpressionError(
            fmt::format("expected at most {} levels of nesting, found more", kMaxDepth),
            parser_.offset_);
      }
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  std::string_view text() const { return expression_.text; }
  std::string_view rest() const { return text().substr(offset_); }

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string found = offset_ == text().size() ? "the end of the expression"
                                                       : "'" + first_character(rest()) + "'";
    throw ExpressionError(expected + ", found " + found, offset_);
  }

  void skip_blanks() {
    offset_ = std::min(text().find_first_not_of(" \t\r\n", offset_), text().size());
  }

  // Every token is followed by blanks, which it takes along; token_end_ stays before them.
  void advance(std::size_t byte_count) {
    offset_ += byte_count;
    token_end_ = offset_;
    skip_blanks();
  }

  bool take(std::string_view symbol) {
    if (!rest().starts_with(symbol)) return false;
    advance(symbol.size());
    return true;
  }

  void require(std::string_view symbol) {
    if (!take(symbol)) fail(fmt::format("expected '{}'", symbol));
  }

  std::string_view peek_word() const {
    if (rest().empty() || !is_name_start(rest().front())) return {};
    const auto end = std::find_if_not(rest().begin(), rest().end(), is_name_part);
    return rest().substr(0, static_cast<std::size_t>(end - rest().begin()));
  }

  bool take_word(std::string_view word) {
    if (peek_word() != word) return false;
    advance(word.size());
    return true;
  }

  const Operator* take_operator(std::span<const Operator> operators) {
    for (const Operator& candidate : operators) {
      if (take(candidate.symbol)) return &candidate;
    }
    return nullptr;
  }

  void emit(Operation operation, std::size_t begin, std::size_t operand = 0) {
    expression_.code.push_back({.operation = operation,
                                .operand = static_cast<std::uint32_t>(operand),
                                .begin = static_cast<std::uint32_t>(begin),
                                .end = static_cast<std::uint32_t>(token_end_)});
  }

  void emit_constant(Value value, std::size_t begin) {
    expression_.constants.push_back(std::move(value));
    emit(Operation::kConstant, begin, expression_.constants.size() - 1);
  }

  // The index of a jump whose distance is set by land().
  std::size_t emit_jump(Operation operation, std::size_t begin) {
    emit(operation, begin);
    return expression_.code.size() - 1;
  }

  void land(std::size_t jump) {
    expression_.code[jump].operand = static_cast<std::uint32_t>(expression_.code.size() - jump - 1);
  }

  // x if c else y, in the order c, x, y. Jumps are relative, so x's code can be moved behind c's.
  void conditional() {
    const std::size_t begin = offset_;
    std::vector<Instruction>& code = expression_.code;
    const auto code_begin = static_cast<std::ptrdiff_t>(code.size());
    either();
    if (!take_word("if")) return;
    const std::vector<Instruction> chosen(code.begin() + code_begin, code.end());
    code.resize(static_cast<std::size_t>(code_begin));
    const std::size_t condition_begin = offset_;
    either();
    const std::size_t skip_chosen = emit_jump(Operation::kJumpIfFalse, condition_begin);
    code.insert(code.end(), chosen.begin(), chosen.end());
    const std::size_t skip_other = emit_jump(Operation::kJump, begin);
    if (!take_word("else")) fail("expected 'else'");
    land(skip_chosen);
    const Level level(*this);
    conditional();
    land(skip_other);
  }

  // a or b, as: if a is false go on with b, else 1.
  void either() {
    const std::size_t begin = offset_;
    both();
    while (peek_word() == "or") {
      const std::size_t try_second = emit_jump(Operation::kJumpIfFalse, begin);
      take_word("or");
      emit_constant(integer_value(1), begin);
      const std::size_t skip_second = emit_jump(Operation::kJump, begin);
      land(try_second);
      const std::size_t second_begin = offset_;
      both();
      emit(Operation::kCondition, second_begin);
      land(skip_second);
    }
  }

  // a and b, as: if a is false 0, else b.
  void both() {
    const std::size_t begin = offset_;
    negation();
    while (peek_word() == "and") {
      const std::size_t answer_false = emit_jump(Operation::kJumpIfFalse, begin);
      take_word("and");
      const std::size_t second_begin = offset_;
      negation();
      emit(Operation::kCondition, second_begin);
      const std::size_t skip_false = emit_jump(Operation::kJump, begin);
      land(answer_false);
      emit_constant(integer_value(0), begin);
      land(skip_false);
    }
  }

  void negation() {
    const std::size_t begin = offset_;
    if (!take_word("not")) return comparison();
    const Level level(*this);
    negation();
    emit(Operation::kNot, begin);
  }

  void comparison() {
    const std::size_t begin = offset_;
    sum();
    const Operator* found = take_operator(kComparisons);
    if (found == nullptr) return;
    sum();
    emit(found->operation, begin);
    const std::size_t second = offset_;
    if (take_operator(kComparisons) != nullptr) {
      offset_ = second;
      fail("expected one comparison (join two by 'and')");
    }
  }

  void sum() {
    const std::size_t begin = offset_;
    product();
    while (const Operator* found = take_operator(kSums)) {
      product();
      emit(found->operation, begin);
    }
  }

  void product() {
    const std::size_t begin = offset_;
    unary();
    while (const Operator* found = take_operator(kProducts)) {
      unary();
      emit(found->operation, begin);
    }
  }

  void unary() {
    const std::size_t begin = offset_;
    if (!take("-")) return atom();
    const Level level(*this);
    unary();
    emit(Operation::kNegate, begin);
  }

  void atom() {
    if (take("(")) {
      const Level level(*this);
      conditional();
      return require(")");
    }
    if (rest().empty()) fail("expected a value");
    const char first = rest().front();
    if (first == '\'' || first == '"') return quoted_text(first);
    if (is_digit(first)) return numeral();
    const std::string_view word = peek_word();
    if (word.empty() || std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords)) {
      fail("expected a value");
    }
    const std::size_t begin = offset_;
    advance(word.size());
    if (rest().starts_with('(')) return call(word, begin);
    if (word == "true" || word == "false") {
      return emit_constant(integer_value(word == "true" ? 1 : 0), begin);
    }
    std::vector<std::string>& names = expression_.names;
    const auto known = std::find(names.begin(), names.end(), word);
    const auto index = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) names.emplace_back(word);
    emit(Operation::kName, begin, index);
  }

  void call(std::string_view name, std::size_t begin) {
    const auto function =
        std::find_if(std::begin(kFunctions), std::end(kFunctions),
                     [&](const Operator& candidate) { return candidate.symbol == name; });
    if (function == std::end(kFunctions)) {
      std::vector<std::string> known;
      for (const Operator& candidate : kFunctions) known.emplace_back(candidate.symbol);
      throw ExpressionError(fmt::format("unknown function {}; expected one of: {}", in_quotes(name),
                                        join_names(known)),
                            begin);
    }
    require("(");
    const Level level(*this);
    conditional();
    const bool takes_one = function->operation == Operation::kFloor ||
                           function->operation == Operation::kSquareRoot ||
                           function->operation == Operation::kLogarithm;
    if (!takes_one) {
      require(",");
      conditional();
    }
    require(")");
    emit(function->operation, begin);
  }

  void quoted_text(char quote) {
    const std::size_t begin = offset_;
    const std::size_t end = text().find(quote, begin + 1);
    if (end == std::string_view::npos) {
      throw ExpressionError(
          fmt::format("expected a closing {} for this text, found the end of the expression",
                      quote),
          begin);
    }
    const std::string_view inside = text().substr(begin + 1, end - begin - 1);
    advance(end + 1 - begin);
    emit_constant(text_value(std::string(inside)), begin);
  }

  void numeral() {
    const std::size_t begin = offset_;
    const char* first = rest().data();
    const char* last = first + rest().size();
    double number = 0;
    const std::from_chars_result as_number = std::from_chars(first, last, number);
    std::int64_t integer = 0;
    const std::from_chars_result as_integer = std::from_chars(first, last, integer);
    const bool is_integer = as_integer.ptr == as_number.ptr;
    if ((is_integer ? as_integer.ec : as_number.ec) == std::errc::result_out_of_range) {
      throw ExpressionError(is_integer ? "expected an integer within 64 bits, found a larger one"
                                       : "expected a number that fits a double, found another",
                            begin);
    }
    advance(static_cast<std::size_t>(as_number.ptr - first));
    if (token_end_ < text().size() && is_name_part(text()[token_end_])) {
      offset_ = token_end_;
      fail("expected an operator after the number");
    }
    emit_constant(is_integer ? integer_value(integer) : number_value(number), begin);
  }

  Expression expression_ = {};
  std::size_t offset_ = 0;
  std::size_t token_end_ = 0;
  std::size_t depth_ = 0;
};

}  // namespace

Expression parse_expression(std::string_view text) { return Parser(text).parse(); }

}  // namespace cairn
