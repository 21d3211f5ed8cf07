// Words for people: the name that somebody meant, and things with their number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit {

/// ASCII letters in lower case.
std::string lower(std::string_view text);

/// The number of single changes that make `typed` of `name`: a character too many, too few or
/// wrong, or two neighbours exchanged. Upper and lower case are the same.
size_t spelling_distance(std::string_view typed, std::string_view name);

/// "; did you mean NAME?" with the nearest of `names`; nothing if none is near. A third of the
/// characters may differ. A beginning of at least three characters is near too.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> names);

/// The same for names that are inside of other values.
template <typename Values, typename NameOf>
std::string did_you_mean(std::string_view typed, const Values& values, NameOf name_of) {
  std::vector<std::string_view> names;
  for (const auto& value : values) names.push_back(name_of(value));
  return did_you_mean(typed, names);
}

/// "1 node", "3 nodes"; `many` is for words whose plural has no s: "1 entry", "2 entries".
std::string counted(uint64_t count, std::string_view one, std::string_view many = {});

}  // namespace dxgkit
