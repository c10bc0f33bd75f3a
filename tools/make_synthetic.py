#!/usr/bin/env python3
"""Writes models of random weights: real widths for benchmarks, and twins of one model in several
formats for tests. The same size and seed give the same weights in every format.

    tools/make_synthetic.py OUT --model deepseek-wide --format gguf --type Q8_0
    tools/make_synthetic.py OUT --model llama-1.5b --format gguf --type Q4_0
    tools/make_synthetic.py OUT --model deepseek-tiny --format fp8

OUT is a folder for safetensors, fp8 and fp8-decoded (float32, what the fp8 one stands for), a file
for gguf. --set changes a field of config.json: --set num_hidden_layers=27. Needs
tests/requirements.txt. K-quants: llama-quantize on a BF16 file (bench/compare_llama_cpp.sh does it
with TYPE=Q4_K_M).
"""
import argparse
import json
import pathlib
import shutil
import sys
import zlib

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOKENIZER = ROOT / "tests/data/tokenizer"  # of 512 tokens
BLOCK = 128  # rows and columns that share a scale in fp8

COMMON = {"vocab_size": 512, "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "silu",
          "tie_word_embeddings": False, "torch_dtype": "bfloat16", "attention_bias": False,
          "initializer_range": 0.02}
YARN = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
        "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707}
# DeepSeek-V2-Lite's widths with few layers and experts. llama.cpp takes a file without q_lora for
# the Lite model by its 26 or 27 layers, so there is one.
DEEPSEEK = {**COMMON, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
            "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
            "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 16,
            "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 8,
            "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
            "moe_layer_freq": 1, "scoring_func": "softmax", "topk_method": "greedy", "n_group": 1,
            "topk_group": 1, "norm_topk_prob": False, "routed_scaling_factor": 1.0,
            "max_position_embeddings": 163840, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
            "rope_scaling": YARN}
SIGMOID = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
           "scoring_func": "sigmoid", "topk_method": "noaux_tc", "n_group": 4, "topk_group": 2,
           "norm_topk_prob": True, "routed_scaling_factor": 2.5, "n_shared_experts": 1}
TINY = {"hidden_size": 192, "intermediate_size": 320, "moe_intermediate_size": 160,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
        "kv_lora_rank": 64, "q_lora_rank": 96, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16,
        "v_head_dim": 32, "num_experts_per_tok": 2, "max_position_embeddings": 4096}
