"""torchtune, LitGPT and torchtitan: the modules of their models, without what only their data loaders,
command lines and quantisation need.

`./dev` installs them without dependencies into a folder of their own (libraries_requirements.txt).
What they import of packages that are not there is a stand-in: of its names any can be a base, a type
hint or a decorator that changes nothing.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import pathlib
import sys
import types

FOLDER = pathlib.Path(sys.prefix) / "libraries"
ABSENT = ("blobfile", "datasets", "kagglehub", "lightning", "lightning_utilities", "omegaconf", "psutil",
          "sentencepiece", "tiktoken", "tokenizers", "torchao", "torchdata",
          "torchtitan.components.dataloader", "torchtitan.components.metrics",
          "torchtitan.components.validate", "torchtitan.models.moe", "torchvision", "tyro", "wandb")


def _is_absent(name):
    return any(name == absent or name.startswith(absent + ".") for absent in ABSENT)


class _Kind(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _made(name)

    def __call__(cls, *arguments, **named):
        if "_stands_in" not in vars(cls):  # a library's own class
            return super().__call__(*arguments, **named)
        return lambda decorated: decorated

    def __getitem__(cls, _):
        return cls


def _made(name):
    return _Kind(name, (), {"_stands_in": True, "__init_subclass__": classmethod(lambda *_, **__: None)})


class _Absent(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, _made(name))
        return getattr(self, name)


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if not _is_absent(name):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _Absent(spec.name)

    def exec_module(self, module):
        pass


@contextlib.contextmanager
def _stand_ins():
    """Only while the libraries are imported: other tests want these packages, or their absence."""
    before = {name: module for name, module in sys.modules.items() if _is_absent(name)}
    for name in before:
        del sys.modules[name]
    stand_in = _StandIn()
    sys.meta_path.insert(0, stand_in)
    sys.path.insert(0, str(FOLDER))
    try:
        yield
    finally:
        sys.path.remove(str(FOLDER))
        sys.meta_path.remove(stand_in)
        for name in [name for name in sys.modules if _is_absent(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def load(*names):
    with _stand_ins():
        return [importlib.import_module(name) for name in names]
