"""Models of torchvision and transformers by name, with random weights and random inputs."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from .failures import Refusal

LIBRARIES = ("torchvision", "transformers")
_LENGTH = 128
_DECODER_LENGTH = 8
_MEMORY_PART = 0.5
_DEVICE_MEMORY_PART = 0.8

Call = tuple[tuple[Any, ...], dict[str, Any]]


def load_model(
    library: str, name: str, words: Iterable[str], device: str = "cpu"
) -> tuple[torch.nn.Module, list[Call]]:
    """The model `name` and one call of it, built on `device`; `words` are `key=value` options.

    `batch` and `length` are the input's, `device` replaces the argument; the others go to torchvision's builder, or
    into the transformers config (`text_config.hidden_size=64` into a part of it). Raises `Refusal` where there is no
    such model or option.
    """
    options = _options(words)
    batch, length = options.pop("batch", 1), options.pop("length", 0)
    place = _placed(options.pop("device", device))
    torch.manual_seed(0)
    module = _imported(library)
    # Weights and inputs are made where they belong: the host may have no room for them.
    with nullcontext() if place.type == "cpu" else place:
        if library == "torchvision":
            model, calls = _vision(module, name, options, batch)
        else:
            model, calls = _transformer(module, name, options, batch, length)
    return model.to(place), calls


def _placed(device: Any) -> torch.device:
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise Refusal("contract", f"{device!r} is no device; give device=cpu or device=cuda") from error
    if place.type == "cuda" and not torch.cuda.is_available():
        raise Refusal("contract", f"target_unavailable: device={device} was asked for, but there is no usable GPU")
    return place


def _imported(library: str) -> ModuleType:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise Refusal(
            "contract",
            f"{library} cannot be imported in {sys.executable} ({error}): install it there, or pass python= of an "
            "environment that has it",
        ) from error


def _options(words: Iterable[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise Refusal("contract", f"{word!r} is no option; give key=value, such as batch=4")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        place = options
        *outer, last = key.split(".")
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return options


def _vision(library: ModuleType, name: str, options: dict[str, Any], batch: int) -> tuple[torch.nn.Module, list[Call]]:
    models = library.models
    try:
        builder = models.get_model_builder(name)
    except ValueError as error:
        raise Refusal("contract", _unknown("torchvision model", name, models.list_models())) from error
    if "weights_backbone" in inspect.signature(builder).parameters:
        options.setdefault("weights_backbone", None)
    try:
        model = builder(weights=None, **options).eval()
    except TypeError as error:
        raise Refusal("contract", f"torchvision's {name} cannot be built: {error}") from error
    kind = builder.__module__
    size = getattr(model, "image_size", 299 if name.startswith("inception") else 224)
    if ".detection" in kind:
        return model, [(([torch.rand(3, 320, 320) for _ in range(batch)],), {})]
    if ".video" in kind:
        return model, [((torch.rand(batch, 3, 16, 112, 112),), {})]
    if ".optical_flow" in kind:
        return model, [((torch.rand(batch, 3, 128, 128), torch.rand(batch, 3, 128, 128)), {})]
    return model, [((torch.rand(batch, 3, size, size),), {})]


def _transformer(
    library: ModuleType, name: str, options: dict[str, Any], batch: int, length: int
) -> tuple[torch.nn.Module, list[Call]]:
    model = _checkpoint(library, name, options) if "/" in name else _from_config(library, name, options)
    model.eval()
    return model, [((), _inputs(model, batch, length))]


def _checkpoint(library: ModuleType, name: str, options: dict[str, Any]) -> torch.nn.Module:
    """A model from a folder, or from what was downloaded before; with random weights if there is only its config."""
    folder = str(Path(name).expanduser())
    try:
        config = library.AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise Refusal("contract", f"there is no transformers model at hand as {name!r}: {error}") from error
    names = config.architectures or []
    if not names:
        raise Refusal("contract", f"the config of {name!r} names no architecture")
    cls = getattr(library, names[0])
    if options:
        return _built(cls, config.__class__.from_dict({**config.to_dict(), **options}))
    try:
        return cls.from_pretrained(folder, local_files_only=True)
    except OSError:
        return _built(cls, config)


def _from_config(library: ModuleType, name: str, options: dict[str, Any]) -> torch.nn.Module:
    cls = getattr(library, name, None)
    if not isinstance(cls, type) or not issubclass(cls, torch.nn.Module) or not getattr(cls, "config_class", None):
        known = [key for key in dir(library) if key.endswith(("Model", "LM", "Generation", "Classification"))]
        raise Refusal("contract", _unknown("transformers model class", name, known))
    try:
        config = cls.config_class(**options)
    except Exception as error:
        raise Refusal("contract", f"{cls.config_class.__name__} refuses {options}: {error}") from error
    return _built(cls, config)


def _built(cls: Any, config: Any) -> torch.nn.Module:
    try:
        with torch.device("meta"):
            sketch = cls(config)
    except Exception as error:
        raise Refusal("contract", f"{cls.__name__} cannot be built from its config: {error}") from error
    needed = sum(parameter.nbytes for parameter in sketch.parameters())
    place = torch.get_default_device()
    if place.type == "cuda":
        available, part = torch.cuda.mem_get_info(place)[0], _DEVICE_MEMORY_PART
    else:
        available, part = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"), _MEMORY_PART
    if needed > part * available:
        raise Refusal(
            "contract",
            f"{cls.__name__} with this config has {needed / 1e9:.1f} GB of weights, and {available / 1e9:.1f} GB of "
            f"memory are free on the {place.type}. Give smaller sizes after the name, such as num_hidden_layers=2 "
            "hidden_size=256.",
        )
    return cls(config)


def _inputs(model: Any, batch: int, length: int) -> dict[str, Any]:
    config, name = model.config, model.main_input_name
    parts = [config, *(part for key in ("text_config", "vision_config") if (part := getattr(config, key, None)))]

    def setting(key: str, default: Any) -> Any:
        found = (getattr(part, key, None) for part in parts)
        return next((value for value in found if value is not None), default)

    def tokens(count: int) -> torch.Tensor:
        longest = setting("max_position_embeddings", count)
        return torch.randint(0, setting("vocab_size", 2), (batch, min(count, longest)))

    made: dict[str, Any] = {}
    parameters = inspect.signature(model.forward).parameters
    if name == "input_ids" or ("input_ids" in parameters and hasattr(config, "text_config") and name == "pixel_values"):
        made["input_ids"] = tokens(length or _LENGTH)
    if name == "pixel_values":
        size = setting("image_size", 224)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        made["pixel_values"] = torch.randn(batch, setting("num_channels", 3), height, width)
    elif name == "input_features":
        frames = length or 2 * setting("max_source_positions", 1500)
        made["input_features"] = torch.randn(batch, setting("num_mel_bins", 80), frames)
    elif name == "input_values":
        made["input_values"] = torch.randn(batch, length or 16_000)
    elif name != "input_ids":
        what = f"{type(model).__name__} takes {name}, for which no input is made here"
        raise Refusal("contract", f"{what}: write a function that returns (model, args), entry file.py:function")
    if getattr(config, "is_encoder_decoder", False):
        made["decoder_input_ids"] = tokens(_DECODER_LENGTH)
    return made


def _unknown(what: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    return f"there is no {what} {name!r}" + (f"; near it: {', '.join(near)}" if near else "")
