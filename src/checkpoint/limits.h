// The largest values that a model's facts may have, whatever file they stand in. Far above every
// known model, far below what could overflow or be allocated by mistake.
#pragma once

#include <cstdint>

namespace quern::checkpoint {

inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr std::int64_t kMaxHeads = 65536;
inline constexpr std::int64_t kMaxHeadDim = 65536;
inline constexpr std::int64_t kMaxHidden = 1'000'000;
inline constexpr std::int64_t kMaxInter = 10'000'000;
inline constexpr std::int64_t kMaxVocab = 100'000'000;
inline constexpr std::int64_t kMaxContext = 1'000'000'000;
inline constexpr std::int64_t kMaxExperts = 65536;
inline constexpr std::int64_t kMaxTensors = 1'000'000;  // also of keys in a file's metadata
inline constexpr std::int64_t kMaxTokens = 10'000'000;  // entries of a token list

}  // namespace quern::checkpoint
