"""What autograd saves for one op: torch against the C++ rule of each op kind (graph/ops/*.cc).

The expected sets are written by hand from that rule; "mean" and the like are sizes in bytes of what
the op makes for itself.
"""

import collections
import itertools
import re

import pytest
import torch
from conftest import REPOSITORY, cairn
from saved_tensors import saved_storages
from torch.nn import functional
from transformers.models.llama.modeling_llama import repeat_kv

import models

BATCH, TOKENS, WIDTH, HEADS = 2, 8, 16, 4
BF16, FP32 = torch.bfloat16, torch.float32
ROWS = BATCH * TOKENS
BF16_BYTES = 2 * ROWS * WIDTH
ROW_STATISTIC = 4 * ROWS


def tokens(dtype=BF16, width=WIDTH, requires_grad=True):
    made = torch.zeros(BATCH, TOKENS, width, device="meta", dtype=dtype)
    return made.requires_grad_(requires_grad)


def weight(*shape, requires_grad=True):
    made = torch.zeros(*shape, device="meta", dtype=BF16)
    return made.requires_grad_(requires_grad)


def labels():
    return torch.zeros(ROWS, device="meta", dtype=torch.long)


def integers(*shape, dtype=torch.long):
    return torch.zeros(*shape, device="meta", dtype=dtype)


