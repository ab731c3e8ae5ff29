"""Proof that a variant can be judged: eager rerun from what was stored, and on fresh inputs."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from . import blobs, recipes
from .capture_arguments import IneligibleError
from .capture_drafts import VariantDraft
from .capture_purity import all_finite, fingerprints
from .capture_trace import trace
from .reference import Reference
from .tensors import DTYPES, from_bytes, to_bytes
from .values import flatten

_SEED = 20240229


class Budget:
    """Bytes of samples that may still be stored; equal contents count once."""

    def __init__(self, blob_root: str, max_bytes: int) -> None:
        self.blob_root = blob_root
        self.left = max_bytes
        self.refused_bytes = 0
        self._known: set[str] = set()

    def store(self, data: bytes, *, always: bool = False) -> str:
        """The digest of the stored bytes, or an empty string where they do not fit any more."""
        digest = hashlib.sha256(data).hexdigest()
        if digest in self._known:
            return digest
        if len(data) > self.left and not always:
            self.refused_bytes += len(data)
            return ""
        self._known.add(digest)
        self.left -= len(data)
        return blobs.write(self.blob_root, data)


class Prover:
    """Samples, recipes, replay, operation counts. A recipe is made once for equal contents."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._recipes: dict[str, dict[str, Any]] = {}

    def sample(self, spec: dict[str, Any], data: bytes, tensor: torch.Tensor) -> None:
        """Give a tensor's specification its sample, if the budget allows, and its recipe.

        A constant recipe is worthless without its sample, so that is stored whatever the budget.
        """
        layout = f"{spec['dtype']} {spec['shape']} {spec['stride']}"
        key = hashlib.sha256(data).hexdigest() + layout
        if key not in self._recipes:
            self._recipes[key] = recipes.describe(tensor)
        spec["recipe"] = dict(self._recipes[key])
        spec["sample"] = self.budget.store(data, always=spec["recipe"]["kind"] == "constant")

    def complete(self, variant: VariantDraft, reference: Reference) -> None:
        """Sample the parameters, replay, count and try fresh inputs. Raises `IneligibleError` with what failed."""
        assert variant.bound is not None
        inputs = variant.bound.inputs
        for spec, tensor in zip(variant.specs[inputs:], variant.bound.tensors, strict=True):
            self.sample(spec, to_bytes(tensor), tensor)
        generator = torch.Generator().manual_seed(_SEED)
        is_real = all(spec["sample"] for spec in variant.specs[:inputs])
        given = [
            self._stored(spec) if spec["sample"] else self._draw(spec, generator) for spec in variant.specs[:inputs]
        ]
        for spec, own in zip(variant.specs[inputs:], variant.bound.tensors, strict=True):
            given.append(self._stored(spec) if spec["sample"] else own)
        if is_real:
            self._replay(variant, reference, given)
        self._count(variant, reference, given)
        self._try_fresh(variant, reference)

    def _stored(self, spec: dict[str, Any]) -> torch.Tensor:
        return from_bytes(spec, blobs.read(self.budget.blob_root, spec["sample"]))

    def _draw(self, spec: dict[str, Any], generator: torch.Generator) -> torch.Tensor:
        return recipes.draw(spec, generator, blob_root=self.budget.blob_root)

    def _replay(self, variant: VariantDraft, reference: Reference, tensors: list[torch.Tensor]) -> None:
        assert variant.output is not None
        try:
            outputs = flatten(reference.call(tensors, variant.call()))
        except Exception as error:
            raise IneligibleError(f"does not replay ({type(error).__name__}: {error})") from error
        if fingerprints(outputs) != variant.output.digests:
            raise IneligibleError("does not replay: rerun on its own inputs it gives another result")

    def _count(self, variant: VariantDraft, reference: Reference, tensors: list[torch.Tensor]) -> None:
        assert variant.output is not None
        try:
            seen = trace(reference.bind(tensors, variant.call()), tensors)
        except Exception as error:
            raise IneligibleError(f"does not run under a dispatch mode ({type(error).__name__}: {error})") from error
        if seen.value_dependent:
            raise IneligibleError(f"depends on values in its shapes or control flow ({seen.value_dependent})")
        variant.flops = seen.flops
        variant.unique_bytes = seen.input_bytes + sum(_bytes(spec) for spec in variant.output.specs)

    def _try_fresh(self, variant: VariantDraft, reference: Reference) -> None:
        """Run eager on drawn inputs; where it cannot take them, integers and masks keep their captured values."""
        failure = self._fails_fresh(variant, reference)
        if failure and self._keep_integers(variant):
            failure = self._fails_fresh(variant, reference)
        if failure:
            raise IneligibleError(f"does not run on fresh inputs like its own ({failure})")

    def _keep_integers(self, variant: VariantDraft) -> bool:
        """Make constants of integers and masks; False if none can become one, for want of a sample or at all."""
        changed = [spec for spec in variant.specs if spec["recipe"]["kind"] in ("integers", "bool") and spec["sample"]]
        for spec in changed:
            spec["recipe"]["kind"] = "constant"
        return bool(changed)

    def _fails_fresh(self, variant: VariantDraft, reference: Reference) -> str:
        assert variant.output is not None
        generator = torch.Generator().manual_seed(_SEED)
        drawn = [self._draw(spec, generator) for spec in variant.specs]
        try:
            outputs = flatten(reference.call(drawn, variant.call()))
        except Exception as error:  # noqa: BLE001 - the user's operator may raise anything
            return f"{type(error).__name__}: {error}"
        if [list(tensor.shape) for tensor in outputs] != [spec["shape"] for spec in variant.output.specs]:
            return "the shape of the result changes with the values"
        if any(was and not all_finite(now) for was, now in zip(variant.output.finite, outputs, strict=True)):
            return "the result is not finite"
        return ""


def _bytes(spec: dict[str, Any]) -> int:
    count = DTYPES[spec["dtype"]].itemsize
    for size, step in zip(spec["shape"], spec["stride"], strict=True):
        count *= size if step != 0 or size == 0 else 1
    return count
