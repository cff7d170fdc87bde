"""Ops of Cairn's executor against PyTorch on the CPU, in float32: each in a model of its own, whose
loss is the sum of the op's output times weights; every gradient is held, that of the weights being
the output.
"""

import math

import pytest
import torch
from executor_tensors import check_near, saved_tensors
from torch.nn import functional

B, T, H = 2, 6, 16  # samples, tokens, features
ROWS = [B, T, H]
SCORES = [B, 4, T, T]
IMAGE = [B, 4, 9, 9]
WIDE = 50  # Cairn draws with a deviation of 0.02


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def rows(x):
    return x.transpose(1, 2).flatten(2)


def attention(q, k, v, kv_heads=4, bias=None, scale=None, cap=None, sinks=None, mask=None):
    q, k, v = heads(q, 4), heads(k, kv_heads), heads(v, kv_heads)
    k, v = (x.repeat_interleave(4 // kv_heads, dim=1) for x in (k, v))
    scores = q @ k.mT * (scale or 1 / math.sqrt(q.shape[-1]))
    if cap:
        scores = cap * torch.tanh(scores / cap)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.reshape(1, -1, 1, 1).expand(B, -1, T, 1)], -1)
    probabilities = scores.softmax(-1)
    return rows(probabilities[..., :k.shape[2]] @ v)


def causal(window=None):
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    return mask if window is None else mask.triu(1 - window)


def rotated(x, cos, sin):
    """liger-kernel's: the first half of the tables turns both halves."""
    x = x.unflatten(-1, (4, -1))
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    c, s = (t[..., :half].unsqueeze(2) for t in (cos, sin))
    return torch.cat([a * c - b * s, b * c + a * s], -1).flatten(2)


