"""Modules that TorchScript compiled: refused by name, and no obstacle to the rest of the capture."""

from __future__ import annotations

import pytest
import torch

from kforge_mcp.runtime.capture_arguments import IneligibleError
from kforge_mcp.runtime.capture_purity import refuse_module
from kforge_mcp.runtime.capture_source import reference_source

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning")


def _traced() -> torch.nn.Module:
    return torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))


def test_a_compiled_class_has_a_source() -> None:
    assert isinstance(reference_source(type(_traced())), str)


@pytest.mark.parametrize("wrap", [lambda part: part, torch.nn.Sequential])
def test_a_compiled_module_or_part_is_refused(wrap: type[torch.nn.Sequential]) -> None:
    with pytest.raises(IneligibleError, match="is compiled by TorchScript"):
        refuse_module(wrap(_traced()))
