// The contracts of quern's own CPU backends, as data. Their code (torch_native, cpu_flash) returns
// these from info(), and select.cpp puts them into the table.
#pragma once

#include "attention/backend.h"

namespace quern::attention {

inline constexpr std::int32_t kCpuFlashPageSizes[] = {16, 32, 64, 128};
inline constexpr std::int32_t kCpuFlashMlaPageSizes[] = {64, 16, 32, 128, 1};
inline constexpr KvType kCpuFlashKvTypes[] = {KvType::kBF16, KvType::kF32, KvType::kFp8E4M3,
                                              KvType::kInt8};
inline constexpr KvType kCpuFlashMlaKvTypes[] = {KvType::kBF16, KvType::kF32, KvType::kFp8E4M3};
inline constexpr KvType kTorchNativeKvTypes[] = {KvType::kF32, KvType::kBF16, KvType::kFp8E4M3,
                                                 KvType::kInt8};
inline constexpr KvType kTorchNativeMlaKvTypes[] = {KvType::kF32, KvType::kBF16, KvType::kFp8E4M3};

inline constexpr BackendInfo kCpuFlashInfo = {
    .name = "cpu_flash",
    .mha = true,
    .mla = true,
    .cross_attention = Support::kYes,
    .cross_with_window = true,
    .speculative = Speculative::kTree,
    .speculative_mla = Speculative::kTree,
    .page_sizes = kCpuFlashPageSizes,
    .page_sizes_mla = kCpuFlashMlaPageSizes,
    .ngram_tree_pages = true,
    .deterministic = true,
    .deterministic_mla = true,
    .kv_types = kCpuFlashKvTypes,
    .kv_types_mla = kCpuFlashMlaKvTypes,
    .window = Support::kYes,
    .sinks = Support::kYes,
    .soft_cap = Support::kYes,
    .device = Device::kAnyCpu,
    .machine = "any processor (AVX2 and AVX-512 kernels, and portable ones)",
    .in_this_build = true,
    .mla_in_build = true,
    .note = "quern's own; SGLang has no backend of this name",
};

inline constexpr BackendInfo kTorchNativeInfo = {
    .name = "torch_native",
    .mha = true,
    .mla = true,
    .cross_attention = Support::kYes,
    .cross_with_window = true,
    .speculative = Speculative::kTree,
    .speculative_mla = Speculative::kTree,
    .ngram_tree_pages = true,
    .deterministic = true,
    .deterministic_mla = true,
    .kv_types = kTorchNativeKvTypes,
    .kv_types_mla = kTorchNativeMlaKvTypes,
    .window = Support::kYes,
    .sinks = Support::kYes,
    .soft_cap = Support::kYes,
    .device = Device::kAnyCpu,
    .machine = "any processor",
    .in_this_build = true,
    .mla_in_build = true,
    .note = "the reference; wider than SGLang's, which has no sinks, cap or speculative decoding",
};

}  // namespace quern::attention
