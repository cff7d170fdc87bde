"""Small real models of Transformers, and the kernels that a GPU would run in them.

A family is a row of FAMILIES: the tests of saved tensors and FLOPs run over all rows.

On the meta device torch runs every shape, stride and autograd rule and no arithmetic, so the sets
saved there are a GPU's once scaled_dot_product_attention and dropout go to the GPU's kernels.
"""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from unittest import mock

import torch
import transformers
from torch.nn import functional
from transformers import masking_utils


def token_inputs(model, batch, tokens):
    """What a causal language model is called with: labels make it compute its loss."""
    ids = torch.zeros(batch, tokens, dtype=torch.long, device=model.device)
    return {"input_ids": ids, "labels": ids}


@dataclasses.dataclass(frozen=True)
class Family:
    """How Transformers makes small models of it. `dims` and the values of `variants` are keys of
    its config; a variant has those of `dims` too."""

    config: str  # classes of Transformers
    model: str
    layers: str  # path of its repeated layers in the model
    dims: Mapping
    variants: Mapping = dataclasses.field(default_factory=lambda: {"small": {}})
    dropouts: tuple = ()  # keys of the config: probabilities of its dropouts
    layer_count: str = "num_hidden_layers"
    blocks: tuple = (0,)  # layers that differ from each other, to be looked at one by one
    attentions: tuple = ("sdpa", "eager")
    meta_types: tuple = (torch.bfloat16, torch.float32)  # that its kernels take on the meta device
    inputs: Callable = token_inputs


# torch's grouped product: on the meta device in one type only.
GROUPED = (torch.bfloat16,)

