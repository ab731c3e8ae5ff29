# pyright: reportMissingImports=false
"""A model as a user would have it: it prints when imported, and has entries that go wrong."""

import os
import time

import torch
from torch import nn

print("loading the model ...")


class RMSNorm(nn.Module):
    def __init__(self, n: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Block(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.norm = RMSNorm(n)
        self.up = nn.Linear(n, n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.up(self.norm(x))


class Broken(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the mask has the wrong shape")


def build() -> object:
    torch.manual_seed(0)
    return nn.Sequential(Block(128), Block(128)).eval(), (torch.randn(1, 64, 128),)


def scale_rows_(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return x.mul_(factor).add_(1.0)


class Scaled(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.up = nn.Linear(n, n)
        self.factor = nn.Parameter(torch.rand(n) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scale_rows_(self.up(x), self.factor)


def in_place() -> object:
    torch.manual_seed(0)
    return Scaled(96).eval(), (torch.randn(64, 96),)


def broken() -> object:
    return Broken(), (torch.ones(3),)


def leaving() -> object:
    os._exit(0)


def slow() -> object:
    time.sleep(1000)
    return build()
