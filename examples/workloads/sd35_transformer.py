"""The transformer of Stable Diffusion 3.5 Medium, one denoising step of a 1024 x 1024 image with guidance, bf16.

Sizes of the published `stabilityai/stable-diffusion-3.5-medium` transformer (MMDiT-X, 2.2 billion parameters), random
weights: 2 x 4096 image tokens (128 x 128 latents in patches of 2) and 333 text tokens (77 of CLIP, 256 of T5).
"""

import torch
from diffusers import SD3Transformer2DModel


def build():
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = SD3Transformer2DModel(
            sample_size=128,
            patch_size=2,
            in_channels=16,
            out_channels=16,
            num_layers=24,
            attention_head_dim=64,
            num_attention_heads=24,
            joint_attention_dim=4096,
            caption_projection_dim=1536,
            pooled_projection_dim=2048,
            pos_embed_max_size=384,
            dual_attention_layers=tuple(range(13)),
            qk_norm="rms_norm",
        )
        inputs = {
            "hidden_states": torch.randn(2, 16, 128, 128, dtype=torch.bfloat16),
            "encoder_hidden_states": torch.randn(2, 333, 4096, dtype=torch.bfloat16),
            "pooled_projections": torch.randn(2, 2048, dtype=torch.bfloat16),
            "timestep": torch.full((2,), 500.0, dtype=torch.bfloat16),
            "return_dict": False,
        }
    return model.to(torch.bfloat16).eval(), (), inputs
