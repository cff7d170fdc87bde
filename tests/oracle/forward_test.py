"""What is live in forward, while layers run: torch's allocator against `cairn simulate`.

Every layer is checkpointed, so nothing in it is saved and only names hold tensors beyond their last
reader: locals, arguments of calls that still run (docs/accounting.md, rule 1a). Compared are the
bytes that are live when a module is called, and the most while it runs.
"""

import dataclasses

import pytest
import torch
from live_bytes import peak_bytes, profiled, rng_state_bytes
from torch.profiler import record_function

import models

BATCH, TOKENS, LAYERS = 2, 64, 2
BF16, FP32 = torch.bfloat16, torch.float32
ITEM_BYTES = {BF16: 2, FP32: 4}

# The ops that each module of a layer runs: all whose names are these, or begin with these and a dot.
OPS_OF_MODULE = {
    "llama": {
        "input_layernorm": ("norm1",), "self_attn": ("attn",), "self_attn.q_proj": ("attn.q",),
        "self_attn.k_proj": ("attn.k",), "self_attn.v_proj": ("attn.v",),
        "self_attn.o_proj": ("attn.o",), "post_attention_layernorm": ("norm2",), "mlp": ("mlp",),
        "mlp.gate_proj": ("mlp.gate",), "mlp.act_fn": ("mlp.act",), "mlp.up_proj": ("mlp.up",),
        "mlp.down_proj": ("mlp.down",)},
    "gpt2": {
        "ln_1": ("norm1",), "attn": ("qkv", "split", "attn", "o"), "attn.c_attn": ("qkv",),
        "attn.c_proj": ("o",), "ln_2": ("norm2",), "mlp": ("up", "act", "down"),
        "mlp.c_fc": ("up",), "mlp.act": ("act",), "mlp.c_proj": ("down",)},
}
CPU_KERNEL = "aten::_scaled_dot_product_flash_attention_for_cpu"
ATTENTION = {"llama": "self_attn", "gpt2": "attn"}
OUTPUT = {"llama": "self_attn.o_proj", "gpt2": "attn.c_proj"}  # behind the attention
# Of a layer's name in Cairn.
LAYER = {"llama": "layers", "gpt2": "h"}


@dataclasses.dataclass
class Call:
    """Bytes over what was live before forward."""

    before: int = 0
    most: int = 0


def torch_calls(model):
    """Calls of the modules in layers by path, in forward of a model whose layers are checkpointed."""
    ids = torch.randint(0, model.config.vocab_size, (BATCH, TOKENS))
    labels = ids.clone()
    path = models.family_of(model).layers + "."
    for name, module in model.named_modules():
        if name.startswith(path):
            _mark(name, module)
    model(input_ids=ids, labels=labels)  # libraries allocate on their first call
    calls, open_calls, live, kernel_end_ns = {}, [], 0, 0
    for event in profiled(lambda: model(input_ids=ids, labels=labels)):
        word, _, name = event.name().partition(" ")
        if word == "[memory]":
            live += event.nbytes()
            for call in open_calls if event.start_ns() >= kernel_end_ns else ():
                call.most = max(call.most, live)
        elif event.name() == CPU_KERNEL:  # its workspace is not that of a GPU's
            kernel_end_ns = event.start_ns() + event.duration_ns()
        elif word == "call":
            calls[name] = Call(live, live)
            open_calls.append(calls[name])
        elif word == "return":
            open_calls.pop()
    return calls


def _mark(name, module):
    def mark(word):
        with record_function(f"{word} {name}"):
            pass

    module.register_forward_pre_hook(lambda *_: mark("call"))
    module.register_forward_hook(lambda *_: mark("return"))


def cairn_calls(cairn_on, model, kind):
    """The same of Cairn: before the first op of a module, and while its ops run."""
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer", "sgd",
                      "--checkpointing", "every-layer")
    calls, live = {}, 0
    for step in answer["steps"]:
        if step["kind"] != "forward":
            break
        during = step["during_bytes"] - answer["resident_bytes"]
        for layer in range(LAYERS):
            for module, ops in OPS_OF_MODULE[kind].items():
                names = [f"{LAYER[kind]}.{layer}.{op}" for op in ops]
                if not any(step["op"] == name or step["op"].startswith(name + ".")
                           for name in names):
                    continue
                path = f"{models.family_of(model).layers}.{layer}.{module}"
                call = calls.setdefault(path, Call(live, live))
                call.most = max(call.most, during)
        live = step["after_bytes"] - answer["resident_bytes"]
    return calls


