"""Validity trials on the device: the trials of every target, with calls that run on a slot of device memory."""

from __future__ import annotations

import torch

from ..checks import Finding
from ..subject import Subject
from ..trials import Policy, Trials
from .sides import CandidateSide, StandIn


class DeviceTrials(Trials):
    """Runs the validity trials of one variant; without a side only eager's errors are learnt."""

    def __init__(
        self, subject: Subject, side: CandidateSide | StandIn | None, policy: Policy, *, admit: bool = False
    ) -> None:
        super().__init__(subject, side, policy, "", admit=admit)
        self._device_side = side
        self._calls = 0

    def _call(self, image: torch.Tensor) -> list[torch.Tensor] | Finding:
        assert self._device_side is not None
        # Odd calls wait after each step, so that a kernel that fails is named; even ones run as when timed.
        self._calls += 1
        return self._device_side.once(image, stepwise=self._calls % 2 == 1)