FAMILIES = {
    "llama": Family(
        "LlamaConfig", "LlamaForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, intermediate_size=96),
        variants={
            "every head its own keys": dict(),
            "grouped heads": dict(hidden_size=256, num_attention_heads=8, num_key_value_heads=2,
                                  intermediate_size=688),
            "heads wider than hidden": dict(hidden_size=96, num_attention_heads=6,
                                            num_key_value_heads=3, head_dim=32),
            "one key head, with biases": dict(hidden_size=128, num_key_value_heads=1,
                                              attention_bias=True, mlp_bias=True),
        }),
    "gpt2": Family(
        "GPT2Config", "GPT2LMHeadModel", "transformer.h", dims=dict(n_embd=64, n_head=4),
        variants={"small": {}, "medium, ffn of its own": dict(n_embd=192, n_head=6, n_inner=500)},
        dropouts=("attn_pdrop", "resid_pdrop", "embd_pdrop"), layer_count="n_layer"),
    "mistral": Family(
        "MistralConfig", "MistralForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=96),
        variants={
            "a window": dict(sliding_window=16),
            "a window as wide as the tokens": dict(sliding_window=32),
            "a wider window": dict(sliding_window=33),
            "no window": dict(sliding_window=None),
        }),
    "qwen2": Family(
        "Qwen2Config", "Qwen2ForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=96),
        variants={
            "small": {},
            "every head its own keys": dict(num_key_value_heads=4),
            "a window in later layers": dict(use_sliding_window=True, sliding_window=16,
                                             max_window_layers=1),
        },
        blocks=(0, 1)),
    "qwen3": Family(
        "Qwen3Config", "Qwen3ForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                  intermediate_size=96),
        variants={"small": {}, "biases": dict(attention_bias=True, num_key_value_heads=4)}),
    "phi3": Family(
        "Phi3Config", "Phi3ForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, intermediate_size=96),
        variants={
            "every head its own keys": {},
            "grouped heads, partly rotated": dict(
                num_key_value_heads=2,
                rope_parameters=dict(rope_type="default", rope_theta=1e4,
                                     partial_rotary_factor=0.5)),
            "a window": dict(sliding_window=16, num_key_value_heads=2),
        },
        dropouts=("resid_pdrop", "attention_dropout")),
    "gemma": Family(
        "GemmaConfig", "GemmaForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=1, head_dim=32,
                  intermediate_size=96),
        variants={"one key head": {}, "erf": dict(hidden_act="gelu", num_key_value_heads=4)}),
    "gemma2": Family(
        "Gemma2Config", "Gemma2ForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                  intermediate_size=96, sliding_window=16),
        blocks=(0, 1)),
    "gemma3_text": Family(
        "Gemma3TextConfig", "Gemma3ForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=1, head_dim=32,
                  intermediate_size=96, sliding_window=16),
        variants={"small": {}, "a cap on the logits": dict(final_logit_softcapping=30.0)},
        blocks=(0, 5)),
    "opt": Family(
        "OPTConfig", "OPTForCausalLM", "model.decoder.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, ffn_dim=96),
        variants={
            "small": {},
            "norms after, narrow embeddings": dict(do_layer_norm_before=False,
                                                   word_embed_proj_dim=32),
            "no biases": dict(enable_bias=False),
        },
        dropouts=("dropout", "attention_dropout")),
    "gpt_neox": Family(
        "GPTNeoXConfig", "GPTNeoXForCausalLM", "gpt_neox.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, intermediate_size=96),
        variants={
            "small": {},
            "one after the other": dict(use_parallel_residual=False, attention_bias=False),
        },
        dropouts=("hidden_dropout", "attention_dropout")),
    "mixtral": Family(
        "MixtralConfig", "MixtralForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=96, num_local_experts=8),
        variants={"two experts a token": {}, "three, a window": dict(num_experts_per_tok=3,
                                                                     sliding_window=16)},
        meta_types=GROUPED),
    "qwen3_moe": Family(
        "Qwen3MoeConfig", "Qwen3MoeForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                  intermediate_size=96, moe_intermediate_size=48, num_experts=8,
                  num_experts_per_tok=3),
        variants={
            "weights that add up": dict(norm_topk_prob=True),
            "weights as they are": {},
            "every second layer": dict(decoder_sparse_step=2),
            "one layer without experts": dict(mlp_only_layers=[1]),
        },
        blocks=(0, 1), meta_types=GROUPED),
    "deepseek_v2": Family(
        "DeepseekV2Config", "DeepseekV2ForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=4, kv_lora_rank=24,
                  q_lora_rank=20, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12,
                  intermediate_size=96, moe_intermediate_size=48, n_routed_experts=8,
                  num_experts_per_tok=3, first_k_dense_replace=1),
        variants={
            "queries at once": dict(q_lora_rank=None),
            "groups, biases": dict(topk_method="group_limited_greedy", n_group=4, topk_group=2,
                                   attention_bias=True, mlp_bias=True),
        },
        blocks=(0, 1), meta_types=GROUPED),
    "deepseek_v3": Family(
        "DeepseekV3Config", "DeepseekV3ForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=4, kv_lora_rank=24,
                  q_lora_rank=20, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12,
                  intermediate_size=96, moe_intermediate_size=48, n_routed_experts=8, n_group=4,
                  topk_group=2, num_experts_per_tok=3, first_k_dense_replace=1),
        variants={
            "small": {},
            "weights as they are, two shared": dict(norm_topk_prob=False, n_shared_experts=2),
            "queries at once": dict(q_lora_rank=None, rope_interleave=False),
        },
        blocks=(0, 1), meta_types=GROUPED),
    "gpt_oss": Family(
        "GptOssConfig", "GptOssForCausalLM", "model.layers",
        dims=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                  intermediate_size=48, num_local_experts=8, num_experts_per_tok=3,
                  sliding_window=16),
        variants={"biases": {}, "no biases in attention": dict(attention_bias=False)},
        blocks=(0, 1), attentions=("eager",), meta_types=GROUPED),
}


def variants(names=None):
    """Every (family, dims) of FAMILIES, by a readable name."""
    return {f"{kind}: {name}": (kind, dict(family.dims) | dims)
            for kind, family in FAMILIES.items() if names is None or kind in names
            for name, dims in family.variants.items()}


def family_of(model):
    """The row that made a model."""
    return next(row for row in FAMILIES.values() if row.model == type(model).__name__)


def build(kind, device="cpu", dtype=torch.bfloat16, attention="sdpa", dropout=0.0, layers=1,
          vocab=64, experts=None, **dims):
    """A model of a family, training; `dims` are keys of its config, all others are as small or as
    Transformers has them, and so is the implementation of its experts."""
    family = FAMILIES[kind]
    settings = {"vocab_size": vocab, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None,
                family.layer_count: layers} | dict.fromkeys(family.dropouts, dropout)
    config_type = getattr(transformers, family.config)
    config = config_type(**settings | dict(family.dims) | dims, attn_implementation=attention)
    config.use_cache = False
    config._experts_implementation = experts
    with torch.device(device), default_dtype(dtype if device == "cuda" else torch.float32):
        return of_type(getattr(transformers, family.model)(config), dtype).train()


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def of_type(model, dtype):
    """The model in that type. Parameters that are fake tensors cannot be replaced: they are made in
    it."""
    return model if model.dtype == dtype else model.to(dtype)


