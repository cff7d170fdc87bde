"""`cairn export --to jax`, flax and mlx: what is emitted runs on the CPU, each layer as often as it
says, what is recomputed is what Cairn says is needed, and the gradients are those without
checkpoints."""

import functools

import pytest
import torch
from exported import Exporter, emitted

import export_frameworks as frameworks
import models
from conftest import cairn

import jax
import jax.numpy as jnp
from flax import linen, nnx

LAYERS = 6

# Regions, and how often each layer runs.
PLANS = {
    "nothing": ([], [1, 1, 1, 1, 1, 1]),
    "a set": ([(0,), (3,), (4,)], [2, 1, 1, 2, 2, 1]),
    "every layer": ([(i,) for i in range(LAYERS)], [2] * LAYERS),
    "runs": ([(0, 1), (3, 5)], [2, 2, 1, 2, 2, 2]),
    "a layer in a run": ([(0, 2, [(1,)])], [2, 3, 2, 1, 1, 1]),
    "nested runs": ([(0, 5, [(0, 3, [(0, 1)]), (4, 5)])], None),
}
PLAN = pytest.mark.parametrize("regions, expected", PLANS.values(), ids=PLANS)
FEW_PLANS = pytest.mark.parametrize("regions, expected", [PLANS["a set"], PLANS["nested runs"]],
                                    ids=["a set", "nested runs"])


@pytest.fixture
def exporter(tmp_path):
    def make(target):
        torch.manual_seed(3)
        model = models.build("llama", dtype=torch.float32, layers=LAYERS)
        return Exporter(tmp_path, model, target)

    return make


def export(exporter, target, regions, expected):
    """What the emitted code defines, and how often each layer is to run."""
    answer = exporter(target).plan(regions)
    assert answer["verdict"] == "exact"
    runs = [layer["forward_runs"] for layer in answer["layers"]]
    if expected is not None:
        assert runs == expected
    names = emitted(answer)
    assert [names["FORWARD_RUNS"][i] for i in range(LAYERS)] == runs
    return names, runs


def counted_runs(step):
    frameworks.runs.clear()
    gradients = jax.block_until_ready(step())
    return [frameworks.runs[i] for i in range(LAYERS)], gradients


def x_of(tokens=8):
    return jax.random.normal(jax.random.key(1), (tokens, frameworks.WIDTH))


def jax_loss(run_layers, layer):
    def loss(parameters, x):
        layers = [functools.partial(layer, i, values) for i, values in enumerate(parameters)]
        return jnp.sum(run_layers(layers, x) ** 2)

    return loss


def one_by_one(layers, x):
    for layer in layers:
        x = layer(x)
    return x


@functools.cache
def plain_jax_gradients():
    parameters = frameworks.small_parameters(LAYERS)
    return jax.jit(jax.grad(jax_loss(one_by_one, frameworks.small_layer)))(parameters, x_of())


@PLAN
def test_jax(exporter, regions, expected):
    names, runs = export(exporter, "jax", regions, expected)
    gradient = jax.jit(jax.grad(jax_loss(names["run_layers"], frameworks.small_layer)))
    found, gradients = counted_runs(lambda: gradient(frameworks.small_parameters(LAYERS), x_of()))
    assert found == runs
    frameworks.check_close(gradients, plain_jax_gradients())


@PLAN
def test_jax_recomputes_what_is_needed(exporter, tmp_path, regions, expected):
    """As many products as Cairn's recompute steps with this extent."""
    names, _ = export(exporter, "jax", regions, expected)
    steps = cairn("simulate", tmp_path / "config.json", "--batch", 2, "--tokens", 64, "--attention",
                  "eager", "--plan", tmp_path / "plan.json", "--extent", "needed")["steps"]
    names_of_products = ("attn.q", "attn.k", "attn.v", "attend.scores", "attend.values", "attn.o",
                         "mlp.gate", "mlp.up", "mlp.down")
    by_cairn = sum(step["kind"] == "recompute" and step["op"].endswith(names_of_products)
                   for step in steps)

    def products(run_layers):
        gradient = jax.grad(jax_loss(run_layers, frameworks.llama_layer))
        return frameworks.products(
            jax.make_jaxpr(gradient)(frameworks.llama_parameters(LAYERS), x_of()).jaxpr)

    assert products(names["run_layers"]) - products(one_by_one) == by_cairn
    assert by_cairn > 0 or not regions


