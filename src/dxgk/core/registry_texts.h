// Texts that a driver's installation left in the registry, as clients ask for them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nt/registry_store.h"

namespace dxgkit::dxgk {

/// The keys that clients' questions are about.
inline constexpr std::u16string_view kSoftwareKey = u"\\Registry\\Machine\\dxgkit\\Driver";
inline constexpr std::u16string_view kPropertiesKey = u"\\Registry\\Machine\\dxgkit\\Properties";
inline constexpr std::u16string_view kServiceKey =
    u"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\dxgkit";

/// A text (REG_SZ, REG_EXPAND_SZ, or REG_BINARY with UTF-16 in it) up to its terminator. Nothing if
/// there is no such value, or one of another type. Any thread.
std::optional<std::u16string> registry_text(nt::Kernel& kernel, std::u16string_view key,
                                            std::u16string_view name);
/// The texts of a REG_MULTI_SZ, or the only one of a REG_SZ; empty if there is no such value.
std::vector<std::u16string> registry_texts(nt::Kernel& kernel, std::u16string_view key,
                                           std::u16string_view name);
/// A REG_DWORD.
std::optional<uint32_t> registry_number(nt::Kernel& kernel, std::u16string_view key,
                                        std::u16string_view name);
/// "31.0.101.2" as one number: 16 bits for each part, the first one on top. Nothing unless the text
/// has four numbers below 65536.
std::optional<uint64_t> parse_version(std::u16string_view text);

}  // namespace dxgkit::dxgk
