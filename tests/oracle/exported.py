"""Plans for small models, and what `cairn export` makes of them."""

import json

import torch
from conftest import run_cairn

BATCH, TOKENS = 2, 64
SIZE = ["--batch", BATCH, "--tokens", TOKENS, "--precision", "fp32", "--optimizer", "sgd"]


class Exporter:
    """Exports plans of one model to one target."""

    def __init__(self, folder, model, target):
        self.folder, self.target = folder, target
        self.config = folder / "config.json"
        model.config.to_json_file(self.config)
        self.options = [*SIZE, "--attention", model.config._attn_implementation]
        every = json.loads(self.export("--checkpointing", "every-layer", to="json")["text"])
        self.layers = [(region["first_op"], region["last_op"]) for region in every["regions"]]

    def export(self, *options, to=None):
        run = run_cairn("export", self.config, *self.options, "--to", to or self.target, *options)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    def plan(self, regions, to=None):
        """Of (first layer, last layer, regions inside), as far as given; a region of names of ops is
        that, (first op, last op, [], kept)."""
        path = self.folder / "plan.json"
        plan = {"cairn_plan": 1, "name": "by hand", "extent": "prefix",
                "regions": [self.region(*region) for region in regions]}
        path.write_text(json.dumps(plan))
        return self.export("--plan", path, to=to)

    def region(self, first, last=None, inside=(), keep=()):
        last = first if last is None else last
        region = {"first": first if isinstance(first, str) else self.layers[first][0],
                  "last": last if isinstance(last, str) else self.layers[last][1]}
        if inside:
            region["regions"] = [self.region(*inner) for inner in inside]
        if keep:
            region["keep"] = list(keep)
        return region


def emitted(answer):
    """What the emitted Python defines."""
    names = {}
    exec(compile(answer["text"], "exported.py", "exec"), names)
    return names


def gradients(model, turn_on=lambda model, step: step()):
    """Of a step with the same random numbers each time; `turn_on` runs it, with a plan or without."""
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(0, model.config.vocab_size, (BATCH, TOKENS), generator=generator)

    def step():
        torch.manual_seed(11)
        model(input_ids=ids, labels=ids).loss.backward()

    turn_on(model, step)
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def check_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert (gradient is None) == (found[name] is None), name
        assert gradient is None or torch.equal(found[name], gradient), name
