"""Image models, whole: loss and every gradient of Cairn's executor against torchvision and the U-Net
of its paper on the CPU, in training mode, with the weights and images that Cairn drew. torch computes
in float64: behind 18 batch norms its own float32 is half as far from that as is allowed here."""

from unittest import mock

import pytest
from executor_tensors import MOST_RELATIVE_ERROR, check_model, saved_tensors
from torch import nn
from torch.nn import functional

import image_models

BATCH, CLASSES, HIDDEN = 4, 5, 32


def resnet():
    return image_models.build("resnet-18", device="cpu", num_classes=CLASSES)


def vgg(name):
    """With narrower layers before its head than torchvision's, which are 4,096 wide."""
    model = image_models.build(name, device="cpu", num_classes=CLASSES, dropout=0.0)
    widths = [7 * 7 * 512, HIDDEN, HIDDEN, CLASSES]
    for place, pair in zip((0, 3, 6), zip(widths, widths[1:])):
        model.classifier[place] = nn.Linear(*pair)
    return model


def vgg_names(convs):
    """Of the places in torchvision's list of convolutions, ReLUs and pools."""
    names, place = [], 0
    for stage, count in enumerate(convs, 1):
        for block in range(count):
            names.append((rf"stage{stage}\.{block}\.x\.conv\.", f"features.{place}."))
            place += 2
        place += 1
    return names + [(r"fc1\.", "classifier.0."), (r"fc2\.", "classifier.3."),
                    (r"logits\.", "classifier.6.")]


RESNET_NAMES = [
    (r"stem\.conv\.", "conv1."), (r"stem\.norm\.", "bn1."),
    (r"layer(\d)\.(\d)\.x\.conv(\d)\.conv\.", r"layer\1.\2.conv\3."),
    (r"layer(\d)\.(\d)\.x\.conv(\d)\.norm\.", r"layer\1.\2.bn\3."),
    (r"layer(\d)\.(\d)\.x\.skip\.conv\.", r"layer\1.\2.downsample.0."),
    (r"layer(\d)\.(\d)\.x\.skip\.norm\.", r"layer\1.\2.downsample.1."), (r"logits\.", "fc.")]

# The U-Net's convolutions stand first and third in their lists.
UNET_NAMES = [
    *[(rf"down{level + 1}\.0\.skip{level + 1}\.conv{conv + 1}\.conv\.", f"down.{level}.{2 * conv}.")
      for level in range(4) for conv in range(2)],
    *[(rf"bottom\.0\.deepest\.conv{conv + 1}\.conv\.", f"down.4.{2 * conv}.") for conv in range(2)],
    *[(rf"up{4 - level}\.0\.rises\.", f"rise.{level}.") for level in range(4)],
    *[(rf"up{4 - level}\.0\.x\.conv{conv + 1}\.conv\.", f"up.{level}.{2 * conv}.")
      for level in range(4) for conv in range(2)],
    (r"logits\.", "classes.")]

# Their ReLUs, in the order in which they run.
CONVS = [1, 1, 2, 2, 2]
RESNET_RELUS = ["stem.relu", *[f"layer{layer}.{block}.x.{relu}" for layer in range(1, 5)
                               for block in range(2) for relu in ("conv1.relu", "out")]]
VGG_RELUS = [f"stage{stage}.{block}.x.relu" for stage, count in enumerate(CONVS, 1)
             for block in range(count)] + ["relu1", "relu2"]
LEVELS = [*[f"down{level}.0.skip{level}" for level in range(1, 5)], "bottom.0.deepest",
          *[f"up{level}.0.x" for level in range(4, 0, -1)]]
UNET_RELUS = [f"{level}.conv{conv}.relu" for level in LEVELS for conv in (1, 2)]

NETS = {
    "resnet-18": (resnet, RESNET_NAMES, RESNET_RELUS, dict(image=64, classes=CLASSES)),
    "vgg-11": (lambda: vgg("vgg-11"), vgg_names(CONVS), VGG_RELUS,
               dict(image=32, classes=CLASSES, hidden=HIDDEN, dropout=0)),
    "unet": (lambda: image_models.build("unet", device="cpu", width=4, dropout=0.0), UNET_NAMES,
             UNET_RELUS, dict(image=188, width=4, dropout=0)),
}


def loss_of(model, saved, relus):
    """A ReLU's gradient jumps at zero: where what comes in is zero but for rounding, it is on the
    side where it was in Cairn."""
    left = iter(relus)

    def relu(_, x):
        passes = saved[next(left)].reshape(x.shape) > 0
        other_side = passes != (x > 0)
        assert (x[other_side].abs() <= MOST_RELATIVE_ERROR * x.abs().max()).all()
        return x * passes

    with mock.patch.object(nn.ReLU, "forward", relu):
        logits = model(saved["images"].double())
    assert next(left, None) is None
    return functional.cross_entropy(logits, saved["labels"])


@pytest.mark.parametrize("name", NETS)
def test_loss_and_gradients_are_those_of_torch(name, tmp_path):
    make, names, relus, dims = NETS[name]
    options = [option for key, value in dims.items() for option in ("--set", f"{key}={value}")]
    saved = saved_tensors(tmp_path / "tensors", name, "--batch", BATCH, *options)
    check_model(saved, make().double(), names, lambda model: loss_of(model, saved, relus))
