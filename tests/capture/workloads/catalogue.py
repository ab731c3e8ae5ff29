"""Every workload that must capture: its entry, and the cards that a specialist would name first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Listed:
    """A workload. `specialist` names cards that a person who knows the model would write kernels for."""

    name: str
    file: str
    specialist: tuple[str, ...]

    @property
    def entry(self) -> str:
        """The entry as `capture_model` takes it."""
        return f"{HERE / self.file}.py:{self.name}"


_LANGUAGE = "language_models"
_ENCODERS = "encoders_and_diffusion"
_OWN = "hand_written"
_FEATURES = "torch_features"

WORKLOADS = {
    workload.name: workload
    for workload in (
        Listed("llama", _LANGUAGE, ("LlamaRMSNorm", "apply_rotary_pos_emb", "LlamaMLP")),
        Listed("gemma4", _LANGUAGE, ("Gemma4RMSNorm", "apply_rotary_pos_emb", "Gemma4TextMLP")),
        Listed(
            "qwen3_5_moe",
            _LANGUAGE,
            ("torch_chunk_gated_delta_rule", "Qwen3_5MoeExperts", "Qwen3_5MoeGatedDeltaNet", "Qwen3_5MoeRMSNorm"),
        ),
        Listed("gpt2", _LANGUAGE, ("NewGELUActivation", "torch.nn.functional.layer_norm", "Conv1D")),
        Listed("mamba", _LANGUAGE, ("mamba_selective_scan", "causal_conv1d_fn", "MambaRMSNorm")),
        Listed("t5", _LANGUAGE, ("T5LayerNorm", "T5Attention", "T5DenseActDense")),
        Listed("bert", _ENCODERS, ("torch.nn.functional.layer_norm", "torch.nn.functional.gelu", "BertSelfAttention")),
        Listed("vit", _ENCODERS, ("torch.nn.functional.layer_norm", "torch.nn.functional.gelu", "ViTAttention")),
        Listed(
            "whisper", _ENCODERS, ("torch.nn.functional.layer_norm", "torch.nn.functional.gelu", "WhisperAttention")
        ),
        Listed("sd3", _ENCODERS, ("Attention", "RMSNorm", "AdaLayerNormZero", "torch.nn.functional.gelu")),
        Listed("vae", _ENCODERS, ("torch.nn.functional.group_norm", "torch.nn.functional.silu", "ResnetBlock2D")),
        Listed("gnn", _OWN, ("normalise_by_degree", "GraphConvolution", "torch.index_add")),
        Listed("dlrm", _OWN, ("torch.nn.functional.embedding_bag", "pairwise_dots", "torch.nn.functional.linear")),
        Listed("lstm", _OWN, ("LSTM", "torch.nn.functional.log_softmax", "torch.nn.functional.linear")),
        Listed("unet", _OWN, ("torch.nn.functional.batch_norm", "DoubleConvolution", "torch.nn.functional.relu")),
        Listed("checkpointed", _FEATURES, ("RMSNorm", "Block", "torch.nn.functional.silu")),
        Listed("hooked", _FEATURES, ("RMSNorm", "Block", "torch.nn.functional.silu")),
        Listed("custom_autograd", _FEATURES, ("RMSNorm", "Block", "torch.nn.functional.silu")),
        Listed("autocast", _FEATURES, ("torch.nn.functional.linear", "torch.nn.functional.silu")),
        Listed("partly_compiled", _FEATURES, ("RMSNorm", "Block", "torch.nn.functional.silu")),
        Listed("functional", _FEATURES, ("torch.mul",)),
        Listed("tied", _FEATURES, ("RMSNorm", "Block", "torch.nn.functional.linear")),
    )
}
