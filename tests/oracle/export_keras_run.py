"""One step of a small Keras model with exported Python, on one backend; prints how often each layer
runs, and the gradients. A process has one backend: `export_keras_run.py BACKEND EXPORTED`."""

import collections
import json
import os
import pathlib
import sys

BACKEND = sys.argv[1]
os.environ["KERAS_BACKEND"] = BACKEND
sys.path.append(str(pathlib.Path(sys.prefix) / "export"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import keras
import numpy as np

LAYERS, WIDTH = 6, 8

runs = collections.Counter()


class Block(keras.layers.Layer):
    """Its calls are counted; on the jax backend, which traces them once, when they are computed."""

    def __init__(self, place):
        super().__init__(name=f"block_{place}")
        self.place = place
        self.up = keras.layers.Dense(WIDTH, kernel_initializer=kernel(place))
        self.down = keras.layers.Dense(WIDTH, kernel_initializer=kernel(place + LAYERS))

    def build(self, shape):
        self.up.build(shape)
        self.down.build(shape)

    def call(self, x):
        if BACKEND == "jax":
            import export_frameworks

            x = export_frameworks.counted(self.place, x)
        else:
            runs[self.place] += 1
        return x + self.down(keras.ops.tanh(self.up(x)))


def kernel(seed):
    return keras.initializers.RandomNormal(stddev=0.2, seed=seed)


def build():
    x = inputs = keras.Input((WIDTH,))
    for place in range(LAYERS):
        x = Block(place)(x)
    return keras.Model(inputs, x)


def gradients(model):
    x = np.random.default_rng(1).normal(size=(4, WIDTH)).astype("float32")
    if BACKEND == "torch":
        (model(x) ** 2).sum().backward()
        return [variable.value.grad.tolist() for variable in model.trainable_variables]
    import jax

    def loss(trainable, others, x):
        return (model.stateless_call(trainable, others, x)[0] ** 2).sum()

    values = [[variable.value for variable in variables] for variables in
              (model.trainable_variables, model.non_trainable_variables)]
    found = jax.jit(jax.grad(loss))(*values, x)
    return [gradient.tolist() for gradient in jax.block_until_ready(found)]


def main():
    global runs
    if BACKEND == "jax":
        import export_frameworks

        runs = export_frameworks.runs
    exported = {}
    exec(compile(pathlib.Path(sys.argv[2]).read_text(), "exported.py", "exec"), exported)
    with exported["plan_scope"]("block_{}"):
        model = build()
    exported["check_plan"](model, "block_{}")
    failures = []
    for name in ("block_{}", "transformer_layer_{}"):  # not made in the scope; no such layers
        try:
            exported["check_plan"](build(), name)
        except ValueError as error:
            failures.append(str(error))
    runs.clear()
    by_plan = gradients(model)
    counted = [runs[place] for place in range(LAYERS)]
    print(json.dumps({"runs": counted, "gradients": by_plan, "plain": gradients(build()),
                      "failures": failures}))


main()
