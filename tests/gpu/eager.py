"""The operators of the seeds' cards as torch runs them: `t` has tensors by argument name, `c` constants."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

Tensors = dict[str, torch.Tensor]
Constants = dict[str, Any]


def rms_norm(t: Tensors, c: Constants) -> torch.Tensor:
    x = t["hidden_states"].float()
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["variance_epsilon"])
    return t["weight"] * x.to(t["hidden_states"].dtype)


def rms_norm_offset(t: Tensors, c: Constants) -> torch.Tensor:
    x = t["hidden_states"].float()
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["variance_epsilon"])
    return (x * (1.0 + t["weight"].float())).to(t["hidden_states"].dtype)


def layer_norm(t: Tensors, c: Constants) -> torch.Tensor:
    return F.layer_norm(t["input"], c["normalized_shape"], t.get("weight"), t.get("bias"), c["eps"])


def softmax(t: Tensors, c: Constants) -> torch.Tensor:
    x = t["input"]
    return F.softmax(x, c["dim"], dtype=torch.float32 if c["out"] == "fp32" else None)


def group_norm(t: Tensors, c: Constants) -> torch.Tensor:
    return F.group_norm(t["input"], c["num_groups"], t.get("weight"), t.get("bias"), c["eps"])


def batch_norm(t: Tensors, c: Constants) -> torch.Tensor:
    return F.batch_norm(
        t["input"], t["running_mean"], t["running_var"], t["weight"], t["bias"], c["training"], c["momentum"], c["eps"]
    )


def activation(t: Tensors, c: Constants) -> torch.Tensor:
    name, x = c["operator"], t["input"]
    if name == "QuickGELUActivation":
        return x * torch.sigmoid(1.702 * x)
    known = {"gelu": {"approximate": c.get("approximate")}, "leaky_relu": {"negative_slope": c.get("negative_slope")}}
    function = getattr(F, name, None) or getattr(torch, name)
    return function(x, **known.get(name, {}))


def swiglu(t: Tensors, c: Constants) -> torch.Tensor:
    return F.silu(t["gate"]) * t["up"]


def silu_and_mul(t: Tensors, c: Constants) -> torch.Tensor:
    gate, up = t["x"].chunk(2, dim=-1)
    return F.silu(gate) * up


def geglu(t: Tensors, c: Constants) -> torch.Tensor:
    x, gate = t["x"].chunk(2, dim=-1)
    return x * F.gelu(gate)


def gated_mlp(t: Tensors, c: Constants) -> torch.Tensor:
    gate, up = F.linear(t["x"], t["gate_proj_weight"]), F.linear(t["x"], t["up_proj_weight"])
    return F.linear(F.silu(gate) * up, t["down_proj_weight"])


def rotary(t: Tensors, c: Constants) -> list[torch.Tensor]:
    cos, sin = t["cos"].unsqueeze(1), t["sin"].unsqueeze(1)

    def turned(x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin

    return [turned(t["q"]), turned(t["k"])]


def embedding(t: Tensors, c: Constants) -> torch.Tensor:
    return F.embedding(t["input"], t["weight"])


def adaptive_avg_pool2d(t: Tensors, c: Constants) -> torch.Tensor:
    return F.adaptive_avg_pool2d(t["input"], c["output_size"])


def max_pool2d(t: Tensors, c: Constants) -> torch.Tensor:
    return F.max_pool2d(t["input"], c["kernel_size"], c.get("stride"), c["padding"], c["dilation"])


def residual_rms_norm(t: Tensors, c: Constants) -> list[torch.Tensor]:
    total = t["x"] + t["residual"]
    wide = total.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + c["variance_epsilon"])
    return [t["weight"] * wide.to(total.dtype), total][: c["outputs"]]
