"""A tiny model, whole: loss and every gradient of Cairn's executor against Transformers on the CPU,
with the weights, tables and tokens that Cairn drew."""

import pytest
import torch
import transformers
from executor_tensors import check_model, saved_tensors
from torch.nn import functional

BATCH, TOKENS, VOCAB = 2, 8, 50
EPSILON = 1e-3  # of norms; no class of a config has it



def gpt2_order(theirs, tensor):
    """Conv1D has its weight the other way."""
    ends = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    return tensor.T if theirs.endswith(ends) else tensor


GPT2 = dict(
    config=transformers.GPT2Config(
        n_embd=16, n_layer=2, n_head=4, n_positions=16, vocab_size=VOCAB, embd_pdrop=0.0,
        attn_pdrop=0.0, resid_pdrop=0.0,
        layer_norm_epsilon=EPSILON, scale_attn_by_inverse_layer_idx=True),
    names=[(r"wte\.weight", "transformer.wte.weight"), (r"wpe\.weight", "transformer.wpe.weight"),
           (r"h\.(\d+)\.norm1\.", r"transformer.h.\1.ln_1."),
           (r"h\.(\d+)\.norm2\.", r"transformer.h.\1.ln_2."),
           (r"h\.(\d+)\.qkv\.", r"transformer.h.\1.attn.c_attn."),
           (r"h\.(\d+)\.o\.", r"transformer.h.\1.attn.c_proj."),
           (r"h\.(\d+)\.up\.", r"transformer.h.\1.mlp.c_fc."),
           (r"h\.(\d+)\.down\.", r"transformer.h.\1.mlp.c_proj."),
           (r"norm\.", "transformer.ln_f.")],
    order=gpt2_order)

ROTARY = [(r"embed\.weight|table\.weight", "model.embed_tokens.weight"),
          (r"layers\.(\d+)\.norm1(\.\w+)?\.weight", r"model.layers.\1.input_layernorm.weight"),
          (r"layers\.(\d+)\.attn\.([qkvo])\.", r"model.layers.\1.self_attn.\2_proj."),
          (r"layers\.(\d+)\.attn\.([qk])_norm\.normed(\.\w+)?\.",
           r"model.layers.\1.self_attn.\2_norm."),
          (r"layers\.(\d+)\.mlp\.(gate|up|down)\.", r"model.layers.\1.mlp.\2_proj."),
          (r"norm(\.\w+)?\.weight", "model.norm.weight"), (r"logits\.weight", "lm_head.weight")]
TWO_NORMS = [(r"layers\.(\d+)\.norm2(\.\w+)?\.weight",
              r"model.layers.\1.post_attention_layernorm.weight")]
FOUR_NORMS = [
    (r"layers\.(\d+)\.attn_norm(\.\w+)?\.weight",
     r"model.layers.\1.post_attention_layernorm.weight"),
    (r"layers\.(\d+)\.norm2(\.\w+)?\.weight", r"model.layers.\1.pre_feedforward_layernorm.weight"),
    (r"layers\.(\d+)\.mlp_norm(\.\w+)?\.weight",
     r"model.layers.\1.post_feedforward_layernorm.weight")]

MIXTURE = [(r"layers\.(\d+)\.moe\.(?:gate|router)\.logits\.", r"model.layers.\1.mlp.gate."),
           (r"layers\.(\d+)\.moe\.experts\.(gate_up|down)\.weight",
            r"model.layers.\1.mlp.experts.\2_proj")]

SIZES = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=4, vocab_size=VOCAB, max_position_embeddings=64,
             rms_norm_eps=EPSILON)

LATENT = dict(SIZES, num_key_value_heads=4, kv_lora_rank=12, q_lora_rank=10, qk_nope_head_dim=8,
              qk_rope_head_dim=4, v_head_dim=6, moe_intermediate_size=12, n_routed_experts=8,
              num_experts_per_tok=3, n_shared_experts=2, first_k_dense_replace=1,
              routed_scaling_factor=1.75,
              rope_parameters=dict(rope_type="yarn", factor=40.0, mscale_all_dim=0.7, mscale=0.7,
                                   rope_theta=1e4, original_max_position_embeddings=16))
del LATENT["head_dim"]
LATENT_NAMES = [
    *[(rf"layers\.(\d+)\.attn\.{ours}\.", rf"model.layers.\1.self_attn.{theirs}.")
      for ours, theirs in (("q_a", "q_a_proj"), ("q_norm", "q_a_layernorm"), ("q_b", "q_b_proj"),
                           ("kv_a", "kv_a_proj_with_mqa"), ("kv_norm", "kv_a_layernorm"),
                           ("kv", "kv_b_proj"), ("o", "o_proj"))],
    (r"layers\.(\d+)\.moe\.shared\.(gate|up|down)\.",
     r"model.layers.\1.mlp.shared_experts.\2_proj.")]


