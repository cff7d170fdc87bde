"""Small models in JAX, Flax and MLX, whose layers count how often they run.

The frameworks lie in a folder of their own (export_requirements.txt), behind all others: they bring
packages that libraries of other oracles would use where they find them.
"""

import collections
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(sys.prefix) / "export"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)  # so that gradients tell rounding from what is wrong

WIDTH, HEADS, INNER = 16, 2, 24

runs = collections.Counter()  # of the forward of layers, by place


def counted(place, x):
    """x; each time that it is computed counts. No part of it can be reused: where the gradient does
    not need it, it is not computed."""

    @jax.custom_jvp
    def count(x):
        def call(x):
            runs[place] += 1
            return np.asarray(x)

        return jax.pure_callback(call, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    count.defjvp(lambda primals, tangents: (count(*primals), *tangents))
    return count(x)


def norm(x):
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def attend(q, k, v):
    """Of (tokens, width) with the products of Cairn's eager attention."""
    q, k, v = (jnp.swapaxes(t.reshape(t.shape[0], HEADS, -1), 0, 1) for t in (q, k, v))
    scores = jnp.einsum("htd,hsd->hts", q, k)
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -1e9)
    context = jnp.einsum("hts,hsd->htd", jax.nn.softmax(scores), v)
    return jnp.swapaxes(context, 0, 1).reshape(-1, WIDTH)


def llama_layer(place, parameters, x):
    """The products of a layer of Llama: q, k, v, scores, context, o, gate, up, down."""
    q, k, v, o, gate, up, down = parameters
    h = norm(x)
    x = x + attend(h @ q, h @ k, h @ v) @ o
    h = norm(x)
    return x + (jax.nn.silu(h @ gate) * (h @ up)) @ down


def small_layer(place, parameters, x):
    up, down = parameters
    return x + jnp.tanh(norm(counted(place, x)) @ up) @ down


def made(shapes, layers):
    numbers = np.random.default_rng(5)
    return [[jnp.asarray(numbers.normal(0, 0.2, shape)) for shape in shapes] for _ in range(layers)]


def llama_parameters(layers):
    return made([(WIDTH, WIDTH)] * 4 + [(WIDTH, INNER)] * 2 + [(INNER, WIDTH)], layers)


def small_parameters(layers):
    return made([(WIDTH, INNER), (INNER, WIDTH)], layers)


def check_close(found, expected):
    """Gradients of a step with checkpoints and of one without: compiled apart, so that the last
    bits may differ."""
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected):
        assert np.abs(b).max() > 0
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * np.abs(b).max())


def products(jaxpr):
    """How many products a jaxpr holds, with those of the jaxprs inside it."""
    count = 0
    for equation in jaxpr.eqns:
        count += equation.primitive.name == "dot_general"
        for value in jax.tree.leaves(list(equation.params.values()),
                                     is_leaf=lambda v: hasattr(v, "eqns") or hasattr(v, "jaxpr")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                count += products(inner)
    return count
