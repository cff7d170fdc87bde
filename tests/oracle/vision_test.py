"""Image models: torchvision, and a U-Net of its paper, against the catalogue's, to the byte.

Saved sets are those of a whole net; on the meta device no cuDNN chooses workspaces, which are not
counted.
"""

import pytest
import torch
from conftest import cairn
from saved_tensors import cairn_storages, kept_at_the_end_of_forward, saved_storages, total
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import ResNetConfig, ResNetForImageClassification

import image_models
import models

NETS = ["resnet-18", "resnet-34", "resnet-50", "resnet-101", "resnet-152", "vgg-11", "vgg-16",
        "vgg-16-bn", "vgg-19", "densenet-121", "densenet-161", "densenet-169", "densenet-201",
        "unet"]
SMALL = ["resnet-18", "resnet-50", "vgg-16", "vgg-16-bn", "densenet-121", "unet"]
BATCH = 2


def images_and_labels(model, dims, dtype=torch.float32, device="meta"):
    shape = (BATCH, dims["channels"], dims["image"], dims["image"])
    images = torch.zeros(shape, device=device, dtype=dtype)
    with torch.no_grad():
        logits = model(images)
    pixels = (BATCH, *logits.shape[2:])
    return images, torch.zeros(pixels, device=device, dtype=torch.long)


def step(model, images, labels):
    return functional.cross_entropy(model(images), labels)


@pytest.mark.parametrize("name", NETS)
def test_a_net_has_the_parameters_that_torch_counts(name):
    model = image_models.build(name)
    shown = cairn("simulate", name)
    assert shown["parameters"] == sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("name", SMALL + ["resnet-152", "densenet-201"])
def test_a_step_has_the_flops_that_torch_counts(name):
    model = image_models.build(name)
    answer = cairn("fit", name, "--batch", BATCH)
    images, labels = images_and_labels(model, answer["dims"])
    with models.gpu_kernels(), FlopCounterMode(display=False) as counter:
        step(model, images, labels).backward()
    assert answer["step_flops"] == counter.get_total_flops()


OTHER_IMAGES = {"unet": 252}


@pytest.mark.parametrize("dtype, precision", [(torch.float32, "fp32"), (torch.bfloat16, "bf16")])
@pytest.mark.parametrize("is_other_image", [False, True], ids=["its images", "others"])
@pytest.mark.parametrize("name", SMALL)
def test_a_net_keeps_what_cairn_says(name, is_other_image, dtype, precision):
    options = ["--set", f"image={OTHER_IMAGES.get(name, 288)}"] if is_other_image else []
    model = image_models.build(name).to(dtype)
    answer = cairn("simulate", name, "--batch", BATCH, "--precision", precision,
                   "--checkpointing", "none", *options)
    images, labels = images_and_labels(model, answer["dims"], dtype)
    resident = [*model.parameters(), *model.buffers(), images, labels]
    with models.gpu_kernels():
        kept = saved_storages(lambda: step(model, images, labels), resident)
    divisor = dtype.itemsize  # of nll_loss's mean: Cairn leaves it out
    assert kept_at_the_end_of_forward(answer) == total(kept) - divisor


BLOCKS = {"resnet-18": (0, "layer1.0"), "resnet-50": (3, "layer2.0"),
          "densenet-121": (2, "features.denseblock1.denselayer3")}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_keeps_the_storages_that_cairn_says(name):
    block, path = BLOCKS[name]
    model = image_models.build(name)
    shown = cairn("show", name, "--batch", BATCH, "--block", block)
    images, _ = images_and_labels(model, shown["dims"])
    module, seen = model.get_submodule(path), []
    hook = module.register_forward_pre_hook(lambda _, inputs: seen.extend(
        inputs[0] if isinstance(inputs[0], list) else inputs))  # densenet's features so far
    with torch.no_grad():
        model(images)
    hook.remove()
    seen = [tensor.detach().requires_grad_() for tensor in seen]
    given = seen if name.startswith("densenet") else seen[0]
    kept = saved_storages(lambda: module(given), [*model.parameters(), *model.buffers()])
    assert kept == cairn_storages(shown)


@pytest.mark.parametrize("dims", [dict(), dict(layer_type="basic", depths=[1, 2, 1, 1],
                                               hidden_sizes=[64, 96, 128, 256], num_labels=7)],
                         ids=["bottlenecks", "basic"])
def test_a_resnet_of_transformers_keeps_what_cairn_says(tmp_path, dims):
    config = ResNetConfig(**dims, architectures=["ResNetForImageClassification"])
    with torch.device("meta"):
        model = ResNetForImageClassification(config).train()
    config.to_json_file(tmp_path / "config.json")
    answer = cairn("simulate", tmp_path / "config.json", "--batch", BATCH, "--precision", "fp32",
                   "--checkpointing", "none")
    assert answer["parameters"] == sum(weight.numel() for weight in model.parameters())
    images = torch.zeros(BATCH, 3, 224, 224, device="meta")
    labels = torch.zeros(BATCH, device="meta", dtype=torch.long)
    kept = saved_storages(lambda: model(pixel_values=images, labels=labels).loss,
                          [*model.parameters(), *model.buffers(), images, labels])
    assert kept_at_the_end_of_forward(answer) == total(kept) - 4  # the divisor
