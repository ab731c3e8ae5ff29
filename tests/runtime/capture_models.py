"""Small models that each show one thing to capture; written to a file, since capture imports users' files."""

TEXT = '''
import functools
import torch
from torch import nn


def scale_rows(x, weight, power=2, *, bias=None):
    """Scale."""
    y = helper(x) * weight ** power
    return y if bias is None else y + bias


def helper(x):
    return x + 1.0


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


@decorated
def wrapped_function(x):
    return x * 3.0


def writes(x):
    x.mul_(2.0)
    return x + 0.0


def draws(x):
    return x + torch.rand_like(x)


def gives_view(x):
    return x[..., :2]


def gives_input(x):
    return x


def gives_selection(x):
    return x[x > 0]


def branches(x):
    return x * 2 if x.sum() > 0 else x * 3


def gives_none(x):
    return None


def gives_two(x):
    return x * 2, None, {"third": x * 3}


def takes_object(x, owner):
    return x * owner.gain


def takes_infinity(x, limit):
    return x.clamp(max=limit)


def keeps_list(x, steps=(1, 2)):
    return x * steps[0] + steps[1]


def without_tensors(number):
    return number + 1


class Settings:
    def __init__(self):
        self.hidden_size = 8
        self.name = "settings"


class Norm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps
        self.config = Settings()
        self.unused = 5

    def forward(self, hidden_states):
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        scaled = hidden_states * torch.rsqrt(variance + self.eps)
        return self.weight * scaled * (self.config.hidden_size / 8)


class Optional(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.ones(8))
        self.register_parameter("bias", None)

    def forward(self, out, mask=None, *, double=False):
        result = out + self.shift
        return result if mask is None else result * mask


class Listed(nn.Module):
    def forward(self, pair, register):
        return pair[0] + pair[1] * register


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x * 2


class WritesBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        return x * 2


class HoldsTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.ones(8)

    def forward(self, x):
        return x * self.table


class HoldsLambda(nn.Module):
    def __init__(self):
        super().__init__()
        self.action = lambda x: x * 2

    def forward(self, x):
        return self.action(x)


class HoldsFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.action = wrapped_function

    def forward(self, x):
        return self.action(x)


class Double(nn.Module):
    def forward(self, x):
        return x * 2.0


class Body(nn.Module):
    """Calls `body(self, x)`, with `parts` as its modules."""

    def __init__(self, body, **parts):
        super().__init__()
        self.body = [body]
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.body[0](self, x)


def model(body, **parts):
    torch.manual_seed(0)
    return Body(body, **parts).eval(), (torch.randn(2, 4, 8),)
'''
