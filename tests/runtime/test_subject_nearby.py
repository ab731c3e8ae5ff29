"""What an honest kernel's result may be where an operator is ill-conditioned."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from kforge_mcp.runtime.oracle import Expected, expected
from kforge_mcp.runtime.subject import Subject


def test_integers_beside_moved_results_stay_eagers() -> None:
    values = torch.full((64,), 0.1)

    def eager(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [tensors[0] * 2, tensors[0].argmax()]

    subject: Any = Subject.__new__(Subject)
    subject.generator = torch.Generator().manual_seed(3)
    subject.eager, subject.slot = eager, SimpleNamespace(inputs=[SimpleNamespace(view=lambda image: image)])
    known = expected(eager, [values])
    nearby = subject.nearby(values, known)
    assert isinstance(nearby, Expected)
    assert not torch.equal(nearby.narrow[0], known.narrow[0])
    assert torch.allclose(nearby.narrow[0], known.narrow[0], rtol=1e-6)
    assert torch.equal(nearby.narrow[1], known.narrow[1])
    assert torch.equal(nearby.wide[0], known.wide[0])
