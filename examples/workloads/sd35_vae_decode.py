"""The image decoder of Stable Diffusion 3.5: latents to a 1024 x 1024 image, bf16.

Sizes of the published autoencoder (16 latent channels, blocks of 128 to 512 channels, no quantising convolutions),
random weights.
"""

import torch
from diffusers import AutoencoderKL


class Decoder(torch.nn.Module):
    """The autoencoder's second half, which is what an image takes."""

    def __init__(self, autoencoder):
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, latents):
        return self.autoencoder.decode(latents, return_dict=False)[0]


def build():
    torch.manual_seed(0)
    with torch.device("cuda"):
        autoencoder = AutoencoderKL(
            in_channels=3,
            out_channels=3,
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
            latent_channels=16,
            norm_num_groups=32,
            sample_size=1024,
            use_quant_conv=False,
            use_post_quant_conv=False,
        )
        latents = torch.randn(1, 16, 128, 128, dtype=torch.bfloat16)
    return Decoder(autoencoder).to(torch.bfloat16).eval(), (latents,)