def deepseek_v3_order(theirs, tensor):
    """What rope turns together lies side by side there, half the rope's width apart here."""
    nope, rope = LATENT["qk_nope_head_dim"], LATENT["qk_rope_head_dim"]
    pairs = torch.arange(rope).unflatten(0, (2, -1)).T.flatten()
    if theirs.endswith("q_b_proj.weight"):
        own, turned = tensor.unflatten(0, (-1, nope + rope)).split([nope, rope], 1)
        return torch.cat([own, turned[:, pairs]], 1).flatten(0, 1)
    if theirs.endswith("kv_a_proj_with_mqa.weight"):
        latent, turned = tensor.split([LATENT["kv_lora_rank"], rope])
        return torch.cat([latent, turned[pairs]])
    return tensor


def gpt_oss_order(theirs, tensor):
    """Experts' weights lie the other way there, and gate and up side by side."""
    if ".experts." not in theirs:
        return tensor
    if "gate_up" in theirs:
        tensor = torch.stack(tensor.chunk(2, 1), 2).flatten(1, 2)
    return tensor if theirs.endswith("bias") else tensor.mT

MODELS = {
    "gpt2": GPT2,
    "llama": dict(config=transformers.LlamaConfig(**SIZES), names=ROTARY + TWO_NORMS),
    "mistral": dict(config=transformers.MistralConfig(**SIZES, sliding_window=None),
                    names=ROTARY + TWO_NORMS),
    "qwen2": dict(config=transformers.Qwen2Config(**SIZES), names=ROTARY + TWO_NORMS),
    "qwen3": dict(config=transformers.Qwen3Config(**SIZES), names=ROTARY + TWO_NORMS),
    "gemma": dict(config=transformers.GemmaConfig(**SIZES), names=ROTARY + TWO_NORMS),
    "gemma2": dict(
        config=transformers.Gemma2Config(**SIZES, query_pre_attn_scalar=9, sliding_window=4),
        names=ROTARY + FOUR_NORMS),
    "mixtral": dict(
        config=transformers.MixtralConfig(**SIZES, num_local_experts=4, sliding_window=None),
        names=MIXTURE + ROTARY + TWO_NORMS),
    "qwen3_moe": dict(
        config=transformers.Qwen3MoeConfig(**SIZES, num_experts=6, num_experts_per_tok=3,
                                           moe_intermediate_size=12, norm_topk_prob=True,
                                           mlp_only_layers=[0]),
        names=MIXTURE + ROTARY + TWO_NORMS),
    "deepseek_v2": dict(
        config=transformers.DeepseekV2Config(**LATENT, topk_method="group_limited_greedy",
                                             n_group=4, topk_group=3),
        names=LATENT_NAMES + MIXTURE + ROTARY + TWO_NORMS),
    "deepseek_v3": dict(
        config=transformers.DeepseekV3Config(**LATENT, n_group=4, topk_group=3),
        names=LATENT_NAMES + MIXTURE + ROTARY + TWO_NORMS, order=deepseek_v3_order),
    "gpt_oss": dict(
        config=transformers.GptOssConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2,
                                         sliding_window=4),
        names=[(r"layers\.(\d+)\.moe\.router\.logits\.", r"model.layers.\1.mlp.router."),
               (r"layers\.(\d+)\.attn\.(?:\w+\.)*sinks", r"model.layers.\1.self_attn.sinks"),
               (r"layers\.(\d+)\.moe\.experts\.(gate_up|down)\.weight",
                r"model.layers.\1.mlp.experts.\2_proj"),
               (r"layers\.(\d+)\.moe\.experts\.(gate_up|down)\.bias",
                r"model.layers.\1.mlp.experts.\2_proj_bias"), *ROTARY, *TWO_NORMS],
        order=gpt_oss_order),
    "gemma3_text": dict(
        config=transformers.Gemma3TextConfig(**SIZES, query_pre_attn_scalar=9, sliding_window=4,
                                             layer_types=["sliding_attention", "full_attention"],
                                             final_logit_softcapping=0.05),
        names=ROTARY + FOUR_NORMS),
    "phi3": dict(
        config=transformers.Phi3Config(
            **{key: value for key, value in SIZES.items() if key != "head_dim"}, pad_token_id=0,
            rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5)),
        names=[(r"layers\.(\d+)\.attn\.qkv\.", r"model.layers.\1.self_attn.qkv_proj."),
               (r"layers\.(\d+)\.mlp\.gate_up\.", r"model.layers.\1.mlp.gate_up_proj."),
               *ROTARY, *TWO_NORMS]),
    "gpt_neox": dict(
        config=transformers.GPTNeoXConfig(hidden_size=16, intermediate_size=24, vocab_size=VOCAB,
                                          num_hidden_layers=2, num_attention_heads=2,
                                          layer_norm_eps=EPSILON),
        names=[(r"table\.", "gpt_neox.embed_in."), (r"norm\.", "gpt_neox.final_layer_norm."),
               (r"layers\.(\d+)\.norm1\.", r"gpt_neox.layers.\1.input_layernorm."),
               (r"layers\.(\d+)\.norm2\.", r"gpt_neox.layers.\1.post_attention_layernorm."),
               (r"layers\.(\d+)\.attn\.qkv\.",
                r"gpt_neox.layers.\1.attention.query_key_value."),
               (r"layers\.(\d+)\.attn\.o\.", r"gpt_neox.layers.\1.attention.dense."),
               (r"layers\.(\d+)\.up\.", r"gpt_neox.layers.\1.mlp.dense_h_to_4h."),
               (r"layers\.(\d+)\.down\.", r"gpt_neox.layers.\1.mlp.dense_4h_to_h."),
               (r"logits\.", "lm_head.")]),
    "opt": dict(
        config=transformers.OPTConfig(hidden_size=16, ffn_dim=24, vocab_size=VOCAB,
                                      num_hidden_layers=2, num_attention_heads=4, dropout=0.0,
                                      max_position_embeddings=16, word_embed_proj_dim=12),
        names=[(r"table\.", "model.decoder.embed_tokens."),
               (r"projected\.", "model.decoder.project_in."),
               (r"narrowed\.", "model.decoder.project_out."),
               (r"place\.", "model.decoder.embed_positions."),
               (r"norm\.", "model.decoder.final_layer_norm."),
               (r"layers\.(\d+)\.norm1\.", r"model.decoder.layers.\1.self_attn_layer_norm."),
               (r"layers\.(\d+)\.norm2\.", r"model.decoder.layers.\1.final_layer_norm."),
               (r"layers\.(\d+)\.q_whole\.", r"model.decoder.layers.\1.self_attn.q_proj."),
               (r"layers\.(\d+)\.([kv])\.", r"model.decoder.layers.\1.self_attn.\2_proj."),
               (r"layers\.(\d+)\.o\.", r"model.decoder.layers.\1.self_attn.out_proj."),
               (r"layers\.(\d+)\.up\.", r"model.decoder.layers.\1.fc1."),
               (r"layers\.(\d+)\.down\.", r"model.decoder.layers.\1.fc2.")],
        zero=("k_proj.bias",)),
}


