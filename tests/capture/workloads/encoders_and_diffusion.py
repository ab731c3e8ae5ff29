"""Encoders and image models of transformers' and diffusers' own classes, small, with random weights."""

import torch
from diffusers import AutoencoderKL, SD3Transformer2DModel
from transformers import (
    BertConfig,
    BertModel,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
)


def bert():
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536, vocab_size=1024
    )
    ids = torch.randint(3, config.vocab_size, (2, 128))
    mask = torch.ones(2, 128, dtype=torch.long)
    mask[1, 100:] = 0
    return BertModel(config).eval(), (), {"input_ids": ids, "attention_mask": mask}


def vit():
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536, image_size=224
    )
    return ViTForImageClassification(config).eval(), (torch.randn(1, 3, 224, 224),)


def whisper():
    torch.manual_seed(0)
    config = WhisperConfig(
        d_model=256,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=1024,
        decoder_ffn_dim=1024,
        vocab_size=1024,
        max_source_positions=200,
        max_target_positions=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    inputs = {"input_features": torch.randn(1, 80, 400), "decoder_input_ids": torch.randint(3, 1024, (1, 32))}
    return WhisperForConditionalGeneration(config).eval(), (), inputs


def sd3():
    torch.manual_seed(0)
    model = SD3Transformer2DModel(
        sample_size=32,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=3,
        attention_head_dim=32,
        num_attention_heads=4,
        joint_attention_dim=128,
        caption_projection_dim=128,
        pooled_projection_dim=128,
        pos_embed_max_size=32,
        qk_norm="rms_norm",
        dual_attention_layers=(0,),
    )
    inputs = {
        "hidden_states": torch.randn(1, 4, 32, 32),
        "encoder_hidden_states": torch.randn(1, 77, 128),
        "pooled_projections": torch.randn(1, 128),
        "timestep": torch.tensor([500.0]),
        "return_dict": False,
    }
    return model.eval(), (), inputs


def vae():
    torch.manual_seed(0)
    model = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        block_out_channels=(64, 128),
        layers_per_block=1,
        norm_num_groups=32,
        sample_size=64,
    )
    return model.eval(), (torch.randn(1, 3, 64, 64),), {"return_dict": False}