def test_jax_shared_arguments_have_gradients(exporter):
    """A table that all layers read: run_layers(layers, x, table)."""
    names, _ = export(exporter, "jax", [(0, 1, [(1,)]), (3,)], None)

    def loss(run, table):
        return jnp.sum(run([lambda x, t: jnp.sin(x * t)] * LAYERS, jnp.ones(4), table))

    def plain(layers, x, table):
        for layer in layers:
            x = layer(x, table)
        return x

    table = jnp.arange(1.0, 5.0)
    frameworks.check_close(jax.grad(functools.partial(loss, names["run_layers"]))(table),
                           jax.grad(functools.partial(loss, plain))(table))


def test_jax_two_lists_of_layers(exporter):
    names, _ = export(exporter, "jax", [(0, 1), (4,)], None)
    layers = [functools.partial(frameworks.small_layer, i, values)
              for i, values in enumerate(frameworks.small_parameters(LAYERS))]
    whole = names["run_layers"](layers, x_of())
    halves = names["run_layers"](layers[2:], names["run_layers"](layers[:2], x_of()), first=2)
    assert jnp.array_equal(whole, halves)
    with pytest.raises(ValueError, match="hold a part of a region"):
        names["run_layers"](layers[1:], x_of(), first=1)
    with pytest.raises(ValueError, match="layers 0 to 5"):
        names["run_layers"](layers, x_of(), first=1)


class NnxLayer(nnx.Module):
    def __init__(self, place, rngs):
        self.place = place
        self.up = nnx.Linear(frameworks.WIDTH, frameworks.INNER, param_dtype=float, rngs=rngs)
        self.down = nnx.Linear(frameworks.INNER, frameworks.WIDTH, param_dtype=float, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x):
        h = self.up(frameworks.norm(frameworks.counted(self.place, x)))
        return x + self.down(self.dropout(jnp.tanh(h)))


class NnxModel(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([NnxLayer(i, rngs) for i in range(LAYERS)])


@FEW_PLANS
def test_flax_nnx(exporter, regions, expected):
    """With dropout: a recompute draws the masks of forward."""
    names, runs = export(exporter, "flax", regions, expected)

    def gradients(run_layers):
        return nnx.jit(nnx.grad(lambda model, x: jnp.sum(run_layers(model.layers, x) ** 2)))(
            NnxModel(), x_of())

    found, by_plan = counted_runs(lambda: gradients(names["run_layers"]))
    assert found == runs
    frameworks.check_close(by_plan, gradients(one_by_one))


class LinenLayer(linen.Module):
    place: int

    @linen.compact
    def __call__(self, x):
        h = frameworks.norm(frameworks.counted(self.place, x))
        h = linen.Dense(frameworks.INNER, param_dtype=float)(h)
        h = linen.Dropout(0.2, deterministic=False)(jnp.tanh(h))
        return x + linen.Dense(frameworks.WIDTH, param_dtype=float)(h)


class LinenModel(linen.Module):
    run: object

    def setup(self):
        self.layers = [LinenLayer(i) for i in range(LAYERS)]

    def __call__(self, x):
        return self.run(self, lambda module: module.layers, x)


@FEW_PLANS
def test_flax_linen(exporter, regions, expected):
    names, runs = export(exporter, "flax", regions, expected)
    key = jax.random.key(2)

    def plain(module, layers_of, x):
        return one_by_one(layers_of(module), x)

    weights = LinenModel(plain).init({"params": key, "dropout": key}, x_of())

    def gradients(run):
        def loss(weights):
            return jnp.sum(LinenModel(run).apply(weights, x_of(), rngs={"dropout": key}) ** 2)

        return jax.jit(jax.grad(loss))(weights)

    found, by_plan = counted_runs(lambda: gradients(names["run_linen_layers"]))
    assert found == runs
    frameworks.check_close(by_plan, gradients(plain))
