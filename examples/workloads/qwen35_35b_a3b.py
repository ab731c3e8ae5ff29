"""The text model of Qwen 3.5 35B-A3B reading a prompt of 512 tokens, bf16: 70 GB of weights.

Sizes of the published `Qwen/Qwen3.5-35B-A3B` text config, random weights: 40 layers, three of four with gated delta
networks, each with 256 experts of which 8 and a shared one see a token.
"""

import torch
from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig


def build():
    torch.manual_seed(0)
    config = Qwen3_5MoeTextConfig(
        vocab_size=248_320,
        hidden_size=2048,
        num_hidden_layers=40,
        num_attention_heads=16,
        num_key_value_heads=2,
        head_dim=256,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        num_experts=256,
        num_experts_per_tok=8,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
        use_cache=False,
    )
    with torch.device("cuda"):
        model = Qwen3_5MoeForCausalLM._from_config(config, dtype=torch.bfloat16)
        input_ids = torch.randint(0, config.vocab_size, (1, 512))
    return model.eval(), (input_ids,)
