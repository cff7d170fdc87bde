"""Small real models of Transformers, and the kernels that a GPU would run in them.

On the meta device torch runs every shape, stride and autograd rule and no arithmetic, so the sets
saved there are a GPU's once scaled_dot_product_attention and dropout go to the GPU's kernels.
"""

import contextlib
from unittest import mock

import torch
from torch.nn import functional
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          masking_utils)


def llama(device="cpu", dtype=torch.bfloat16, attention="sdpa", **dims):
    config = LlamaConfig(**dims, attn_implementation=attention, use_cache=False)
    return build(LlamaForCausalLM, config, device, dtype)


def gpt2(device="cpu", dtype=torch.bfloat16, attention="sdpa", dropout=0.0, **dims):
    config = GPT2Config(**dims, attn_pdrop=dropout, resid_pdrop=dropout, embd_pdrop=dropout,
                        bos_token_id=0, eos_token_id=0, attn_implementation=attention,
                        use_cache=False)
    return build(GPT2LMHeadModel, config, device, dtype)


def build(kind, config, device, dtype):
    with torch.device(device):
        return kind(config).to(dtype).train()


def layers_of(model):
    return model.model.layers if isinstance(model, LlamaForCausalLM) else model.transformer.h


def layer_arguments(model, batch, tokens):
    """What the model hands to each of its layers; llama's cos and sin are shared by all."""
    device, dtype = model.device, model.dtype
    hidden = torch.zeros(batch, tokens, model.config.hidden_size, device=device, dtype=dtype)
    arguments = {"hidden_states": hidden.requires_grad_(), "attention_mask": None}
    if model.config._attn_implementation == "eager":  # sdpa and flash need no mask tensor
        arguments["attention_mask"] = torch.zeros(1, 1, tokens, tokens, device=device, dtype=dtype)
    if isinstance(model, LlamaForCausalLM):
        positions = torch.arange(tokens, device=device).unsqueeze(0)
        arguments["position_embeddings"] = model.model.rotary_emb(hidden, positions)
    return arguments


def checkpoint_layers(model, reentrant=False):
    """torch.utils.checkpoint around every layer, as a trainer turns it on."""
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:  # a reentrant checkpoint needs an input that requires a gradient
        model.enable_input_require_grads()


def train_step(model, batch, tokens):
    """Forward, loss and backward; like a trainer it keeps of the outputs only the loss."""
    ids = torch.zeros(batch, tokens, dtype=torch.long, device=model.device)
    # The search for packed samples looks at values, which the meta device has not.
    unpacked = mock.patch.object(masking_utils, "find_packed_sequence_indices", return_value=None)
    with unpacked:
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()


def _flash(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    assert attn_mask is None, "the flash kernel takes no mask"
    assert enable_gqa == (q.shape[1] != k.shape[1])
    attend = torch.ops.aten._scaled_dot_product_flash_attention
    return attend(q, k, v, dropout_p, is_causal, False, scale=scale)[0]


def _fused_dropout(x, p=0.5, training=True, inplace=False):
    # aten/src/ATen/native/Dropout.cpp: on CUDA a dropout with p > 0 is native_dropout.
    return torch.native_dropout(x, p, True)[0] if training and p > 0 else x


@contextlib.contextmanager
def gpu_kernels():
    """The flash kernel of CUDA and its dropout, with their saved sets; for the meta device."""
    with mock.patch.object(functional, "scaled_dot_product_attention", _flash), \
            mock.patch.object(functional, "dropout", _fused_dropout):
        yield