def layers_of(model):
    return model.get_submodule(family_of(model).layers)


def rotary_modules(model):
    """Names of the modules that make cos and sin, which are inputs to Cairn."""
    return [name for name, module in model.named_modules()
            if type(module).__name__.endswith("RotaryEmbedding")]


def _bound(module, positional, named):
    """A forward's arguments by name."""
    arguments = inspect.signature(module.forward).bind(*positional, **named).arguments
    others = arguments.pop("kwargs", {})
    return arguments | others


def layer_arguments(model, batch, tokens, block=0):
    """What the model hands to one of its layers, as its own forward hands it."""
    layer, seen = layers_of(model)[block], {}
    hook = layer.register_forward_pre_hook(
        lambda module, positional, named: seen.update(_bound(module, positional, named)),
        with_kwargs=True)
    with torch.no_grad(), meta_answers():
        model(**family_of(model).inputs(model, batch, tokens))
    hook.remove()
    seen["hidden_states"] = made_like(seen["hidden_states"])
    return seen


def made_like(tensor):
    """A tensor made by an op, as trainable modules hand them on: autocast keeps its casts of
    leaves."""
    return torch.zeros_like(tensor).requires_grad_().clone()


def checkpoint_layers(model, reentrant=False):
    """torch.utils.checkpoint around every layer, as a trainer turns it on."""
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:  # a reentrant checkpoint needs an input that requires a gradient
        model.enable_input_require_grads()


def train_step(model, batch, tokens):
    """Forward, loss and backward; like a trainer it keeps of the outputs only the loss."""
    with meta_answers():
        loss = model(**family_of(model).inputs(model, batch, tokens)).loss
    loss.backward()


@contextlib.contextmanager
def meta_answers():
    """Where Transformers looks at values, which the meta device has not: samples are neither packed
    nor padded."""
    with mock.patch.object(masking_utils, "find_packed_sequence_indices", return_value=None), \
            mock.patch.object(masking_utils, "fast_all", return_value=True):
        yield


def _fused_attention(random_states, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False,
                     scale=None, enable_gqa=False):
    """aten/src/ATen/native/transformers/attention.cpp: a flash kernel where there is no mask, and
    where v's heads are as wide as q's (sdp_utils.cpp: check_head_dim_size_flash)."""
    assert enable_gqa == (q.shape[1] != k.shape[1])
    if attn_mask is None and v.shape[-1] != q.shape[-1]:
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        output, _, *states = attend(q, k, v, None, True, dropout_p, is_causal, scale=scale)
        random_states += states
    elif attn_mask is None:
        attend = torch.ops.aten._scaled_dot_product_flash_attention
        output, *_, state, unused, _ = attend(q, k, v, dropout_p, is_causal, False, scale=scale)
        random_states += [state, unused]
    else:
        bias = _bias_of(attn_mask, q, k)
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        output, _, *states = attend(q, k, v, bias, True, dropout_p, is_causal, scale=scale)
        random_states += states
    return output


def _bias_of(mask, q, k):
    """The same file: the memory-efficient kernel adds numbers of q's type to the scores, and their
    rows are padded to multiples of 8."""
    if mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, torch.full((), -torch.inf, dtype=q.dtype, device=q.device))
    columns = mask.shape[-1]
    if columns % 8 != 0:
        mask = functional.pad(mask, (0, 8 - columns % 8))[..., :columns]
    return mask.expand(*q.shape[:3], k.shape[2])


def _fused_dropout(x, p=0.5, training=True, inplace=False):
    # aten/src/ATen/native/Dropout.cpp: on CUDA a dropout with p > 0 is native_dropout.
    return torch.native_dropout(x, p, True)[0] if training and p > 0 else x


@contextlib.contextmanager
def gpu_kernels():
    """The attention kernels of CUDA and its dropout, with their saved sets; for the meta device.
    Yields a list that fills with what the attention kernels keep of their random numbers."""
    random_states = []
    attend = functools.partial(_fused_attention, random_states)
    with mock.patch.object(functional, "scaled_dot_product_attention", attend), \
            mock.patch.object(functional, "dropout", _fused_dropout):
        yield random_states