def unmodelled_bytes(model, kind, attention, layer):
    """What torch has out in a layer and Cairn does not count, or counts as there for the whole step."""
    item, config = ITEM_BYTES[model.dtype], model.config
    bytes_of = {"positions": 8 * TOKENS}
    bytes_of["random state of each checkpoint"] = rng_state_bytes() * (layer + 1)
    if kind == "llama":
        bytes_of["cos and sin"] = 2 * TOKENS * config.head_dim * item
    if attention == "eager":
        bytes_of["attention mask"] = BATCH * TOKENS * TOKENS * item
    return sum(bytes_of.values())


def kept_factors(kind, attention, layer, module):
    """Products with a number before a module and within it: autograd keeps the number, 8 bytes, also
    where a checkpoint drops all tensors. gelu_new has three, eager attention one."""
    modules = list(OPS_OF_MODULE[kind])
    eager, gelu = int(attention == "eager"), 3 * int(kind == "gpt2")
    attended = eager if modules.index(module) >= modules.index(OUTPUT[kind]) else 0
    activated = gelu if module == "mlp.c_proj" else 0
    before = layer * (eager + gelu) + attended + activated
    return 8 * before, 8 * (eager * (module == ATTENTION[kind]) + gelu * (module in ("mlp", "mlp.act")))


def at_the_most(model, kind, attention, module, factors):
    """What else torch has out at the most of a module."""
    item = ITEM_BYTES[model.dtype]
    bytes_of = {}
    if module in ("ln_1", "ln_2"):
        bytes_of["statistics, on a CPU in the activations' type"] = -2 * BATCH * TOKENS * (4 - item)
    if module in ("mlp", "mlp.act") and kind == "gpt2":
        bytes_of["factors, and the 1 that is added, with its copy in the tensor's type"] = factors + 8 + item
    if module == ATTENTION[kind] and attention == "eager":
        if kind == "llama" and model.dtype == BF16:  # the most is at the softmax, in fp32
            bytes_of["the factor of the scores"] = factors
        else:
            bytes_of["the factor of the scores, and its copy in their type"] = factors + item
    return sum(bytes_of.values())


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", OPS_OF_MODULE)
def test_live_bytes_in_forward_are_torchs_but_for_named_bytes(cairn_on, kind, attention, dtype):
    model = models.build(kind, "cpu", dtype, attention, layers=LAYERS)
    models.checkpoint_layers(model)
    expected, found = torch_calls(model), cairn_calls(cairn_on, model, kind)
    path = models.family_of(model).layers
    differences, explained = {}, {}
    for layer in range(LAYERS):
        for module in OPS_OF_MODULE[kind]:
            torch_call, call = (calls[f"{path}.{layer}.{module}"] for calls in (expected, found))
            differences[layer, module] = (torch_call.before - call.before,
                                          torch_call.most - call.most)
            named = unmodelled_bytes(model, kind, attention, layer)
            before, within = kept_factors(kind, attention, layer, module)
            explained[layer, module] = (
                named + before,
                named + before + at_the_most(model, kind, attention, module, within))
    assert differences == explained


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gemma2",
                                  "gemma3_text", "gpt_neox"])
def test_the_peak_of_forward_is_torchs_but_for_named_bytes(cairn_on, kind, attention):
    windows = {"sliding_window": 1000} if kind in ("mistral", "gemma2", "gemma3_text") else {}
    model = models.build(kind, "cpu", FP32, attention, layers=LAYERS, **windows)
    models.checkpoint_layers(model)
    ids = torch.randint(0, model.config.vocab_size, (BATCH, TOKENS))
    labels = ids.clone()
    model(input_ids=ids, labels=labels)  # libraries allocate on their first call
    measured = peak_bytes(lambda: model(input_ids=ids, labels=labels))
    answer = cairn_on(model, "simulate", "--batch", BATCH, "--tokens", TOKENS, "--optimizer", "sgd",
                      "--checkpointing", "every-layer")
    simulated = max(step["during_bytes"] for step in answer["steps"] if step["kind"] == "forward")
    simulated -= answer["resident_bytes"]
    # The peak is in the last layer, in eager attention where its scores are scaled.
    bytes_of = {
        "positions": 8 * TOKENS,
        "random state of each checkpoint": rng_state_bytes() * LAYERS,
        "cos and sin": 2 * TOKENS * rotary_width(model.config) * 4,
    }
    if attention == "eager":
        masks = 2 if kind in ("gemma2", "gemma3_text") else 1  # one for each kind of layer there is
        bytes_of["attention masks"] = masks * BATCH * TOKENS * TOKENS * 4
        factors = 3 if kind == "gemma2" else 1
        bytes_of["constant factors, and a copy of the last"] = 8 * factors * LAYERS + 4
    assert measured - simulated == sum(bytes_of.values())


def rotary_width(config):
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(head_dim * config.rope_parameters.get("partial_rotary_factor", 1.0))
