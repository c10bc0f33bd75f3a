// The flags of sglang.launch_server that ask for what this build lacks. Leaving them out would
// serve something else than was asked, so they are refused, except with a value that asks nothing.
#include "cli/launch_flags.h"

namespace quern::cli {
namespace {

using enum FlagValues;

constexpr std::string_view kHttpOnly =
    "this build answers plain HTTP/1.1 only; put a proxy before it";
constexpr std::string_view kLocalFiles = "weights come from local GGUF or safetensors files";
constexpr std::string_view kNoDiffusion = "this build has no diffusion language models";
constexpr std::string_view kNoDisaggregation =
    "this build has no split of prefill, decode and encoders over servers";
constexpr std::string_view kNoEmbeddings = "this build makes texts and no embeddings or scores";
constexpr std::string_view kNoHooks = "this build loads no Python code";
constexpr std::string_view kNoHostCache =
    "this build has no tiers of the KV cache behind the first";
constexpr std::string_view kNoLora = "this build serves no LoRA adapters";
constexpr std::string_view kNoOffload = "this build keeps weights and KV cache in one memory";
constexpr std::string_view kNoParsers =
    "this build calls no tools itself and forces no reasoning";
constexpr std::string_view kNoRoute = "this build has no route for that";
constexpr std::string_view kNoSparse = "this build has no kernels for sparse attention";
constexpr std::string_view kNoTraining = "this build matches no training system";
constexpr std::string_view kNoTruncation = "a request that is too long is refused and never cut";
constexpr std::string_view kOneCommandLine =
    "flags stand on the command line; this build reads no file of them";
constexpr std::string_view kOneDevice =
    "this build runs on one device and has no parallelism of that kind";
constexpr std::string_view kOtherEndpoint = "this build changes no weights while it runs";
constexpr std::string_view kOwnTokenizer =
    "the tokenizer is the checkpoint's, and variables of a chat template come with requests";
constexpr std::string_view kSamplingDefaults =
    "sampling defaults are those of the model's generation_config.json";
constexpr std::string_view kSpecDetail = "speculative decoding has no such knob here";
constexpr std::string_view kStoredWeights =
    "weights are used as the checkpoint stores them; give a checkpoint in the wanted form";
constexpr std::string_view kTextOnly = "this build serves text models";
constexpr std::string_view kUsage = "usage is told as the OpenAI interface has it";

constexpr LaunchFlag kFlags[] = {
    {"--allow-auto-truncate", "", kSwitch, kNoTruncation},
    {"--attn-cp-size", "--attention-context-parallel-size", kOne, kOneDevice, "1"},
    {"--checkpoint-engine-wait-weights-before-ready", "", kSwitch, kOtherEndpoint},
    {"--completion-template", "", kOne, kOwnTokenizer},
    {"--config", "", kOne, kOneCommandLine},
    {"--cpu-offload-gb", "", kOne, kNoOffload, "0"},
    {"--custom-sigquit-handler", "", kOne, kNoHooks},
    {"--custom-weight-loader", "", kMany, kNoHooks},
    {"--dcp-replicate-q-proj", "", kSwitch, kOneDevice},
    {"--dcp-size", "--decode-context-parallel-size", kOne, kOneDevice, "1"},
    {"--decoupled-spec-role", "", kOne, kNoDisaggregation, "null"},
    {"--decrypted-config-file", "", kOne, kLocalFiles},
    {"--decrypted-draft-config-file", "", kOne, kLocalFiles},
    {"--default-chat-template-kwargs", "", kOne, kOwnTokenizer},
    {"--delete-ckpt-after-loading", "", kSwitch, kLocalFiles},
    {"--disaggregation-mode", "", kOne, kNoDisaggregation, "null"},
    {"--dllm-algorithm", "", kOne, kNoDiffusion},
    {"--dp-size", "--data-parallel-size --dp", kOne, kOneDevice, "1"},
    {"--dwdp-size", "", kOne, kOneDevice, "1 0"},
    {"--elastic-ep-initial-size", "", kOne, kOneDevice, "1"},
    {"--elastic-ep-join-rank-offset", "", kOne, kOneDevice, "1"},
    {"--enable-cp-decode-attn-tp", "", kSwitch, kOneDevice},
    {"--enable-custom-logit-processor", "", kSwitch, kNoHooks},
    {"--enable-deepseek-v4-fp4-indexer", "", kSwitch, kNoSparse},
    {"--enable-dp-attention", "", kSwitch, kOneDevice},
    {"--enable-dp-attention-local-control-broadcast", "", kSwitch, kOneDevice},
    {"--enable-dp-lm-head", "", kSwitch, kOneDevice},
    {"--enable-dsa-cache-layer-split", "", kSwitch, kOneDevice},
    {"--enable-dsa-prefill-context-parallel", "", kSwitch, kOneDevice},
    {"--enable-flexkv", "", kSwitch, kNoHostCache},
    {"--enable-hierarchical-cache", "", kSwitch, kNoHostCache},
    {"--enable-hisparse", "", kSwitch, kNoSparse},
    {"--enable-http2", "", kSwitch, kHttpOnly},
    {"--enable-lmcache", "", kSwitch, kNoHostCache},
    {"--enable-lora", "", kSwitch, kNoLora},
    {"--enable-memory-saver", "", kSwitch, kOtherEndpoint},
    {"--enable-mis", "", kSwitch, kNoEmbeddings},
    {"--enable-multi-layer-eagle", "", kSwitch, kSpecDetail},
    {"--enable-multimodal", "", kSwitch, kTextOnly},
    {"--enable-nsa-prefill-context-parallel", "", kSwitch, kOneDevice},
    {"--enable-pdmux", "", kSwitch, kNoDisaggregation},
    {"--enable-prefill-context-parallel", "", kSwitch, kOneDevice},
    {"--enable-prefill-cp", "", kSwitch, kOneDevice},
    {"--enable-return-hidden-states", "", kSwitch, kNoRoute},
    {"--enable-return-indexer-topk", "", kSwitch, kNoRoute},
    {"--enable-return-routed-experts", "", kSwitch, kNoRoute},
    {"--enable-ssl-refresh", "", kSwitch, kHttpOnly},
    {"--enable-streaming-session", "", kSwitch, kNoRoute},
    {"--enable-strict-thinking", "", kSwitch, kNoParsers},
    {"--encoder-only", "", kSwitch, kNoDisaggregation},
    {"--ep-size", "--expert-parallel-size --ep", kOne, kOneDevice, "1"},
    {"--fastapi-root-path", "", kOne, kHttpOnly},
    {"--forward-hooks", "", kMany, kNoHooks},
    {"--grpc-mode", "", kSwitch, kHttpOnly},
    {"--grpc-port", "", kOne, kHttpOnly},
    {"--hf-chat-template-name", "", kOne, kOwnTokenizer},
    {"--hisparse-config", "--hierarchical-sparse-attention-extra-config", kOne, kNoSparse},
    {"--is-embedding", "", kSwitch, kNoEmbeddings},
    {"--json-model-override-args", "", kOne, kStoredWeights, "{}"},
    {"--kt-weight-path", "", kOne, kNoOffload},
    {"--kv-events-config", "", kOne, kNoHooks},
    {"--language-only", "", kSwitch, kNoDisaggregation},
    {"--load-format", "", kOne, kLocalFiles, "auto safetensors gguf"},
    {"--lora-paths", "", kMany, kNoLora},
    {"--max-ep-size", "", kOne, kOneDevice, "1"},
    {"--model-checksum", "", kOptional, kLocalFiles},
    {"--model-impl", "", kOne, kNoHooks, "auto sglang"},
    {"--model-loader-extra-config", "", kOne, kLocalFiles, "{}"},
    {"--modelexpress-config", "", kOne, kLocalFiles},
    {"--modelopt-checkpoint-restore-path", "", kOne, kStoredWeights},
    {"--modelopt-checkpoint-save-path", "", kOne, kStoredWeights},
    {"--modelopt-export-path", "", kOne, kStoredWeights},
    {"--modelopt-quant", "", kOne, kStoredWeights},
    {"--moe-a2a-backend", "", kOne, kOneDevice, "none"},
    {"--moe-dense-tp-size", "", kOne, kOneDevice, "1"},
    {"--moe-dp-size", "--moe-data-parallel-size", kOne, kOneDevice, "1"},
    {"--msprobe-dump-config", "", kOne, kNoHooks},
    {"--nnodes", "", kOne, kOneDevice, "1"},
    {"--node-rank", "", kOne, kOneDevice, "0"},
    {"--pp-size", "--pipeline-parallel-size --pp", kOne, kOneDevice, "1"},
    {"--preferred-sampling-params", "", kOne, kSamplingDefaults},
    {"--prefill-only-disable-kv-cache", "", kSwitch, kNoEmbeddings},
    {"--quantization", "", kOne, kStoredWeights},
    {"--quantization-param-path", "", kOne, kStoredWeights},
    {"--quantize-and-serve", "", kSwitch, kStoredWeights},
    {"--return-hidden-states-mode", "", kOne, kNoRoute},
    {"--revision", "", kOne, kLocalFiles, "main"},
    {"--rl-on-policy-target", "", kOne, kNoTraining},
    {"--rl-quant-profile", "", kOne, kStoredWeights},
    {"--sampling-defaults", "", kOne, kSamplingDefaults, "model"},
    {"--sidecar", "", kOne, kHttpOnly},
    {"--sidecar-args", "", kMany, kHttpOnly},
    {"--skip-tokenizer-init", "", kSwitch, kOwnTokenizer},
    {"--smg-grpc-mode", "", kSwitch, kHttpOnly},
    {"--speculative-adaptive", "", kSwitch, kSpecDetail},
    {"--speculative-dflash-draft-window-size", "", kOne, kSpecDetail},
    {"--speculative-draft-kv-cache-dtype", "", kOne, kSpecDetail, "auto"},
    {"--speculative-draft-load-format", "", kOne, kLocalFiles, "auto safetensors gguf"},
    {"--speculative-draft-model-quantization", "", kOne, kStoredWeights},
    {"--speculative-draft-model-revision", "", kOne, kLocalFiles, "main"},
    {"--speculative-draft-window-size", "", kOne, kSpecDetail},
    {"--speculative-token-map", "", kOne, kSpecDetail},
    {"--speculative-use-rejection-sampling", "", kSwitch, kSpecDetail},
    {"--ssl-ca-certs", "", kOne, kHttpOnly},
    {"--ssl-certfile", "", kOne, kHttpOnly},
    {"--ssl-keyfile", "", kOne, kHttpOnly},
    {"--ssl-keyfile-password", "", kOne, kHttpOnly},
    {"--stat-loggers", "", kOne, kNoHooks},
    {"--stream-response-default-include-usage", "", kSwitch, kUsage},
    {"--tokenizer-path", "", kOne, kOwnTokenizer},
    {"--tool-server", "", kOne, kNoParsers},
    {"--use-ray", "", kSwitch, kOneDevice},
    {"--weight-cache-mode", "", kOne, kLocalFiles, "off"},
};

}  // namespace

std::span<const LaunchFlag> refused_flags() { return kFlags; }

}  // namespace quern::cli