def joined_heads(own, shared):
    """Keys of DeepSeek's attention: a part of each head, and one that all share."""
    keys = own.new_empty(BATCH, HEADS, TOKENS, WIDTH // HEADS + shared.shape[-1])
    keys[..., :WIDTH // HEADS].copy_(heads_of(own))
    keys[..., WIDTH // HEADS:].copy_(shared.unsqueeze(1).expand(-1, HEADS, -1, -1))
    return keys


def heads_of(x):
    return x.view(BATCH, TOKENS, HEADS, -1).transpose(1, 2)


FROZEN = dict(requires_grad=False)

CHANNELS, SIDE = 3, 8  # of the kinds of images
CHANNEL_STATISTIC = 4 * CHANNELS


def images(requires_grad=True):
    return weight(BATCH, CHANNELS, SIDE, SIDE, requires_grad=requires_grad)


# name: (graph/ops file, tensors, call, names of the saved inputs, is the output saved, other bytes)
OPS = {
    "linear": ("linear.cc", dict(x=tokens(), w=weight(24, WIDTH)),
               lambda x, w: functional.linear(x, w), "xw", False, []),
    "linear, frozen": ("linear.cc", dict(x=tokens(), w=weight(24, WIDTH, **FROZEN)),
                       lambda x, w: functional.linear(x, w), "w", False, []),
    "linear, first": ("linear.cc", dict(x=tokens(**FROZEN), w=weight(24, WIDTH)),
                      lambda x, w: functional.linear(x, w), "x", False, []),
    "layer_norm": ("norms.cc", dict(x=tokens(), w=weight(WIDTH)),
                   lambda x, w: functional.layer_norm(x, (WIDTH,), w), "xw", False,
                   [ROW_STATISTIC, ROW_STATISTIC]),
    "embedding": ("embedding.cc", dict(i=labels(), w=weight(32, WIDTH)),
                  lambda i, w: functional.embedding(i, w), "i", False, []),
    "dropout": ("pointwise.cc", dict(x=tokens()),
                lambda x: functional.dropout(x, 0.1), "", False, [ROWS * WIDTH]),
    "dropout of probability 0": ("pointwise.cc", dict(x=tokens()),
                                 lambda x: functional.dropout(x, 0.0), "", False, []),
    "gelu": ("pointwise.cc", dict(x=tokens()), functional.gelu, "x", False, []),
    "silu": ("pointwise.cc", dict(x=tokens()), functional.silu, "x", False, []),
    "pow": ("pointwise.cc", dict(x=tokens()), lambda x: x.pow(2), "x", False, []),
    "tanh": ("pointwise.cc", dict(x=tokens()), torch.tanh, "", True, []),
    "rsqrt": ("pointwise.cc", dict(x=tokens()), torch.rsqrt, "", True, []),
    "neg": ("pointwise.cc", dict(x=tokens()), torch.neg, "", False, []),
    "scale": ("pointwise.cc", dict(x=tokens()), lambda x: x * 0.5, "", False, []),
    "add_scalar": ("pointwise.cc", dict(x=tokens()), lambda x: x + 1.0, "", False, []),
    "mean": ("pointwise.cc", dict(x=tokens()), lambda x: x.mean(-1, keepdim=True), "", False, []),
    "copy": ("pointwise.cc", dict(x=tokens()),
             lambda x: x.transpose(0, 1).contiguous(), "", False, []),
    "cast": ("pointwise.cc", dict(x=tokens()), lambda x: x.float(), "", False, []),
    "softmax": ("pointwise.cc", dict(x=tokens()), lambda x: x.softmax(-1), "", True, []),
    "softmax with a dtype": ("pointwise.cc", dict(x=tokens()),
                             lambda x: x.softmax(-1, dtype=FP32), "", True, []),
    "log_softmax": ("pointwise.cc", dict(x=tokens(FP32)),
                    lambda x: x.log_softmax(-1), "", True, []),
    "add": ("binary.cc", dict(x=tokens(), y=tokens()), torch.add, "", False, []),
    "mul": ("binary.cc", dict(x=tokens(), y=tokens()), torch.mul, "xy", False, []),
    "mul by a constant tensor": ("binary.cc", dict(x=tokens(), y=tokens(**FROZEN)), torch.mul, "y",
                                 False, []),
    "mul_weight": ("binary.cc", dict(x=tokens(), w=weight(WIDTH)), torch.mul, "xw", False, []),
    "mul_weight, frozen": ("binary.cc", dict(x=tokens(), w=weight(WIDTH, **FROZEN)), torch.mul, "w",
                           False, []),
    "mul_one_plus_weight": ("binary.cc", dict(x=tokens(FP32), w=weight(WIDTH)),
                            lambda x, w: x * (1.0 + w.float()), "x", False, [4 * WIDTH]),
    "mul_table": ("binary.cc", dict(x=weight(BATCH, HEADS, TOKENS, 4),
                                    t=weight(1, TOKENS, 4, **FROZEN)), torch.mul, "t",
                  False, []),
    "slice": ("layout.cc", dict(x=tokens()), lambda x: x[..., :WIDTH // 2], "", False, []),
    "split": ("layout.cc", dict(x=tokens()), lambda x: x.split(4, -1)[0], "", False, []),
    "slice of its own width": ("layout.cc", dict(x=tokens()), lambda x: x[..., 3:8], "", False, []),
    "split by widths": ("layout.cc", dict(x=tokens()), lambda x: x.split([3, WIDTH - 3], -1)[1], "",
                        False, []),
    "split_heads": ("heads.cc", dict(x=tokens()),
                    lambda x: x.view(BATCH, TOKENS, HEADS, -1), "", False, []),
    "merge_heads": ("heads.cc", dict(x=weight(BATCH, TOKENS, HEADS, 4)),
                    lambda x: x.view(BATCH, TOKENS, -1), "", False, []),
    "cat": ("layout.cc", dict(x=tokens(), y=tokens()),
            lambda x, y: torch.cat((x, y), -1), "", False, []),
    "cat of images": ("layout.cc", dict(x=images(), y=images()),
                      lambda x, y: torch.cat((x, y), 1), "", False, []),
    "add in place": ("binary.cc", dict(x=tokens(), y=tokens()),
                     lambda x, y: x.neg().add_(y), "", False, []),
    "relu": ("pointwise.cc", dict(x=tokens()), torch.relu, "", True, []),
    "relu in place": ("pointwise.cc", dict(x=tokens()), lambda x: x.neg().relu_(), "", True, []),
    "conv2d": ("conv.cc", dict(x=images(), w=weight(5, CHANNELS, 3, 3)),
               lambda x, w: functional.conv2d(x, w, padding=1), "xw", False, []),
    "conv2d, frozen": ("conv.cc", dict(x=images(), w=weight(5, CHANNELS, 3, 3, **FROZEN)),
                       lambda x, w: functional.conv2d(x, w, padding=1), "xw", False, []),
    "conv2d, first": ("conv.cc", dict(x=images(**FROZEN), w=weight(5, CHANNELS, 3, 3)),
                      lambda x, w: functional.conv2d(x, w, padding=1), "xw", False, []),
    "conv_transpose2d": ("conv.cc", dict(x=images(), w=weight(CHANNELS, 5, 2, 2)),
                         lambda x, w: functional.conv_transpose2d(x, w, stride=2), "xw", False, []),
    "batch_norm": ("batch_norm.cc", dict(x=images(), w=weight(CHANNELS), b=weight(CHANNELS)),
                   lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
                   "xw", False, [CHANNEL_STATISTIC, CHANNEL_STATISTIC]),
    "max_pool2d": ("pooling.cc", dict(x=images()), lambda x: functional.max_pool2d(x, 2), "x",
                   False, [8 * BATCH * CHANNELS * (SIDE // 2)**2]),
    "avg_pool2d": ("pooling.cc", dict(x=images()), lambda x: functional.avg_pool2d(x, 2), "x",
                   False, []),
    "adaptive_avg_pool2d": ("pooling.cc", dict(x=images()),
                            lambda x: functional.adaptive_avg_pool2d(x, 7), "x", False, []),
    "global_avg_pool": ("pooling.cc", dict(x=images()),
                        lambda x: functional.adaptive_avg_pool2d(x, 1), "", False, []),
    "flatten": ("image_layout.cc", dict(x=images()), lambda x: x.flatten(1), "", False, []),
    "to_tokens": ("image_layout.cc", dict(x=images()),
                  lambda x: x.flatten(2).transpose(1, 2), "", False, []),
    "crop": ("image_layout.cc", dict(x=images()), lambda x: x[..., 2:6, 2:6], "", False, []),
    "first_token": ("image_layout.cc", dict(x=tokens()), lambda x: x[:, 0], "", False, []),
    "prepend_token": ("image_layout.cc", dict(x=tokens(), w=weight(1, 1, WIDTH)),
                      lambda x, w: torch.cat((w.expand(BATCH, -1, -1), x), 1), "", False, []),
    "add_weight": ("image_layout.cc", dict(x=tokens(), w=weight(1, TOKENS, WIDTH)), torch.add, "",
                   False, []),
    "mask_causal": ("pointwise.cc", dict(x=weight(1, HEADS, TOKENS, TOKENS)),
                    lambda x: torch.where(torch.ones(TOKENS, TOKENS, device="meta").bool(), x, 0.0),
                    "", False, [TOKENS * TOKENS]),
    "heads_first": ("image_layout.cc", dict(x=weight(TOKENS, TOKENS, HEADS)),
                    lambda x: x.permute(2, 0, 1).unsqueeze(0), "", False, []),
    "sub": ("binary.cc", dict(x=tokens(), y=tokens(width=1)), torch.sub, "", False, []),
    "div": ("binary.cc", dict(x=tokens(), y=tokens(width=1)), torch.div, "xy", False, []),
    "div by a constant tensor": ("binary.cc", dict(x=tokens(), y=tokens(width=1, **FROZEN)),
                                 torch.div, "y", False, []),
    "div in place": ("binary.cc", dict(x=tokens(), y=tokens(width=1)),
                     lambda x, y: x.neg().div_(y), "y", False, [BF16_BYTES]),  # a copy of x
    "sigmoid": ("pointwise.cc", dict(x=tokens()), torch.sigmoid, "", True, []),
    "clamp": ("pointwise.cc", dict(x=tokens()), lambda x: x.clamp(-7, 7), "x", False, []),
    "sum": ("pointwise.cc", dict(x=tokens()), lambda x: x.sum(-1, keepdim=True), "", False, []),
    "linear in fp32": ("linear.cc", dict(x=tokens(FP32), w=weight(24, WIDTH)),
                       lambda x, w: functional.linear(x, w.float()), "x", False,
                       [4 * 24 * WIDTH]),
    "topk": ("routing.cc", dict(x=tokens()), lambda x: x.topk(3)[0], "", False, [8 * 3 * ROWS]),
    "topk of one": ("routing.cc", dict(x=tokens()), lambda x: x.max(-1, keepdim=True)[0], "",
                    False, [8 * ROWS]),
    "gather": ("routing.cc", dict(x=tokens(), i=integers(BATCH, TOKENS, 3)),
               lambda x, i: x.gather(-1, i), "xi", False, []),
    "masked_fill": ("routing.cc", dict(x=tokens(), m=integers(BATCH, TOKENS, 1, dtype=torch.bool)),
                    lambda x, m: x.masked_fill(m, 0.0), "m", False, []),
    "dispatch": ("experts.cc", dict(x=weight(ROWS, WIDTH), i=integers(3 * ROWS),
                                    m=integers(3 * ROWS, 1, dtype=torch.bool)),
                 lambda x, i, m: x[i].masked_fill_(m, 0.0), "im", False, []),
    "take": ("experts.cc", dict(x=weight(ROWS, 3), i=integers(3 * ROWS)),
             lambda x, i: x.reshape(-1)[i].unsqueeze(-1), "i", False, []),
    "expert_linear": ("experts.cc", dict(x=weight(ROWS, WIDTH), w=weight(6, 24, WIDTH),
                                         e=integers(6, dtype=torch.int32)),
                      lambda x, w, e: functional.grouped_mm(x, w.transpose(1, 2), offs=e), "xwe",
                      False, []),
    "expert_linear with a bias": ("experts.cc", dict(x=weight(ROWS, WIDTH), w=weight(6, 24, WIDTH),
                                                     e=integers(6, dtype=torch.int32),
                                                     b=weight(6, 24), i=integers(ROWS)),
                                  lambda x, w, e, b, i: functional.grouped_mm(
                                      x, w.transpose(1, 2), offs=e).add_(b[i]), "xwei", False, []),
    "combine": ("experts.cc", dict(x=weight(ROWS, WIDTH), i=integers(ROWS)),
                lambda x, i: x[i].view(-1, 2, WIDTH).sum(1), "i", False, []),
    "conv1d": ("conv1d.cc", dict(x=tokens(), w=weight(24, WIDTH // 2)),
               lambda x, w: functional.conv1d(x.mT, w.unsqueeze(-1), groups=2).mT, "xw", False, []),
    "conv1d of a frozen weight": ("conv1d.cc", dict(x=tokens(), w=weight(24, WIDTH, **FROZEN)),
                                  lambda x, w: functional.conv1d(x.mT, w.unsqueeze(-1)).mT, "xw",
                                  False, []),
    "index_copy": ("index_copy.cc", dict(x=tokens(), i=integers(WIDTH)),
                   lambda x, i: x.new_zeros(BATCH, TOKENS, 3 * WIDTH).index_copy(-1, i, x), "xi",
                   False, []),
    "index_copy in place": ("index_copy.cc", dict(x=tokens(), i=integers(WIDTH)),
                            lambda x, i: x.new_zeros(BATCH, TOKENS, 3 * WIDTH).index_copy_(-1, i, x),
                            "xi", False, []),
    "append_sinks": ("attention_parts.cc", dict(x=weight(BATCH, HEADS, TOKENS, TOKENS),
                                                w=weight(HEADS)),
                     lambda x, w: torch.cat((x, w.view(1, -1, 1, 1).expand(BATCH, -1, TOKENS, 1)),
                                            -1), "", False, []),
    "drop_sinks": ("attention_parts.cc", dict(x=weight(BATCH, HEADS, TOKENS, TOKENS + 1)),
                   lambda x: x[..., :-1], "", False, []),
    "join_heads": ("attention_parts.cc", dict(x=tokens(), y=tokens(width=2)), joined_heads, "",
                   False, []),
    # nll_loss keeps the divisor of its mean too, 4 bytes that Cairn leaves out.
    "nll_loss": ("losses.cc", dict(x=torch.zeros(ROWS, WIDTH, device="meta", requires_grad=True),
                                   i=labels()),
                 lambda x, i: functional.nll_loss(x, i), "xi", False, [4]),
    "attention_scores": ("attention.cc", dict(q=tokens(), k=tokens()),
                         lambda q, k: heads_of(q) @ heads_of(k).transpose(2, 3), "", False,
                         [BF16_BYTES, BF16_BYTES]),  # copies of q and k, head by head: their bytes
    "attention_values": ("attention.cc", dict(p=weight(BATCH, HEADS, TOKENS, TOKENS), v=tokens()),
                         lambda p, v: p @ heads_of(v), "p", False, [BF16_BYTES]),
}


# Kinds without a row: tests of their own below and in t5_test.py, or no op of torch to ask.
OTHER_KINDS = {
    "attention", "masked_attention", "matmul_rows", "repeat_kv",
    "rms_norm", "rope", "swiglu", "geglu",  # one kernel each, of other libraries than torch
    "cross_entropy",  # Megatron-LM's
    "cross_entropy_compiled",  # libraries_test.py
    # liger_test.py, implementations_test.py
    "cross_entropy_in_place", "fused_linear_cross_entropy", "chunked_linear_cross_entropy",
    "cut_cross_entropy",
    "group_mask", "split_ids",  # without a gradient
    "linear_4bit", "linear_8bit",  # bitsandbytes': quantized_test.py
    "linear_4bit_saving_input",  # bitsandbytes' of 2023: litgpt_2023_test.py
    "mean_saving_input",  # torch 2.1's: litgpt_2023_test.py
    "indices", "stored_indices",  # without a gradient
    "eye", "transpose", "detach", "row_norm", "weight_over",  # DoRA's: adapters_test.py
    "requires_grad",  # of a frozen input: adapters_peak_test.py
    "custom",  # states everything itself
}


def test_every_kind_of_every_file_has_a_row():
    kinds = {}
    for path in (REPOSITORY / "graph" / "ops").glob("*.cc"):
        names = re.findall(r'return (?:\{\s*\.name = |(?:unary|head_kind)\()"(\w+)"', path.read_text())
        kinds |= dict.fromkeys(names, path.name)
    rows = {re.match(r"\w+", name)[0]: row[0] for name, row in OPS.items()}
    assert rows == {kind: file for kind, file in kinds.items() if kind not in OTHER_KINDS}
    assert OTHER_KINDS <= kinds.keys()


@pytest.mark.parametrize("name", OPS)
def test_an_op_saves_what_its_kind_says(name):
    _, tensors, call, saved_inputs, saves_output, others = OPS[name]
    outputs = []
    with models.gpu_kernels():
        kept = saved_storages(lambda: outputs.append(call(*tensors.values())))
    expected = [tensors[letter].untyped_storage().nbytes() for letter in saved_inputs]
    expected += [outputs[0].untyped_storage().nbytes()] if saves_output else []
    assert sorted(kept.elements()) == sorted(expected + others)


def test_a_flash_kernel_saves_its_inputs_output_and_logsumexp():
    # graph/ops/attention.cc: q, k, v, out, logsumexp; the random state of 16 bytes with dropout.
    # torch keeps that state always, and an unused scalar of 8 bytes.
    q, k, v = tokens(), tokens(width=WIDTH // 2), tokens(width=WIDTH // 2)
    key_heads = [x.view(BATCH, TOKENS, HEADS // 2, -1).transpose(1, 2) for x in (k, v)]
    with models.gpu_kernels():
        kept = saved_storages(lambda: functional.scaled_dot_product_attention(
            heads_of(q), *key_heads, is_causal=True, enable_gqa=True))
    logsumexp = 4 * BATCH * HEADS * TOKENS
    assert sorted(kept.elements()) == sorted(
        [BF16_BYTES, BF16_BYTES // 2, BF16_BYTES // 2, BF16_BYTES, logsumexp, 16, 8])


@pytest.mark.parametrize("columns", [TOKENS, TOKENS - 3])
def test_a_kernel_with_a_mask_saves_the_masks_numbers_too(columns):
    # graph/ops/masked_attention.cc: rows of the mask are padded to multiples of 8, of the logsumexp
    # to multiples of 32; two random states of 8 bytes, which Cairn counts with dropout.
    q, k, v = (tokens()[:, :columns].contiguous().detach().requires_grad_() for _ in range(3))
    mask = torch.ones(BATCH, 1, columns, columns, device="meta", dtype=torch.bool)
    heads = [x.view(BATCH, columns, HEADS, -1).transpose(1, 2) for x in (q, k, v)]
    with models.gpu_kernels():
        kept = saved_storages(
            lambda: functional.scaled_dot_product_attention(*heads, attn_mask=mask))
    bias, logsumexp = 2 * BATCH * columns * 8, 4 * BATCH * HEADS * 32
    rows = 2 * BATCH * columns * WIDTH
    assert sorted(kept.elements()) == sorted([rows] * 4 + [bias, logsumexp, 8, 8])


@pytest.mark.parametrize("batch", [1, BATCH])
def test_a_product_copies_heads_that_lie_beside_others_but_of_one_sample(batch):
    # graph/ops/matmul_rows.cc
    qkv = torch.zeros(batch, TOKENS, 3 * WIDTH, device="meta", dtype=BF16, requires_grad=True)
    probabilities = torch.zeros(batch, HEADS, TOKENS, TOKENS, device="meta", dtype=BF16,
                                requires_grad=True)
    v = qkv.view(batch, TOKENS, HEADS, -1).chunk(3, dim=-1)[2].transpose(1, 2)
    kept = saved_storages(lambda: probabilities @ v, [probabilities])
    assert kept == {qkv.nbytes // 3 if batch > 1 else qkv.nbytes: 1}


def test_repeat_kv_makes_a_storage_and_saves_nothing():
    k = tokens(width=WIDTH // 2)
    heads = k.view(BATCH, TOKENS, HEADS // 2, -1).transpose(1, 2)
    outputs = []
    kept = saved_storages(lambda: outputs.append(repeat_kv(heads, 2)))
    assert not kept
    assert outputs[0].untyped_storage().nbytes() == BF16_BYTES


# Kinds of several inputs, each subset of which may require a gradient:
# name: (op in a family, letters of its inputs, call, shapes of its parameters in torch). w is the
# op's weight, v its bias, every other letter a tensor of tokens.
SUBSETS = {
    "linear": ("{op: linear, in: a, width: 24, bias: true}", "awv",
               lambda a, w, v: functional.linear(a, w, v), dict(w=(24, WIDTH), v=(24,))),
    "layer_norm": ("{op: layer_norm, in: a, bias: true}", "awv",
                   lambda a, w, v: functional.layer_norm(a, (WIDTH,), w, v),
                   dict(w=(WIDTH,), v=(WIDTH,))),
    "add": ("{op: add, in: [a, b]}", "ab", torch.add, {}),
    "sub": ("{op: sub, in: [a, b]}", "ab", torch.sub, {}),
    "mul": ("{op: mul, in: [a, b]}", "ab", torch.mul, {}),
    "div": ("{op: div, in: [a, b]}", "ab", torch.div, {}),
    "mul_weight": ("{op: mul_weight, in: a}", "aw", torch.mul, dict(w=(WIDTH,))),
    "mul_one_plus_weight": ("{op: mul_one_plus_weight, in: a}", "aw",
                            lambda a, w: a * (1.0 + w), dict(w=(WIDTH,))),
    "cat": ("{op: cat, in: [a, b]}", "ab", lambda a, b: torch.cat((a, b), -1), {}),
    "attention": ("{op: attention, in: [a, b, c], heads: 4, causal: true}", "abc",
                  lambda a, b, c: functional.scaled_dot_product_attention(
                      heads_of(a), heads_of(b), heads_of(c), is_causal=True), {}),
    "masked_attention": ("{op: masked_attention, in: [a, b, c], heads: 4}", "abc",
                         lambda a, b, c: functional.scaled_dot_product_attention(
                             heads_of(a), heads_of(b), heads_of(c), attn_mask=torch.ones(
                                 BATCH, 1, TOKENS, TOKENS, device="meta", dtype=torch.bool)), {}),
    "attention_scores": ("{op: attention_scores, in: [a, b], heads: 4}", "ab",
                         lambda a, b: heads_of(a) @ heads_of(b).transpose(2, 3), {}),
    "add_weight": ("{op: add_weight, in: a}", "aw", torch.add, dict(w=(TOKENS, WIDTH))),
}
# What brings the op's output back to tokens.
TAILS = {"attention_scores": "{op: attention_values, in: [made, c], heads: 4}"}
FAMILY = """
family: subsets
inputs:
  x: {{dtype: activation, shape: [batch, tokens, {width}]}}
  labels: {{dtype: int64, shape: [batch, tokens]}}
ops:
  - repeat: 1
    carry: {{y: x}}
    ops:
      - a: {{op: mul_weight, in: y}}
      - b: {{op: mul_weight, in: y}}
      - c: {{op: mul_weight, in: y}}
      - made: {op}
      - y: {tail}
  - head: {{op: linear, in: y, width: 8}}
  - loss: {{op: cross_entropy, in: [head, labels]}}
"""


def subsets():
    for name, (_, letters, _, _) in SUBSETS.items():
        for size in range(1, len(letters) + 1):
            for trained in itertools.combinations(letters, size):
                yield pytest.param(name, "".join(trained), id=f"{name}, {' '.join(trained)}")


@pytest.mark.parametrize("name, trained", list(subsets()))
def test_an_op_saves_what_the_gradients_that_are_required_need(tmp_path, name, trained):
    op, letters, call, shapes = SUBSETS[name]
    tensors = {letter: weight(*shapes[letter], requires_grad=letter in trained)
               if letter in shapes else tokens(requires_grad=letter in trained)
               for letter in letters}
    with models.gpu_kernels() as random_states:
        parameters = [tensors[letter] for letter in letters if letter in shapes]
        kept = saved_storages(lambda: call(*tensors.values()),
                              itertools.chain(parameters, random_states))
    (tmp_path / "families").mkdir()
    tail = TAILS.get(name, "{op: scale, in: made}")
    text = FAMILY.format(op=op, tail=tail, width=WIDTH)
    (tmp_path / "families" / "subsets.yaml").write_text(text)
    (tmp_path / "model.yaml").write_text("model: m\nfamily: subsets\ndims: {}\n")
    # Inputs require a gradient through a factor that is trained.
    paths = {"w": "*.made.weight", "v": "*.made.bias"}
    options = [word for letter in trained
               for word in ("--train-only", paths.get(letter, f"*.{letter}.weight"))]
    shown = cairn("show", tmp_path / "model.yaml", "--models", tmp_path, "--batch", BATCH,
                  "--tokens", TOKENS, *options)
    made = next(op for op in shown["ops"] if op["name"].endswith(".made"))
    names = {"w": "weight", "v": "bias"}
    parameters = tuple(f".made.{names[letter]}" for letter in shapes)
    own = {saved["storage"]: saved["storage_bytes"] for saved in made["saved"]
           if not saved["storage"].endswith(parameters)}
    assert kept == collections.Counter(own.values())
