"""Proof that a variant can be judged: eager rerun from what was stored, and on fresh inputs."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from . import blobs, recipes
from .capture_arguments import IneligibleError
from .capture_drafts import VariantDraft
from .capture_hidden import describe_hidden
from .capture_purity import LAYER_NUMBERS, all_finite, fingerprints
from .capture_store import Budget, Snapshot
from .capture_trace import trace
from .reference import Reference
from .tensors import DTYPES, from_bytes
from .values import flatten

_SEED = 20240229


class DeviceLost(Exception):
    """A GPU that no longer answers this process: a kernel read outside of its tensors, and only a new process helps."""


class Prover:
    """Samples, recipes, replay, operation counts. A recipe is made once for equal contents.

    `unproven` counts variants whose fresh inputs did not fit on the device beside the model, `unsteady` those that
    eager itself does not compute alike twice.
    """

    def __init__(self, budget: Budget, device: torch.device) -> None:
        self.budget = budget
        self.unproven = 0
        self.unsteady = 0
        self._device = device
        self._recipes: dict[str, dict[str, Any]] = {}

    def sample(self, spec: dict[str, Any], snapshot: Snapshot, tensor: torch.Tensor) -> None:
        """Give a tensor's specification its sample, if the budget allows, and its recipe, from a snapshot.

        `tensor` has the layout; its values may be others by now.
        """
        key = f"{snapshot.digest} {spec['dtype']} {spec['shape']} {spec['stride']}"
        spec["sample"] = self.budget.stored(snapshot.digest)
        if key not in self._recipes:
            was = tensor
            if snapshot.contents is not None:
                was = from_bytes(spec, snapshot.contents.data)
            elif spec["sample"]:
                was = self._stored(spec)
            self._recipes[key] = snapshot.recipe or recipes.describe(was)
        spec["recipe"] = dict(self._recipes[key])
        if snapshot.contents is not None:
            is_constant = spec["recipe"]["kind"] == "constant"
            spec["sample"] = self.budget.store(snapshot.digest, snapshot.contents, always=is_constant)
        elif not spec["sample"]:
            self.budget.refuse(snapshot.digest, snapshot.size)

    def complete(self, variant: VariantDraft, reference: Reference, *, keep_integers: bool = False) -> None:
        """Sample the parameters, replay, count and try fresh inputs, integers and masks too unless `keep_integers`.

        Raises `IneligibleError` with what failed, and `DeviceLost`.
        """
        try:
            self._prove(variant, reference, keep_integers)
        except (IneligibleError, RuntimeError):
            self._require_device()
            raise
        self._require_device()

    def _prove(self, variant: VariantDraft, reference: Reference, keep_integers: bool) -> None:
        assert variant.bound is not None
        inputs = variant.bound.inputs
        for spec, tensor in zip(variant.specs[inputs:], variant.bound.tensors, strict=True):
            self.sample(spec, Snapshot.take(tensor, self.budget), tensor)
        if keep_integers:
            self._keep_integers(variant)
        generator = self._generator()
        is_real = all(spec["sample"] for spec in variant.specs[:inputs])
        given = [
            self._stored(spec) if spec["sample"] else self._draw(spec, generator) for spec in variant.specs[:inputs]
        ]
        for spec, own in zip(variant.specs[inputs:], variant.bound.tensors, strict=True):
            given.append(self._stored(spec) if spec["sample"] else own)
        if is_real:
            self._replay(variant, reference, given)
        elif variant.bound.autocast:
            raise IneligibleError("runs under autocast, and is too large to see whether that matters")
        self._count(variant, reference, given)
        del given
        try:
            self._try_fresh(variant, reference)
            self._compare_alternates(variant, reference)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            self.unproven += 1

    def _generator(self) -> torch.Generator:
        return torch.Generator(self._device).manual_seed(_SEED)

    def _stored(self, spec: dict[str, Any]) -> torch.Tensor:
        return from_bytes(spec, blobs.read(self.budget.blob_root, spec["sample"]))

    def _draw(self, spec: dict[str, Any], generator: torch.Generator) -> torch.Tensor:
        return recipes.draw(spec, generator, blob_root=self.budget.blob_root)

    def _replay(self, variant: VariantDraft, reference: Reference, tensors: list[torch.Tensor]) -> None:
        assert variant.output is not None
        try:
            outputs = flatten(reference.call(tensors, variant.call()))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raise IneligibleError(f"does not replay ({type(error).__name__}: {error})") from error
        if fingerprints(outputs) == variant.output.digests:
            return
        if variant.bound is not None and variant.bound.autocast:
            raise IneligibleError("runs under autocast, which changes its result")
        if variant.output.overwritten or not _is_unsteady(outputs, flatten(reference.call(tensors, variant.call()))):
            raise IneligibleError("does not replay: rerun on its own inputs it gives another result")
        self.unsteady += 1

    def _require_device(self) -> None:
        """Raise `DeviceLost` if the device failed, rather than the call."""
        if self._device.type == "cuda":
            try:
                torch.cuda.synchronize(self._device)
            except RuntimeError as error:
                raise DeviceLost(str(error).partition("\n")[0]) from error

    def _compare_alternates(self, variant: VariantDraft, reference: Reference) -> None:
        """Run the other instances that the variant stands for: their layer numbers must change nothing."""
        call = variant.call()
        expected: list[str] = []
        for state in [b"", *filter(None, variant.alternates.values())] if len(variant.alternates) > 1 else []:
            if state:
                call = {**call, "module": hashlib.sha256(state).hexdigest()}
                reference.adopt(call["module"], state)
            generator = self._generator()
            given = [self._stored(spec) if spec["sample"] else self._draw(spec, generator) for spec in variant.specs]
            seen = fingerprints(flatten(reference.call(given, call)))
            expected = expected or seen
            if seen != expected:
                raise IneligibleError("depends on the number of its layer")
            if state:
                reference.forget(call["module"])
        if len(variant.alternates) > 1:
            # Their values differ between the calls that the variant stands for.
            numbered = [item for item in variant.arguments if item["path"].rpartition(".")[2] in LAYER_NUMBERS]
            variant.arguments = [item for item in variant.arguments if item not in numbered]

    def _count(self, variant: VariantDraft, reference: Reference, tensors: list[torch.Tensor]) -> None:
        assert variant.output is not None
        try:
            run = reference.bind(tensors, variant.call())
            seen = trace(run, tensors)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raise IneligibleError(f"does not run under a dispatch mode ({type(error).__name__}: {error})") from error
        if seen.hidden is not None:
            raise IneligibleError(f"reads {describe_hidden(seen.hidden, run.func)}, which it is not given")
        if seen.value_dependent:
            raise IneligibleError(f"depends on values in its shapes or control flow ({seen.value_dependent})")
        variant.flops = seen.flops
        variant.operations = seen.operations
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
        generator = self._generator()
        drawn = [self._draw(spec, generator) for spec in variant.specs]
        try:
            outputs = flatten(reference.call(drawn, variant.call()))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's operator may raise anything
            return f"{type(error).__name__}: {error}"
        if [list(tensor.shape) for tensor in outputs] != [spec["shape"] for spec in variant.output.specs]:
            return "the shape of the result changes with the values"
        if any(was and not all_finite(now) for was, now in zip(variant.output.finite, outputs, strict=True)):
            return "the result is not finite"
        return ""


def _is_unsteady(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    """Whether two runs on the same inputs differ, and by rounding alone: sums by atomic additions do on a GPU."""
    pairs = list(zip(first, second, strict=True))
    if all(torch.equal(a, b) for a, b in pairs):
        return False
    return all(_is_rounding(a, b) for a, b in pairs if not torch.equal(a, b))


def _is_rounding(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not a.dtype.is_floating_point or a.element_size() == 1:
        return False
    difference = (a.double() - b.double()).square().mean().sqrt()
    return bool(difference <= 4 * torch.finfo(a.dtype).eps * b.double().square().mean().sqrt())


def _bytes(spec: dict[str, Any]) -> int:
    count = DTYPES[spec["dtype"]].itemsize
    for size, step in zip(spec["shape"], spec["stride"], strict=True):
        count *= size if step != 0 or size == 0 else 1
    return count