def complex_product(x, table):
    x = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    table = torch.view_as_complex(table.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(x.unflatten(-1, (4, -1)) * table.unsqueeze(2)).flatten(2)


def batch_norm(x, w, b):
    return functional.batch_norm(x, None, None, w, b, training=True)


# name: (shapes of what is learned, the op, its output's shape, the same in torch: of what is
# learned, then of the op's parameters)
UNARY = {
    "gelu": ("{op: gelu, in: x_}", functional.gelu),
    "gelu by tanh": ("{op: gelu, in: x_, tanh: true}",
                     lambda x: functional.gelu(x, approximate="tanh")),
    "silu": ("{op: silu, in: x_}", functional.silu),
    "relu": ("{op: relu, in: x_}", functional.relu),
    "tanh": ("{op: tanh, in: x_}", torch.tanh),
    "sigmoid": ("{op: sigmoid, in: x_}", torch.sigmoid),
    "neg": ("{op: neg, in: x_}", torch.neg),
    "copy": ("{op: copy, in: x_}", torch.clone),
    "pow": ("{op: pow, in: x_, constant: 3}", lambda x: x.pow(3)),
    "scale": ("{op: scale, in: x_, constant: 0.3}", lambda x: x * 0.3),
    "add_scalar": ("{op: add_scalar, in: x_, constant: 0.3}", lambda x: x + 0.3),
    "clamp": ("{op: clamp, in: x_, constant: 0.7}", lambda x: x.clamp(-0.7, 0.7)),
    "clamp from above": ("{op: clamp, in: x_, constant: 0.7, one_sided: true}",
                         lambda x: x.clamp(max=0.7)),
    "softmax": ("{op: softmax, in: x_}", lambda x: x.softmax(-1)),
    "log_softmax": ("{op: log_softmax, in: x_}", lambda x: x.log_softmax(-1)),
}

OPS = {name: (dict(x=ROWS), op, ROWS, call) for name, (op, call) in UNARY.items()} | {
    "mean": (dict(x=ROWS), "{op: mean, in: x_}", [B, T, 1], lambda x: x.mean(-1, keepdim=True)),
    "sum": (dict(x=ROWS), "{op: sum, in: x_}", [B, T, 1], lambda x: x.sum(-1, keepdim=True)),
    "add": (dict(x=ROWS, y=ROWS), "{op: add, in: [x_, y_]}", ROWS, torch.add),
    "sub": (dict(x=ROWS, y=[T, H]), "{op: sub, in: [x_, y_]}", ROWS, torch.sub),
    "mul": (dict(x=ROWS, y=[B, T, 1]), "{op: mul, in: [x_, y_]}", ROWS, torch.mul),
    "mul_weight": (dict(x=ROWS), "{op: mul_weight, in: x_}", ROWS, torch.mul),
    "mul_one_plus_weight": (dict(x=ROWS), "{op: mul_one_plus_weight, in: x_}", ROWS,
                            lambda x, w: x * (1 + w)),
    "layer_norm": (dict(x=ROWS), "{op: layer_norm, in: x_, bias: true}", ROWS,
                   lambda x, w, b: functional.layer_norm(x, [H], w, b)),
    "rms_norm": (dict(x=ROWS), "{op: rms_norm, in: x_, constant: 1e-3}", ROWS,
                 lambda x, w: functional.rms_norm(x, [H], w, 1e-3)),
    "linear": (dict(x=ROWS), "{op: linear, in: x_, width: 5, bias: true}", [B, T, 5],
               functional.linear),
    "swiglu": (dict(x=ROWS, y=ROWS), "{op: swiglu, in: [x_, y_]}", ROWS,
               lambda x, y: functional.silu(x) * y),
    "swiglu of halves": (dict(x=[B, T, 2 * H]), "{op: swiglu, in: x_}", ROWS,
                         lambda x: functional.silu(x[..., :H]) * x[..., H:]),
    "geglu": (dict(x=ROWS, y=ROWS), "{op: geglu, in: [x_, y_], gradient_in_place: true}", ROWS,
              lambda x, y: functional.gelu(x, approximate="tanh") * y),
    "mask_causal": (dict(x=SCORES), "{op: mask_causal, in: x_, constant: -2}", SCORES,
                    lambda x: x.masked_fill(~causal(), -2)),
    "softmax of a causal mask": (dict(x=SCORES), "{op: softmax, in: x_, causal: true}", SCORES,
                                 lambda x: x.masked_fill(~causal(), -math.inf).softmax(-1)),
    "repeat_kv": (dict(x=ROWS), "{op: repeat_kv, in: x_, heads: 4, kv_heads: 2}", [B, T, 2 * H],
                  lambda x: rows(heads(x, 2).repeat_interleave(2, dim=1))),
    "slice of heads, then neg": (dict(x=ROWS),
                                 "{op: neg, in: part}", [B, T, H // 2],
                                 lambda x: -x.unflatten(-1, (4, -1))[..., 2:].flatten(2)),
    "cat of heads": (dict(x=ROWS, y=[B, T, 8]), "{op: cat, in: [x_, y_], heads: 4}", [B, T, H + 8],
                     lambda x, y: torch.cat([t.unflatten(-1, (4, -1)) for t in (x, y)],
                                            -1).flatten(2)),
    "join_heads": (dict(x=ROWS, y=[B, T, 3]), "{op: join_heads, in: [x_, y_], heads: 4}",
                   [B, T, H + 12],
                   lambda x, y: torch.cat([x.unflatten(-1, (4, -1)),
                                           y.unsqueeze(2).expand(-1, -1, 4, -1)], -1).flatten(2)),
    "append_sinks": (dict(x=SCORES), "{op: append_sinks, in: x_}", [B, 4, T, T + 1],
                     lambda x, w: torch.cat([x, w.reshape(1, -1, 1, 1).expand(B, -1, T, 1)], -1)),
    "attention_scores": (dict(x=ROWS, y=ROWS),
                         "{op: attention_scores, in: [x_, y_], heads: 4, constant: 0.3}", SCORES,
                         lambda x, y: heads(x, 4) @ heads(y, 4).mT * 0.3),
    "attention_values": (dict(x=SCORES, y=ROWS), "{op: attention_values, in: [x_, y_], heads: 4}",
                         ROWS, lambda x, y: rows(x @ heads(y, 4))),
    "attention": (dict(x=ROWS, y=ROWS, z=ROWS), "{op: attention, in: [x_, y_, z_], heads: 4}",
                  ROWS, attention),
    "attention, causal, of groups": (
        dict(x=ROWS, y=[B, T, 8], z=[B, T, 8]),
        "{op: attention, in: [x_, y_, z_], heads: 4, kv_heads: 2, causal: true}", ROWS,
        lambda x, y, z: attention(x, y, z, 2, mask=causal())),
    "attention with a cap": (
        dict(x=ROWS, y=ROWS, z=ROWS),
        "{op: attention, in: [x_, y_, z_], heads: 4, softcap: 1.5, constant: 0.7}", ROWS,
        lambda x, y, z: attention(x, y, z, scale=0.7, cap=1.5)),
    "attention with sinks and a window": (
        dict(x=ROWS, y=ROWS, z=ROWS),
        "{op: attention, in: [x_, y_, z_], heads: 4, causal: true, window: 3, sinks: true}", ROWS,
        lambda x, y, z, w: attention(x, y, z, mask=causal(3), sinks=w)),
    "attention with a bias": (
        dict(x=ROWS, y=ROWS, z=ROWS, table=[1, 4, T, T]),
        "{op: attention, in: [x_, y_, z_, table_], heads: 4, bias: true}", ROWS,
        lambda x, y, z, table: attention(x, y, z, bias=table)),
    "masked_attention": (
        dict(x=ROWS, y=ROWS, z=ROWS),
        "{op: masked_attention, in: [x_, y_, z_], heads: 4, causal: true, window: 2}", ROWS,
        lambda x, y, z: attention(x, y, z, mask=causal(2))),
    "conv2d": (dict(x=IMAGE), "{op: conv2d, in: x_, width: 6, kernel: 3, stride: 2, padding: 1, "
                              "groups: 2, bias: true}", [B, 6, 5, 5],
               lambda x, w, b: functional.conv2d(x, w, b, stride=2, padding=1, groups=2)),
    "conv_transpose2d": (dict(x=IMAGE), "{op: conv_transpose2d, in: x_, width: 3, kernel: 2, "
                                        "stride: 2, bias: true}", [B, 3, 18, 18],
                         lambda x, w, b: functional.conv_transpose2d(x, w, b, stride=2)),
    "batch_norm": (dict(x=IMAGE), "{op: batch_norm, in: x_}", IMAGE, batch_norm),
    "max_pool2d": (dict(x=IMAGE), "{op: max_pool2d, in: x_, kernel: 3, stride: 2, padding: 1}",
                   [B, 4, 5, 5], lambda x: functional.max_pool2d(x, 3, 2, 1)),
    "avg_pool2d": (dict(x=IMAGE), "{op: avg_pool2d, in: x_, kernel: 3}", [B, 4, 3, 3],
                   lambda x: functional.avg_pool2d(x, 3)),
    "adaptive_avg_pool2d": (dict(x=IMAGE), "{op: adaptive_avg_pool2d, in: x_, rows: 4}",
                            [B, 4, 4, 4], lambda x: functional.adaptive_avg_pool2d(x, 4)),
    "global_avg_pool": (dict(x=IMAGE), "{op: global_avg_pool, in: x_}", [B, 4, 1, 1],
                        lambda x: functional.adaptive_avg_pool2d(x, 1)),
    "to_tokens": (dict(x=IMAGE), "{op: to_tokens, in: x_}", [B, 81, 4],
                  lambda x: x.flatten(2).mT),
    "crop": (dict(x=IMAGE), "{op: crop, in: x_, rows: 5}", [B, 4, 5, 5],
             lambda x: x[..., 2:7, 2:7]),
    "heads_first": (dict(x=[T, 5, 4]), "{op: heads_first, in: x_}", [1, 4, T, 5],
                    lambda x: x.permute(2, 0, 1).unsqueeze(0)),
    "prepend_token": (dict(x=ROWS), "{op: prepend_token, in: x_}", [B, T + 1, H],
                      lambda x, w: torch.cat([w.expand(B, 1, -1), x], 1)),
    "first_token": (dict(x=ROWS), "{op: first_token, in: x_}", [B, H], lambda x: x[:, 0]),
    "add_weight": (dict(x=ROWS), "{op: add_weight, in: x_}", ROWS, torch.add),
    "topk": (dict(x=ROWS), "{op: topk, in: x_, k: 3, out: [out, where]}", [B, T, 3],
             lambda x: x.topk(3).values),
    "conv1d of groups": (dict(x=ROWS), "{op: conv1d, in: x_, width: 6, groups: 2}", [B, T, 6],
                         lambda x, w: functional.conv1d(x.mT, w.unsqueeze(-1), groups=2).mT),
    "rope": (dict(x=ROWS), "{op: rope, in: [x_, cos, sin], heads: 4}", ROWS, rotated),
    "mul_table of pairs": (dict(x=ROWS), "{op: mul_table, in: [by_head, cos_], pairs: true}",
                           [B, T, 4, 4], None),
}

# Ops before the one that is held, and what is not learned.
BEFORE = {
    "slice of heads, then neg": ["part: {op: slice, in: x_, parts: 2, part: 1, heads: 4}"],
    "mul_table of pairs": ["by_head: {op: split_heads, in: x_, heads: 4}",
                           "cos_: {op: split_heads, in: cos, heads: 1}"],
}
TABLES = {"rope": ["cos", "sin"], "mul_table of pairs": ["cos"]}

# Losses: of their own gradient, 1. Shapes of what is learned, the op, the same in torch.
LOSSES = {
    "nll_loss": (dict(x=[12, 7]), "{op: nll_loss, in: [x_, labels]}",
                 lambda x, labels: functional.nll_loss(x, labels)),
    "cross_entropy": (dict(x=[12, 7]), "{op: cross_entropy, in: [x_, labels]}",
                      functional.cross_entropy),
    "cross_entropy_compiled": (dict(x=[12, 7]), "{op: cross_entropy_compiled, in: [x_, labels]}",
                               functional.cross_entropy),
    "cross_entropy_in_place": (dict(x=[12, 7]), "{op: cross_entropy_in_place, in: [x_, labels]}",
                               functional.cross_entropy),
    "fused_linear_cross_entropy": (
        dict(x=[12, 5]),
        "{op: fused_linear_cross_entropy, in: [x_, labels], width: 7, bias: true}",
        lambda x, labels, w, b: functional.cross_entropy(functional.linear(x, w, b), labels)),
    "fused_linear_cross_entropy with a cap": (
        dict(x=[12, 5]),
        "{op: fused_linear_cross_entropy, in: [x_, labels], width: 7, softcap: 0.5}",
        lambda x, labels, w: functional.cross_entropy(
            0.5 * torch.tanh(functional.linear(x, w) / 0.5), labels)),
    "chunked_linear_cross_entropy": (
        dict(x=[12, 5]), "{op: chunked_linear_cross_entropy, in: [x_, labels], width: 7}",
        lambda x, labels, w: functional.cross_entropy(functional.linear(x, w), labels)),
}


# The loss of a family is one number.
WEIGHTED_SUM = ["product: {op: mul, in: [out, weights]}", "flat: {op: flatten, in: product}",
                "by_sample: {op: sum, in: flat}", "row: {op: transpose, in: by_sample}",
                "loss: {op: sum, in: row}"]


def write_model(folder, inputs, ops):
    families, catalogue = folder / "families", folder / "catalogue"
    families.mkdir(parents=True)
    catalogue.mkdir()
    lines = ["family: one_op", "dims:", "  size: [size, 1]", "inputs:"]
    for name, (dtype, shape, learned) in inputs.items():
        lines.append(f"  {name}: {{dtype: {dtype}, shape: {shape}, learned: {learned}}}")
    (families / "one_op.yaml").write_text("\n".join([*lines, "ops:",
                                                     *(f"  - {op}" for op in ops), ""]))
    (catalogue / "one-op.yaml").write_text("model: one-op\nfamily: one_op\ndims: {size: 1}\n")


def run_one_op(folder, inputs, ops):
    write_model(folder, inputs, ops)
    return saved_tensors(folder / "tensors", "one-op", "--models", folder)


def learned(shape):
    return ("fp32", shape, "true")


def leaf(saved, name):
    return saved[name].clone().requires_grad_()


def parameters_of(saved, op):
    names = [f"{op}.{suffix}" for suffix in ("weight", "sinks", "bias")]
    return [name for name in names if (saved.folder / f"{name}.npy").exists()]


def check_gradients(saved, leaves):
    for name, tensor in leaves.items():
        check_near(name, saved.gradient(name), tensor.grad)


def call_of(name):
    call = OPS[name][3]
    if name != "mul_table of pairs":
        return call
    return lambda x, table: complex_product(x, table).unflatten(-1, (4, -1))


@pytest.mark.parametrize("name", OPS)
def test_an_op_and_its_gradients_are_those_of_torch(name, tmp_path):
    shapes, op, out_shape, _ = OPS[name]
    tables = TABLES.get(name, [])
    inputs = {key: learned(shape) for key, shape in shapes.items()}
    inputs["weights"] = learned(out_shape)
    inputs |= {table: ("fp32", [1, T, 4], "false") for table in tables}
    ops = [f"{key}_: {{op: scale, in: {key}, constant: {WIDE}}}" for key in shapes]
    ops += BEFORE.get(name, []) + [f"out: {op}", *WEIGHTED_SUM]
    saved = run_one_op(tmp_path, inputs, ops)
    leaves = {key: leaf(saved, key) for key in [*shapes, *parameters_of(saved, "out")]}
    arguments = [leaves[key] * WIDE for key in shapes] + [saved[table] for table in tables]
    arguments += [leaves[key] for key in leaves if key not in shapes]
    out = call_of(name)(*arguments)
    (out * saved["weights"]).sum().backward()
    check_near("the output", saved.gradient("weights"), out)
    check_gradients(saved, leaves)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradients_are_those_of_torch(name, tmp_path):
    shapes, op, call = LOSSES[name]
    inputs = {key: learned(shape) for key, shape in shapes.items()}
    inputs["labels"] = ("int64", [12], "false")
    saved = run_one_op(tmp_path, inputs, [f"x_: {{op: scale, in: x, constant: {WIDE}}}",
                                          f"loss: {op}"])
    leaves = {key: leaf(saved, key) for key in [*shapes, *parameters_of(saved, "loss")]}
    loss = call(leaves["x"] * WIDE, saved["labels"],
                *[leaves[key] for key in leaves if key not in shapes])
    loss.backward()
    check_near("the loss", saved["loss"].reshape(()), loss)
    check_gradients(saved, leaves)


def test_dropout_leaves_out_its_share_and_scales_the_rest(tmp_path):
    saved = run_one_op(tmp_path, {"x": learned([64, 64, 64]), "weights": learned([64, 64, 64])},
                       ["out: {op: dropout, in: x, p: 0.3}", *WEIGHTED_SUM])
    x, out = saved["x"], saved["out"]
    kept = out != 0
    deviation = math.sqrt(0.3 * 0.7 / x.numel())
    assert abs(kept.double().mean().item() - 0.7) < 5 * deviation
    check_near("what is kept", out[kept], x[kept] / 0.7)
    check_near("its gradient", saved.gradient("x"), saved["weights"] * kept / 0.7)
