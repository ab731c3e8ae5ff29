"""Effects that leave no trace in version counters, and arguments that a plain value is not."""

from __future__ import annotations

import pytest

EXTRA = """
import enum
class Level(enum.IntEnum):
    A = 3
class Word(str, enum.Enum):
    A = "a"
class Keeps(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
        self.register_buffer("b", torch.zeros(8))
        self.w = nn.Parameter(torch.ones(()))
    def forward(self, x):
        y = x * self.w
        if self.how == "data":
            self.b.data.add_(1.0)
        elif self.how == "numpy":
            self.b.numpy()[:] += 1.0
        else:
            self.w.data.mul_(1.5)
        return y
def by_level(x, level):
    return x * level.value if isinstance(level, Level) else x * 100
def by_word(x, word):
    return x * 2 if isinstance(word, Word) else x * 100
def resized(x):
    return x.resize_(8, x.numel() // 8)
def elsewhere(x):
    x.data = x * 2
    return x
def turned(x):
    return x.transpose_(0, 1)
"""


@pytest.mark.parametrize("how", ["data", "numpy", "parameter"])
def test_writes_into_the_state_past_the_version_counter_are_seen(sample, how):
    captured = sample(f"model(lambda self, x: self.k(x) + self.k.b.sum(), k=Keeps({how!r}))", extra=EXTRA)
    card = captured.card("Keeps")
    assert card["variants"] == []
    assert "writes into its parameters or buffers" in str(card["refused"])


@pytest.mark.parametrize("call", ["by_level(x, Level.A)", "by_word(x, Word.A)"])
def test_members_of_enumerations_are_no_plain_values(sample, call):
    card = sample(f"model(lambda self, x: {call})", extra=EXTRA).card(call.partition("(")[0])
    assert card["variants"] == []
    assert "a value of type" in str(card["refused"])


@pytest.mark.parametrize("name", ["resized", "elsewhere", "turned"])
def test_changed_metadata_is_no_overwriting(sample, name):
    card = sample(f"model(lambda self, x: {name}(x.clone()) + 1)", extra=EXTRA).card(name)
    assert card["variants"] == []
    assert "changes the shape, the strides or the storage" in str(card["refused"])