def complex_table(pairs):
    return torch.view_as_complex(pairs.unflatten(-1, (-1, 2)).contiguous())


def with_positions(model, saved):
    """The positions or tables that Cairn drew, whatever a model's own would be. Of position_ids in
    no order Transformers makes a mask of packed samples."""
    if not (saved.folder / "positions.npy").exists():
        turns = (saved.folder / "turns.npy").exists()
        tables = complex_table(saved["turns"]) if turns else (saved["cos"], saved["sin"])
        for module in model.modules():
            if type(module).__name__.endswith("RotaryEmbedding"):
                module.forward = lambda *_, **__: tables
    else:
        is_opt = model.config.model_type == "opt"
        table = model.model.decoder.embed_positions if is_opt else model.transformer.wpe
        table.forward = lambda *_, **__: functional.embedding(saved["positions"], table.weight)


def loss_of(model, saved):
    """Of each token's own label: Cairn's labels are shifted already."""
    logits = model(input_ids=saved["ids"], use_cache=False).logits
    return functional.cross_entropy(logits.flatten(0, 1).float(), saved["labels"].flatten())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_are_those_of_transformers(name, attention, tmp_path):
    case = MODELS[name]
    if name == "gemma2" and attention == "sdpa":
        pytest.skip("Transformers leaves out the softcap, and says so")
    if name == "gpt_oss" and attention == "sdpa":
        pytest.skip("Transformers has no such attention with sinks")
    config = case["config"]
    config._attn_implementation = attention
    config._experts_implementation = "eager"
    config.to_json_file(tmp_path / "config.json")
    saved = saved_tensors(tmp_path / "tensors", tmp_path / "config.json", "--batch", BATCH,
                          "--tokens", TOKENS, "--attention", attention)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.train()
    with_positions(model, saved)
    check_model(saved, model, case["names"], lambda model: loss_of(model, saved),
                case.get("order"), case.get("zero", ()))
