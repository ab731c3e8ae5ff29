"""What a package says of itself: operator names and signatures, and the manifest that its dispatcher reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kforge_mcp.export.baseline import Baseline
from kforge_mcp.export.kernels import Kernel, ServedVariant
from kforge_mcp.records.project import Target
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Argument

FORMAT = "kforge-package/1"
VERSION = "0.1.0"
TORCH_MINIMUM = "2.10"
PYTHON_MINIMUM = "3.10"


@dataclass(frozen=True)
class Operator:
    """A kernel's place in the package: its operator, its files, the names of its tensor arguments."""

    kernel: Kernel
    number: int
    name: str
    label: str
    """The card's name; its qualified name where two cards of the package are called alike."""
    binaries: dict[str, str]
    """File inside the package by the path of the binary."""

    @property
    def source(self) -> str:
        """File name of the candidate's source."""
        return f"{self.name}.{'cu' if self.kernel.variants[0].binaries[0].arch else 'cpp'}"

    @property
    def operands(self) -> list[Argument]:
        """Tensor arguments in the operator's order, as the first variant has them."""
        return [argument for argument in self.kernel.variants[0].variant.arguments if is_operand(argument)]

    @property
    def optional(self) -> set[str]:
        """Names of tensors that are absent in some variant."""
        return {
            argument.name
            for served in self.kernel.variants
            for argument in served.variant.arguments
            if argument.kind == "none"
        }

    @property
    def schema(self) -> str:
        """The operator's signature in torch's notation. `variant` numbers the captured call that is served."""
        tensors = [f"Tensor{'?' if o.name in self.optional else ''} {o.name}" for o in self.operands]
        count = len(self.kernel.variants[0].variant.outputs)
        result = "Tensor" if count == 1 else "(" + ", ".join(["Tensor"] * count) + ")"
        variant = "variant" if all(o.name != "variant" for o in self.operands) else "variant_"
        return f"{self.name}({', '.join([*tensors, f'int {variant}'])}) -> {result}"


def is_operand(argument: Argument) -> bool:
    """Whether an argument is a tensor, present or absent, and so one of the operator's."""
    return argument.kind in ("tensor", "none")


def operators(kernels: list[Kernel]) -> list[Operator]:
    """Kernels in the order given, with operator names that are unique: `LlamaRMSNorm` is `llama_rms_norm`."""
    made: list[Operator] = []
    names = labels(kernels)
    for number, kernel in enumerate(kernels):
        base = snake_case(kernel.card.name)
        taken = {other.name for other in made}
        name = base
        suffix = 2
        while name in taken:
            name, suffix = f"{base}_{suffix}", suffix + 1
        files: dict[str, str] = {}
        for served in kernel.variants:
            for binary in served.binaries:
                files.setdefault(str(binary.path), f"kernels/{name}_{len(files)}{_suffix(binary.arch)}")
        made.append(Operator(kernel, number, name, names[number], files))
    return made


def _suffix(arch: str) -> str:
    if not arch:
        return ".so"
    return f".{arch}.ptx" if arch.startswith("compute_") else f".{arch}.cubin"


def labels(kernels: list[Kernel]) -> list[str]:
    """What each kernel is called in counts and figures, in order; unique within the package."""
    names = [kernel.card.name for kernel in kernels]
    return [
        kernel.card.qualified_name if names.count(name) > 1 else name
        for kernel, name in zip(kernels, names, strict=True)
    ]


def snake_case(name: str) -> str:
    """`LlamaRMSNorm` as `llama_rms_norm`, `torch.nn.functional.silu` as `silu`."""
    last = re.split(r"[.:]", name)[-1]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", last)
    cleaned = re.sub(r"[^0-9A-Za-z]+", "_", words).strip("_").lower()
    return cleaned if re.match(r"[a-z]", cleaned) else f"card_{cleaned}"


def manifest(
    name: str, packed: list[Operator], libraries: dict[str, str], baseline: Baseline, target: Target = "cpu"
) -> dict[str, Any]:
    """The package as JSON. `libraries` maps files of the package to their SHA-256."""
    return {
        "format": FORMAT,
        "name": name,
        "version": VERSION,
        "torch_minimum": TORCH_MINIMUM,
        "python_minimum": PYTHON_MINIMUM,
        "target": target,
        "architectures": architectures(packed),
        "driver_minimum": baseline.driver_minimum,
        "machine": baseline.machine,
        "baseline": baseline.name,
        "cpu_features": list(baseline.features),
        "operators": "_operators.so",
        "libraries": libraries,
        "cards": [_card(operator) for operator in packed],
    }


def architectures(packed: list[Operator]) -> dict[str, bool]:
    """The architectures that GPU kernels were compiled for, with whether the judge measured them there."""
    found: dict[str, bool] = {}
    for operator in packed:
        for served in operator.kernel.variants:
            found |= {binary.arch: binary.judged for binary in served.binaries if binary.arch}
    return found


def _card(operator: Operator) -> dict[str, Any]:
    card = operator.kernel.card
    variants = operator.kernel.variants
    return {
        "name": operator.label,
        "level": card.level,
        "operator": operator.name,
        "schema": operator.schema,
        "qualified_name": card.qualified_name,
        "class_name": card.qualified_name.partition(":")[2],
        "source_sha256": operator.kernel.source_sha256,
        "patch_sites": list(card.patch_sites) if card.level == "function" else [],
        "modes": list(operator.kernel.modes),
        "device": variants[0].variant.tensors[0].device.partition(":")[0],
        "source": f"sources/{operator.source}",
        "config": operator.kernel.config,
        "nondeterministic": operator.kernel.nondeterministic,
        "variants": [_variant(operator, served) for served in variants],
    }


def _variant(operator: Operator, served: ServedVariant) -> dict[str, Any]:
    variant = served.variant
    return {
        "variant_id": variant.variant_id,
        "kernels": [
            {"file": operator.binaries[str(one.path)], "arch": one.arch, "symbols": list(one.symbols)}
            for one in served.binaries
        ],
        "call": {"args": variant.call.get("args", []), "kwargs": variant.call.get("kwargs", {})},
        "tensors": [_layout(spec) for spec in variant.tensors],
        "operands": [a.tensors[0] if a.kind == "tensor" else None for a in variant.arguments if is_operand(a)],
        "state": [
            {
                "path": _state_path(argument),
                "role": argument.role,
                "tensor": argument.tensors[0] if argument.kind == "tensor" else None,
                "value": argument.value,
            }
            for argument in variant.arguments
            if _is_state(argument)
        ],
        "outputs": [_layout(spec) for spec in variant.outputs],
        "output_tree": variant.output_tree,
    }


def _is_state(argument: Argument) -> bool:
    return argument.path.startswith("self.")


def _state_path(argument: Argument) -> str:
    return argument.path.removeprefix("self.")


def _layout(spec: TensorSpec) -> dict[str, Any]:
    return {"dtype": spec.dtype, "shape": spec.shape, "stride": spec.stride}
