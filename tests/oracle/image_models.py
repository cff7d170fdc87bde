"""Image models of torchvision, and the U-Net of its paper.

torchvision's published wheel is built for torch with CUDA. Beside a torch without it, its own kernels
do not load, and its Python part, which then asks for the schema of two of them, gets that here. It
lies in a folder of its own (`./dev` puts it there): Transformers imports any torchvision it finds.
"""

import pathlib
import sys

import torch
from torch import nn

FOLDER = pathlib.Path(sys.prefix) / "torchvision"


def _import_torchvision():
    boxes = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    schemas = torch.library.Library("torchvision", "FRAGMENT")
    if not torch.cuda.is_available():
        for kernel in ("nms", "qnms"):
            schemas.define(kernel + boxes)
    sys.path.append(str(FOLDER))
    try:
        import torchvision
    finally:
        sys.path.remove(str(FOLDER))
    return torchvision, schemas


torchvision, _schemas = _import_torchvision()  # the schemas live as long as what defines them


def build(name, device="meta", **options):
    """A model by its catalogue name, training."""
    with torch.device(device):
        if name == "unet":
            return UNet(**options).train()
        kind = name.replace("-", "").replace("bn", "_bn")
        return getattr(torchvision.models, kind)(weights=None, **options).train()


def _two_convolutions(channels, width):
    return nn.Sequential(nn.Conv2d(channels, width, 3), nn.ReLU(inplace=True),
                         nn.Conv2d(width, width, 3), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Ronneberger et al. 2015, figure 1."""

    def __init__(self, channels=1, classes=2, width=64, dropout=0.5):
        super().__init__()
        widths = [width * 2**level for level in range(5)]
        self.down = nn.ModuleList(
            [_two_convolutions(*pair) for pair in zip([channels, *widths], widths)])
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(dropout)
        self.rise = nn.ModuleList(
            [nn.ConvTranspose2d(2 * wide, wide, 2, stride=2) for wide in widths[3::-1]])
        self.up = nn.ModuleList([_two_convolutions(2 * wide, wide) for wide in widths[3::-1]])
        self.classes = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for level in self.down[:-1]:
            skips.append(level(x))
            x = self.pool(skips[-1])
        x = self.dropout(self.down[-1](x))
        for rise, level in zip(self.rise, self.up):
            x, skip = rise(x), skips.pop()
            cut = (skip.shape[-1] - x.shape[-1]) // 2
            side = slice(cut, cut + x.shape[-1])
            x = level(torch.cat((skip[:, :, side, side], x), 1))
        return self.classes(x)
