"""A script that trains for one step: capture has nothing to say about backward passes."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = nn.functional.cross_entropy(model(torch.randn(options.batch, 64)), torch.randint(0, 4, (options.batch,)))
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
