#include "verifier/observed.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "verifier/bug_checks.h"

namespace dxgkit::verifier {
namespace {

/// What stands in brackets behind a code word: "119,1" of "BC(119,1)"; and the text behind it.
struct Arguments {
  std::string_view inside;
  std::string_view rest;
};

Arguments arguments_of(std::string_view text) {
  if (!text.starts_with('(')) return {.inside = {}, .rest = text};
  const size_t end = text.find(')');
  return {.inside = text.substr(1, end - 1), .rest = text.substr(end + 1)};
}

std::optional<uint32_t> hex(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool continues_word(std::string_view text) {
  return !text.empty() &&
         (std::isalnum(static_cast<unsigned char>(text[0])) != 0 || text[0] == '_');
}

/// A bug check that `observed` names.
struct NamedBugCheck {
  const BugCheck* check;
  const BugCheckValue* value;  // null if the first parameter is not given, or is data
};

std::optional<NamedBugCheck> bug_check_of(std::string_view inside) {
  const size_t comma = inside.find(',');
  const std::optional<uint32_t> code = hex(inside.substr(0, comma));
  if (!code.has_value()) return std::nullopt;
  const BugCheck* const check = find_bug_check(*code);
  if (check == nullptr) return std::nullopt;
  const auto value = comma == std::string_view::npos ? std::nullopt : hex(inside.substr(comma + 1));
  return NamedBugCheck{.check = check,
                       .value = value.has_value() ? find_value(*check, *value) : nullptr};
}

/// "bug check 0x119 VIDEO_SCHEDULER_INTERNAL_ERROR (parameter 1 = 0x1)".
std::string name_of(std::string_view inside) {
  const auto named = bug_check_of(inside);
  if (!named.has_value()) return "a bug check";
  std::string out = fmt::format("bug check 0x{:X} {}", named->check->code, named->check->name);
  if (named->value != nullptr) out += fmt::format(" (parameter 1 = 0x{:X})", named->value->value);
  return out;
}

/// The code words, as a sentence begins with them, and as a noun within one.
struct CodeWord {
  std::string_view word;
  std::string_view sentence;
  std::string_view noun;
};

constexpr std::array kCodeWords = {
    CodeWord{"TEST", "Nothing outside dxgkit shows it: a test of dxgkit fails",
             "a test that fails"},
    CodeWord{"VIOL warning", "dxgkit reports a warning", "a warning"},
    CodeWord{"VIOL", "dxgkit reports a finding", "a finding"},
    CodeWord{"WARNING", "dxgkit reports a warning", "a warning"},
    CodeWord{"START-FAIL", "The adapter does not start", "a start that fails"},
    CodeWord{"TDR-ENGINE", "Timeout detection resets the engine",
             "a reset of the engine by timeout detection"},
    CodeWord{"TDR-ADAPTER", "Timeout detection resets the adapter",
             "a reset of the adapter by timeout detection"},
    CodeWord{"DEV-ERR", "The device is lost", "a lost device"},
    CodeWord{"BC", "Windows stops with ", ""},
};

const CodeWord* code_word_at(std::string_view text) {
  for (const CodeWord& word : kCodeWords) {
    if (text.starts_with(word.word) && !continues_word(text.substr(word.word.size()))) return &word;
  }
  return nullptr;
}

/// The text with the code words in it as nouns.
std::string with_nouns(std::string_view text) {
  std::string out;
  bool in_word = false;
  while (!text.empty()) {
    const CodeWord* const word = in_word ? nullptr : code_word_at(text);
    if (word == nullptr) {
      out += text[0];
      in_word = continues_word(text);
      text.remove_prefix(1);
      continue;
    }
    const bool has_arguments = word->word == "BC" || word->word == "DEV-ERR";
    const std::string_view behind = text.substr(word->word.size());
    const auto [inside, rest] = has_arguments ? arguments_of(behind) : Arguments{{}, behind};
    out += word->word == "BC" ? name_of(inside) : std::string(word->noun);
    text = rest;
  }
  return out;
}

std::string capitalised(std::string text) {
  // The name of a routine stays as it is.
  if (!text.starts_with("dxgkit"))
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

/// "returned STATUS_X": what a call answers, with the text behind it.
std::string answer_sentence(std::string_view clause) {
  const std::string text = fmt::format("The call returns {}", with_nouns(clause));
  const bool says_so = clause.contains("nothing changed") || clause.contains("no page changed") ||
                       clause.contains("no operation applied");
  if (says_so || clause.starts_with("STATUS_SUCCESS")) return text + ".";
  return text + ", and nothing has changed.";
}

std::string sentence_of(std::string_view clause, Who who) {
  if (clause == "as named") return "What is seen is what the rule itself names.";
  if (clause.starts_with("Windows: "))
    return "On Windows: " + sentence_of(clause.substr(clause.find(' ') + 1), who);
  if (clause.starts_with("here "))
    return fmt::format("In dxgkit: {}.", with_nouns(clause.substr(5)));
  if (clause.starts_with("STATUS_") || clause.starts_with("NULL")) return answer_sentence(clause);
  const CodeWord* const word = code_word_at(clause);
  if (word == nullptr) return capitalised(with_nouns(clause)) + ".";
  const std::string_view behind = clause.substr(word->word.size());
  if (word->word == "BC") {
    const auto [inside, rest] = arguments_of(behind);
    return fmt::format("{}{}{}. dxgkit records it and stops this adapter only.", word->sentence,
                       name_of(inside), with_nouns(rest));
  }
  if (word->word == "DEV-ERR") {
    const auto [inside, rest] = arguments_of(behind);
    return fmt::format("{}{}{}{}.", word->sentence, inside.empty() ? "" : ", with the state ",
                       inside, with_nouns(rest));
  }
  if (word->word == "TEST" && who == Who::kMiniport)
    return fmt::format("No single call shows it; a test of dxgkit tries it{}.", with_nouns(behind));
  return fmt::format("{}{}.", word->sentence, with_nouns(behind));
}

/// Cuts at the separators that stand outside brackets.
std::vector<std::string_view> clauses_of(std::string_view observed) {
  // In this order: the first that fits counts.
  constexpr std::array<std::string_view, 6> kSeparators = {"; then ", "; ",      " / ",
                                                           " + ",     ", then ", ", BC("};
  std::vector<std::string_view> out;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at < observed.size(); ++at) {
    if (observed[at] == '(') ++depth;
    if (observed[at] == ')') --depth;
    if (depth != 0) continue;
    for (const std::string_view separator : kSeparators) {
      if (!observed.substr(at).starts_with(separator)) continue;
      out.push_back(observed.substr(begin, at - begin));
      // The bug check itself belongs to the clause that it begins.
      begin = at + (separator == ", BC(" ? 2 : separator.size());
      at = begin - 1;
      break;
    }
  }
  out.push_back(observed.substr(begin));
  return out;
}

bool is_bare_status(std::string_view clause) {
  return clause.starts_with("STATUS_") && !clause.contains(' ');
}

/// Several statuses in a row are one answer: which it is depends on the mistake.
std::string joined(const std::vector<std::string_view>& statuses) {
  std::string out(statuses[0]);
  for (size_t i = 1; i < statuses.size(); ++i)
    out += fmt::format("{}{}", i + 1 == statuses.size() ? " or " : ", ", statuses[i]);
  return out;
}

/// What the parameters of the bug checks in `observed` are, a sentence for each.
void add_parameters(std::string_view observed, std::vector<std::string>& sentences) {
  for (size_t at = observed.find("BC("); at != std::string_view::npos;
       at = observed.find("BC(", at + 1)) {
    const auto named = bug_check_of(arguments_of(observed.substr(at + 2)).inside);
    if (!named.has_value()) continue;
    const BugCheck& check = *named->check;
    if (named->value != nullptr) {
      sentences.push_back(fmt::format("0x{0:X} with parameter 1 = 0x{1:X} means: {2}", check.code,
                                      named->value->value, named->value->meaning));
      continue;
    }
    std::string parameters;
    for (size_t i = 0; i < check.parameters.size(); ++i)
      parameters += fmt::format(" {}: {}", i + 1, check.parameters[i]);
    sentences.push_back(fmt::format("0x{:X} means: {} Its parameters are{}", check.code,
                                    check.meaning, parameters));
  }
}

}  // namespace

std::vector<std::string> consequences_of(const Rule& rule) {
  std::vector<std::string> sentences;
  const std::vector<std::string_view> clauses = clauses_of(rule.observed);
  for (size_t i = 0; i < clauses.size(); ++i) {
    if (!is_bare_status(clauses[i])) {
      sentences.push_back(sentence_of(clauses[i], rule.who));
      continue;
    }
    std::vector<std::string_view> statuses = {clauses[i]};
    while (i + 1 < clauses.size() && is_bare_status(clauses[i + 1]))
      statuses.push_back(clauses[++i]);
    sentences.push_back(answer_sentence(joined(statuses)));
  }
  if (rule.observed == "VIOL") {
    sentences.emplace_back("The adapter goes on. No page says what Windows does.");
  } else if (rule.observed == "TEST" && rule.who == Who::kKernel) {
    sentences.emplace_back("A driver may rely on it.");
  }
  add_parameters(rule.observed, sentences);
  return sentences;
}

}  // namespace dxgkit::verifier
