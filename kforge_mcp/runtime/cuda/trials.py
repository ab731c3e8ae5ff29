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
        self,
        subject: Subject,
        side: CandidateSide | StandIn | None,
        policy: Policy,
        *,
        admit: bool = False,
        hardness: str = "",
    ) -> None:
        super().__init__(subject, None, policy, "", admit=admit, hardness=hardness)
        # The base class asks only whether there is a side; its own kind runs in another process.
        self._side = side  # type: ignore[assignment]
        self._device_side = side
        self._calls = 0

    def _call(self, image: torch.Tensor) -> list[torch.Tensor] | Finding:
        assert self._device_side is not None
        # Odd calls wait after each step, so that a kernel that fails is named; even ones run as when timed, and find
        # in the workspaces what the odd ones left there.
        self._calls += 1
        first = self._calls % 2 == 1
        outputs = self._device_side.once(image, stepwise=first, renew=first)
        if not isinstance(outputs, Finding):
            self._last = self._subject.fresh.left_behind(self._device_side.latest)
        return outputs