# The real dims of latent rows and heads, which accelerators' backends ask for, and little else.
REAL_HEADS = {**TINY, "num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512,
              "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
LLAMA = {**COMMON, "architectures": ["LlamaForCausalLM"], "model_type": "llama",
         "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 4,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 500000.0}
MODELS = {
    "deepseek-wide": DEEPSEEK,
    "deepseek-v3-wide": {**DEEPSEEK, **SIGMOID, "rope_scaling": {**YARN, "mscale": 1.0,
                                                                 "mscale_all_dim": 1.0}},
    "deepseek-tiny": {**DEEPSEEK, **TINY},
    "deepseek-v3-tiny": {**DEEPSEEK, **TINY, **SIGMOID},
    "deepseek-real-heads": {**DEEPSEEK, **REAL_HEADS},
    "llama-4-layers": LLAMA,
    "llama-1.5b": {**LLAMA, "num_hidden_layers": 24},
}


# Tensors: names of the published checkpoints, shapes, and how their values are drawn. ------------

def deepseek_layer(c, i):
    h, heads, latent = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    nope, rope, v = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    attention = f"model.layers.{i}.self_attn."
    if c["q_lora_rank"]:
        yield attention + "q_a_proj.weight", (c["q_lora_rank"], h)
        yield attention + "q_a_layernorm.weight", (c["q_lora_rank"],)
        yield attention + "q_b_proj.weight", (heads * (nope + rope), c["q_lora_rank"])
    else:
        yield attention + "q_proj.weight", (heads * (nope + rope), h)
    yield attention + "kv_a_proj_with_mqa.weight", (latent + rope, h)
    yield attention + "kv_a_layernorm.weight", (latent,)
    yield attention + "kv_b_proj.weight", (heads * (nope + v), latent)
    yield attention + "o_proj.weight", (h, heads * v)
    mlp = f"model.layers.{i}.mlp."
    if i < c["first_k_dense_replace"]:
        yield from gated(mlp, h, c["intermediate_size"])
        return
    yield mlp + "gate.weight", (c["n_routed_experts"], h)
    if c["topk_method"] == "noaux_tc":
        yield mlp + "gate.e_score_correction_bias", (c["n_routed_experts"],)
    for e in range(c["n_routed_experts"]):
        yield from gated(f"{mlp}experts.{e}.", h, c["moe_intermediate_size"])
    yield from gated(mlp + "shared_experts.", h, c["n_shared_experts"] * c["moe_intermediate_size"])


def llama_layer(c, i):
    h, dim = c["hidden_size"], c["head_dim"]
    attention = f"model.layers.{i}.self_attn."
    yield attention + "q_proj.weight", (c["num_attention_heads"] * dim, h)
    yield attention + "k_proj.weight", (c["num_key_value_heads"] * dim, h)
    yield attention + "v_proj.weight", (c["num_key_value_heads"] * dim, h)
    yield attention + "o_proj.weight", (h, c["num_attention_heads"] * dim)
    yield from gated(f"model.layers.{i}.mlp.", h, c["intermediate_size"])


def gated(prefix, hidden, inter):
    yield prefix + "gate_proj.weight", (inter, hidden)
    yield prefix + "up_proj.weight", (inter, hidden)
    yield prefix + "down_proj.weight", (hidden, inter)


def tensors(c):
    """(name, shape) of the whole checkpoint."""
    h = c["hidden_size"]
    yield "model.embed_tokens.weight", (c["vocab_size"], h)
    layer = deepseek_layer if "kv_lora_rank" in c else llama_layer
    for i in range(c["num_hidden_layers"]):
        yield f"model.layers.{i}.input_layernorm.weight", (h,)
        yield f"model.layers.{i}.post_attention_layernorm.weight", (h,)
        yield from layer(c, i)
    yield "model.norm.weight", (h,)
    yield "lm_head.weight", (c["vocab_size"], h)


def values_of(name, shape, seed):
    """Float32 values that bfloat16 holds. Rows keep the size of what they multiply, and logits come
    out with a standard deviation of about 4."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    noise = rng.standard_normal(shape, dtype=np.float32)
    if name.endswith("e_score_correction_bias"):
        return 0.1 * noise
    if len(shape) == 1:
        noise = 1.0 + 0.2 * noise
    elif name == "model.embed_tokens.weight":
        pass
    else:
        noise *= (4.0 if name == "lm_head.weight" else 1.0) / np.sqrt(np.float32(shape[1]))
    bits = np.ascontiguousarray(noise, dtype=np.float32).view(np.uint32)
    bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    return bits.view(np.float32)


# safetensors -----------------------------------------------------------------------------------

def bf16_bytes(values):
    return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def e4m3_values():
    codes = np.arange(127)
    exponent, fraction = codes >> 3, codes & 7
    return np.where(exponent == 0, fraction * 2.0**-9,
                    (1 + fraction / 8) * 2.0**(exponent - 7)).astype(np.float32)


def e4m3(values):
    """Codes of the nearest values, ties to the even code."""
    table = e4m3_values()
    between = (table[1:] + table[:-1]) / 2
    size = np.minimum(np.abs(values), table[-1])
    code = np.searchsorted(between, size)
    tie = (code < len(between)) & (size == between[np.minimum(code, len(between) - 1)])
    code = code + (tie & (code % 2 == 1))
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def fp8(values):
    """Codes, scales [rows/BLOCK, columns/BLOCK], and the float32 values that they stand for."""
    rows, columns = values.shape
    down, across = -(-rows // BLOCK), -(-columns // BLOCK)
    padded = np.zeros((down * BLOCK, across * BLOCK), np.float32)
    padded[:rows, :columns] = np.abs(values)
    most = padded.reshape(down, BLOCK, across, BLOCK).max(axis=(1, 3))
    scales = (np.maximum(most, np.float32(1e-12)) / np.float32(448)).astype(np.float32)
    spread = np.repeat(np.repeat(scales, BLOCK, 0), BLOCK, 1)[:rows, :columns]
    codes = e4m3(values / spread)
    sign = np.where(codes & 0x80, np.float32(-1), np.float32(1))
    return codes, scales, sign * e4m3_values()[codes & 0x7F] * spread


def stored_as_fp8(name):
    return name.endswith("_proj.weight") or name.endswith("_with_mqa.weight")


def stored(name, values, kind):
    """(name, dtype, shape, bytes) of what a folder of this kind holds for a tensor."""
    if kind.startswith("fp8") and stored_as_fp8(name):
        codes, scales, decoded = fp8(values)
        if kind == "fp8":
            yield name, "F8_E4M3", values.shape, codes.tobytes()
            yield name + "_scale_inv", "F32", scales.shape, scales.tobytes()
        else:
            yield name, "F32", values.shape, decoded.tobytes()
    elif kind == "fp8-decoded" or name.endswith("e_score_correction_bias"):
        yield name, "F32", values.shape, values.tobytes()
    else:
        yield name, "BF16", values.shape, bf16_bytes(values)


def stored_sizes(name, shape, kind):
    """The same without values: (name, dtype, shape, bytes)."""
    count = int(np.prod(shape))
    if kind.startswith("fp8") and stored_as_fp8(name):
        if kind == "fp8":
            blocks = tuple(-(-size // BLOCK) for size in shape)
            yield name, "F8_E4M3", shape, count
            yield name + "_scale_inv", "F32", blocks, 4 * int(np.prod(blocks))
        else:
            yield name, "F32", shape, 4 * count
    elif kind == "fp8-decoded" or name.endswith("e_score_correction_bias"):
        yield name, "F32", shape, 4 * count
    else:
        yield name, "BF16", shape, 2 * count


def write_folder(out, config, kind, seed):
    out.mkdir(parents=True, exist_ok=True)
    config = dict(config)
    if kind == "fp8":
        config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3",
                                         "activation_scheme": "dynamic",
                                         "weight_block_size": [BLOCK, BLOCK]}
    if kind == "fp8-decoded":
        config["torch_dtype"] = "float32"
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copyfile(TOKENIZER / file, out / file)
    header, end = {}, 0
    for name, shape in tensors(config):
        for held, dtype, held_shape, size in stored_sizes(name, shape, kind):
            header[held] = {"dtype": dtype, "shape": list(held_shape),
                            "data_offsets": [end, end + size]}
            end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(out / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in tensors(config):
            for _, _, _, data in stored(name, values_of(name, shape, seed), kind):
                file.write(data)


# GGUF ------------------------------------------------------------------------------------------

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_a_proj": "attn_q_a",
         "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
         "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
         "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b",
         "mlp.gate": "ffn_gate_inp",
         **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
         **{f"mlp.shared_experts.{part}_proj": f"ffn_{part}_shexp"
            for part in ("gate", "up", "down")}}


def gguf_tensors(c, seed, joined):
    """(name, float32 values) in llama.cpp's names and layouts."""
    for name, shape in tensors(c):
        stem, _, suffix = name.rpartition(".")
        block = ""
        if stem.startswith("model.layers."):
            _, _, layer, stem = stem.split(".", 3)
            block = f"blk.{layer}."
        if ".experts." in stem:
            _, _, expert, part = stem.split(".")
            if expert == "0":
                experts = (name.replace(".experts.0.", f".experts.{e}.")
                           for e in range(c["n_routed_experts"]))
                part = part.removesuffix("_proj")
                yield (f"{block}ffn_{part}_exps.weight",
                       np.stack([values_of(each, shape, seed) for each in experts]))
            continue
        values = values_of(name, shape, seed)
        if suffix == "e_score_correction_bias":
            yield block + "exp_probs_b.bias", values
        elif stem == "self_attn.kv_b_proj" and not joined:
            heads, nope = c["num_attention_heads"], c["qk_nope_head_dim"]
            both = values.reshape(heads, nope + c["v_head_dim"], -1)
            yield block + "attn_k_b.weight", both[:, :nope].swapaxes(1, 2)
            yield block + "attn_v_b.weight", both[:, nope:]
        elif c["model_type"] == "llama" and stem in ("self_attn.q_proj", "self_attn.k_proj"):
            pairs = values.reshape(-1, 2, c["head_dim"] // 2, shape[1]).swapaxes(1, 2)
            yield f"{block}{NAMES[stem]}.weight", pairs.reshape(shape)
        else:
            yield f"{block}{NAMES[stem]}.{suffix}", values


def add_tokenizer(writer, vocab):
    tokenizer = json.loads((TOKENIZER / "tokenizer.json").read_text())
    words = [word for word, _ in sorted(tokenizer["model"]["vocab"].items(), key=lambda w: w[1])]
    special = {token["id"] for token in tokenizer["added_tokens"]}
    kinds = [gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL
             for i in range(len(words))]
    unused = vocab - len(words)
    config = json.loads((TOKENIZER / "tokenizer_config.json").read_text())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(words + [f"[unused{i}]" for i in range(unused)])
    writer.add_token_types(kinds + [gguf.TokenType.UNUSED] * unused)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge)
                             for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(config["chat_template"])


def add_latent_keys(writer, c, joined):
    nope, rope, v = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    if c["q_lora_rank"]:
        writer.add_q_lora_rank(c["q_lora_rank"])
    writer.add_kv_lora_rank(c["kv_lora_rank"])
    if joined:
        writer.add_head_count_kv(c["num_attention_heads"])
        writer.add_key_length(nope + rope)
        writer.add_value_length(v)
    else:
        writer.add_head_count_kv(1)
        writer.add_key_length(c["kv_lora_rank"] + rope)
        writer.add_value_length(c["kv_lora_rank"])
        writer.add_key_length_mla(nope + rope)
        writer.add_value_length_mla(v)
    writer.add_rope_dimension_count(rope)
    writer.add_leading_dense_block_count(c["first_k_dense_replace"])
    writer.add_expert_count(c["n_routed_experts"])
    writer.add_expert_used_count(c["num_experts_per_tok"])
    writer.add_expert_shared_count(c["n_shared_experts"])
    writer.add_expert_feed_forward_length(c["moe_intermediate_size"])
    writer.add_expert_weights_scale(c["routed_scaling_factor"])
    writer.add_expert_weights_norm(c["norm_topk_prob"])
    sigmoid = c["scoring_func"] == "sigmoid"
    kinds = gguf.ExpertGatingFuncType
    writer.add_expert_gating_func(kinds.SIGMOID if sigmoid else kinds.SOFTMAX)
    if c["n_group"] > 1:
        writer.add_expert_group_count(c["n_group"])
        writer.add_expert_group_used_count(c["topk_group"])
    yarn = c["rope_scaling"]
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(float(yarn["factor"]))
    writer.add_rope_scaling_orig_ctx_len(yarn["original_max_position_embeddings"])
    writer.add_rope_scaling_yarn_log_mul(0.1 * yarn["mscale_all_dim"])


def write_gguf(out, c, kind, seed, joined):
    latent = "kv_lora_rank" in c
    writer = gguf.GGUFWriter(str(out), "deepseek2" if latent else "llama", use_temp_file=True)
    writer.add_name("synthetic")
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_vocab_size(c["vocab_size"])
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_rope_freq_base(c["rope_theta"])
    if latent:
        add_latent_keys(writer, c, joined)
    else:
        writer.add_head_count_kv(c["num_key_value_heads"])
        writer.add_rope_dimension_count(c["head_dim"])
        writer.add_key_length(c["head_dim"])
        writer.add_value_length(c["head_dim"])
    add_tokenizer(writer, c["vocab_size"])
    block = gguf.GGML_QUANT_SIZES[kind][0]
    for name, values in gguf_tensors(c, seed, joined):
        plain = values.ndim == 1 or name.endswith("ffn_gate_inp.weight")
        if not plain and values.shape[-1] % block:
            sys.exit(f"{name} has rows of {values.shape[-1]} values, no multiple of {block}")
        stored_kind = gguf.GGMLQuantizationType.F32 if plain else kind
        data = gguf.quants.quantize(np.ascontiguousarray(values), stored_kind)
        writer.add_tensor(name, data, raw_dtype=stored_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def changed(config, changes):
    config = json.loads(json.dumps(config))
    for change in changes:
        name, _, value = change.partition("=")
        if name not in config:
            sys.exit(f"{name} is no field of this model's config: {', '.join(sorted(config))}")
        config[name] = json.loads(value)
    return config


def main():
    types = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--model", choices=MODELS, default="deepseek-wide")
    parser.add_argument("--format", choices=("safetensors", "fp8", "fp8-decoded", "gguf"),
                        default="safetensors")
    parser.add_argument("--type", choices=types, default="Q8_0", help="of a GGUF file's matrices")
    parser.add_argument("--joined", action="store_true",
                        help="attn_kv_b in one tensor, as older GGUF files of latent attention")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    options = parser.parse_args()
    config = changed(MODELS[options.model], options.set)
    if options.format == "gguf":
        kind = gguf.GGMLQuantizationType[options.type]
        write_gguf(options.out, config, kind, options.seed, options.joined)
    else:
        write_folder(options.out, config, options.format, options.seed)


if __name__ == "__main__":
    main()
