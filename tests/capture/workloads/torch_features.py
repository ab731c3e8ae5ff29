"""One model for each feature of torch that changes how a forward runs."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = RMSNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class Stack(nn.Module):
    """Blocks one after the other; `run(block, x)` is how each is called."""

    def __init__(self, width=256, layers=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))

    def run(self, block, x):
        return block(x)

    def forward(self, x):
        for block in self.blocks:
            x = self.run(block, x)
        return x


def _built(model):
    return model.eval(), (torch.randn(4, 128, 256),)


class Checkpointed(Stack):
    def run(self, block, x):
        return checkpoint(block, x, use_reentrant=False)


def checkpointed():
    torch.manual_seed(0)
    return _built(Checkpointed())


def hooked():
    """A forward hook and a forward pre-hook that change values."""
    torch.manual_seed(0)
    model = Stack()
    model.blocks[0].norm.register_forward_hook(lambda module, args, output: output * 1.5)
    model.blocks[1].up.register_forward_pre_hook(lambda module, args: (args[0] + 1.0,))
    return _built(model)


class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x / (1.0 + x.abs())
        ctx.save_for_backward(x)
        return result

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (1.0 + x.abs()) ** 2


class Squashed(Stack):
    def run(self, block, x):
        return Squash.apply(block(x))


def custom_autograd():
    torch.manual_seed(0)
    return _built(Squashed())


class Autocast(Stack):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).float()


def autocast():
    torch.manual_seed(0)
    return _built(Autocast())


class PartlyCompiled(Stack):
    def __init__(self):
        super().__init__()
        self.blocks[1] = torch.compile(self.blocks[1], backend="eager")


def partly_compiled():
    torch.manual_seed(0)
    return _built(PartlyCompiled())


class Mapped(Stack):
    """Each row of the batch by `vmap`, and a directional derivative by `jvp`."""

    def run(self, block, x):
        rows = torch.func.vmap(block)(x)
        _, slope = torch.func.jvp(torch.tanh, (rows,), (torch.ones_like(rows),))
        return rows * slope


def functional():
    torch.manual_seed(0)
    return _built(Mapped())


class Tied(nn.Module):
    """One weight as embedding and as output projection, a buffer, and an output that is a view."""

    def __init__(self, width=128, words=512):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.block = Block(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.linspace(0.5, 1.5, width))

    def forward(self, ids):
        hidden = self.block(self.embedding(ids) * self.scale)
        return {"logits": self.head(hidden), "last": hidden[:, -1], "nothing": None}


def tied():
    torch.manual_seed(0)
    return Tied().eval(), (torch.randint(0, 512, (2, 64)),)
