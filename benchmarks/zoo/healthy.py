"""Healthy networks: real architectures from their packages, in tiny configurations with random weights.

A case is a function that returns the model and a function that computes its loss. A missing package is named and its
networks are left out, never counted.
"""

from __future__ import annotations

from typing import Any

import plain_torch  # noqa: F401 (registers its networks)
import torch
from cases import HEALTHY, PACKAGE, Case, healthy, labels, missing
from packages import allow_missing_torchvision
from torch import Tensor, nn
from training import ENTROPY

__all__ = ["HEALTHY", "PACKAGE", "missing"]

# ---------------------------------------------------------------------- timm

TIMM = {
    "resnet18": 32, "resnet50": 32, "regnetx_002": 32, "regnety_002": 32, "convnext_atto": 32, "convnextv2_atto": 32,
    "efficientnet_b0": 32, "mobilenetv3_small_050": 32, "vit_tiny_patch16_224": 64, "deit3_small_patch16_224": 64,
    "eva02_tiny_patch14_224": 56, "cait_xxs24_224": 64, "swin_tiny_patch4_window7_224": 224, "mixer_s32_224": 64,
    "resmlp_12_224": 64, "gmlp_s16_224": 64, "densenet121": 32, "dla34": 32, "ghostnet_050": 32, "resnext26ts": 32,
    "seresnet18": 32, "nfnet_f0": 32, "poolformer_s12": 64, "edgenext_xx_small": 32, "mobilevit_xxs": 32,
    "hrnet_w18_small": 32, "res2net50_14w_8s": 32, "vgg11_bn": 32,
}  # fmt: skip
SMALLER: dict[str, dict[str, Any]] = {
    "vit_tiny_patch16_224": {"depth": 6, "img_size": 64},
    "deit3_small_patch16_224": {"depth": 4, "embed_dim": 96, "num_heads": 3, "img_size": 64},
    "eva02_tiny_patch14_224": {"depth": 4, "img_size": 56},
    "cait_xxs24_224": {"depth": 6, "img_size": 64},
    "swin_tiny_patch4_window7_224": {"depths": (1, 1, 2, 1), "embed_dim": 24, "num_heads": (1, 2, 2, 4)},
    "mixer_s32_224": {"img_size": 64},
    "resmlp_12_224": {"img_size": 64},
    "gmlp_s16_224": {"img_size": 64},
}


def _timm(name: str, side: int) -> None:
    @healthy("timm", f"{name} (timm)")
    def make() -> Case:
        allow_missing_torchvision()
        import timm

        model = timm.create_model(name, pretrained=False, num_classes=10, **SMALLER.get(name, {}))
        count = 2 if side == 224 else 8
        x, y = torch.randn(count, 3, side, side), labels(count)
        return model, lambda: ENTROPY(model(x), y)


for _name, _side in TIMM.items():
    _timm(_name, _side)


# ---------------------------------------------------------------------- transformers

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32, "vocab_size": 100,
}  # fmt: skip
DECODERS = {
    "GPT2": {"n_embd": 32, "n_layer": 4, "n_head": 4, "vocab_size": 100, "n_positions": 64},
    "GPTNeoX": SMALL,
    "Llama": {**SMALL, "num_key_value_heads": 2},
    "Qwen2": {**SMALL, "num_key_value_heads": 2},
    "Qwen3": {**SMALL, "num_key_value_heads": 2, "head_dim": 8},
    "Mistral": {**SMALL, "num_key_value_heads": 2},
    "Gemma2": {**SMALL, "num_key_value_heads": 2, "head_dim": 8},
    "Phi3": {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0},
    "OPT": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64, "vocab_size": 100,
            "word_embed_proj_dim": 32, "max_position_embeddings": 64},
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100},
    "Mixtral": {**SMALL, "num_key_value_heads": 2, "num_local_experts": 4},
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100, "state_size": 8},
    "Rwkv": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100, "attention_hidden_size": 32},
}  # fmt: skip


def _decoder(name: str, settings: dict[str, Any]) -> None:
    @healthy("transformers", f"{name} (transformers)")
    def make() -> Case:
        import transformers

        config = getattr(transformers, f"{name}Config")(**settings)
        model = getattr(transformers, f"{name}{'LMHeadModel' if name == 'GPT2' else 'ForCausalLM'}")(config)
        tokens = torch.randint(1, 99, (8, 24))
        return model, lambda: model(input_ids=tokens, labels=tokens).loss


for _name, _settings in DECODERS.items():
    _decoder(_name, _settings)


@healthy("transformers", "GPT2, 12 layers (transformers)")
def _gpt2_of_twelve_layers() -> Case:
    import transformers

    config = transformers.GPT2Config(n_embd=32, n_layer=12, n_head=4, vocab_size=100, n_positions=64)
    model, tokens = transformers.GPT2LMHeadModel(config), torch.randint(1, 99, (8, 24))
    return model, lambda: model(input_ids=tokens, labels=tokens).loss


@healthy("transformers", "BERT, masked words (transformers)")
def _bert() -> Case:
    import transformers

    model, tokens = transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)), torch.randint(1, 99, (8, 24))
    return model, lambda: model(input_ids=tokens, labels=tokens).loss


@healthy("transformers", "BERT, classifier (transformers)")
def _bert_classifier() -> Case:
    import transformers

    config = transformers.BertConfig(**SMALL, num_labels=3)
    model, tokens = transformers.BertForSequenceClassification(config), torch.randint(1, 99, (8, 24))
    return model, lambda: model(input_ids=tokens, labels=labels(8, 3)).loss


@healthy("transformers", "DistilBERT (transformers)")
def _distilbert() -> Case:
    import transformers

    config = transformers.DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
    model, tokens = transformers.DistilBertForSequenceClassification(config), torch.randint(1, 99, (8, 24))
    return model, lambda: model(input_ids=tokens, labels=labels(8, 2)).loss


@healthy("transformers", "T5 (transformers)")
def _t5() -> Case:
    import transformers

    config = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0
    )
    model, tokens = transformers.T5ForConditionalGeneration(config), torch.randint(1, 99, (8, 16))
    return model, lambda: model(input_ids=tokens, labels=tokens).loss


@healthy("transformers", "BART (transformers)")
def _bart() -> Case:
    import transformers

    config = transformers.BartConfig(
        vocab_size=100, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
    )  # fmt: skip
    model, tokens = transformers.BartForConditionalGeneration(config), torch.randint(3, 99, (8, 16))
    return model, lambda: model(input_ids=tokens, labels=tokens).loss


@healthy("transformers", "ViT (transformers)")
def _vit() -> Case:
    import transformers

    settings = {key: value for key, value in SMALL.items() if key != "vocab_size"}
    config = transformers.ViTConfig(**settings, image_size=32, patch_size=8, num_labels=10)
    model, x = transformers.ViTForImageClassification(config), torch.randn(8, 3, 32, 32)
    return model, lambda: model(pixel_values=x, labels=labels(8)).loss


@healthy("transformers", "SegFormer (transformers)")
def _segformer() -> Case:
    import transformers

    config = transformers.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32,
        num_labels=4,
    )  # fmt: skip
    model, x = transformers.SegformerForSemanticSegmentation(config), torch.randn(2, 3, 64, 64)
    y = torch.randint(0, 4, (2, 64, 64))
    return model, lambda: model(pixel_values=x, labels=y).loss


@healthy("transformers", "wav2vec2 with CTC (transformers)")
def _wav2vec2() -> Case:
    import transformers

    config = transformers.Wav2Vec2Config(
        **{**SMALL, "vocab_size": 20}, conv_dim=(16, 16, 16), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2),
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, mask_time_prob=0.0,
        num_feat_extract_layers=3, ctc_loss_reduction="mean",
    )  # fmt: skip
    model, x = transformers.Wav2Vec2ForCTC(config), torch.randn(4, 1600)
    y = torch.randint(1, 19, (4, 6))
    return model, lambda: model(input_values=x, labels=y).loss


@healthy("transformers", "CLIP (transformers)")
def _clip() -> Case:
    import transformers

    text = {**SMALL, "max_position_embeddings": 32, "eos_token_id": 99}
    vision = {key: value for key, value in SMALL.items() if key != "vocab_size"}
    config = transformers.CLIPConfig(
        text_config=text, vision_config={**vision, "image_size": 32, "patch_size": 8}, projection_dim=16
    )
    model, x, tokens = transformers.CLIPModel(config), torch.randn(8, 3, 32, 32), torch.randint(1, 98, (8, 12))
    return model, lambda: model(input_ids=tokens, pixel_values=x, return_loss=True).loss


@healthy("transformers", "Whisper (transformers)")
def _whisper() -> Case:
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=100, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=50,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        begin_suppress_tokens=None,
    )  # fmt: skip
    model, x = transformers.WhisperForConditionalGeneration(config), torch.randn(4, 8, 100)
    y = torch.randint(3, 99, (4, 12))
    return model, lambda: model(input_features=x, labels=y).loss


@healthy("peft", "LoRA on Llama (peft)")
def _lora() -> Case:
    import peft
    import transformers

    base = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, num_key_value_heads=2))
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    tokens = torch.randint(1, 99, (8, 24))
    return model, lambda: model(input_ids=tokens, labels=tokens).loss


# ---------------------------------------------------------------------- graphs


def _graph() -> tuple[Tensor, Tensor, Tensor]:
    made = torch.Generator().manual_seed(0)
    return torch.randn(60, 16, generator=made), torch.randint(0, 60, (2, 300), generator=made), labels(60, 4)


def _graph_net(name: str) -> None:
    @healthy("torch_geometric", f"{name} (PyG)")
    def make() -> Case:
        from torch_geometric.nn import models

        model = getattr(models, name)(16, 32, 3, 4)
        x, edges, y = _graph()
        return model, lambda: ENTROPY(model(x, edges), y)


for _name in ("GCN", "GAT", "GIN", "GraphSAGE"):
    _graph_net(_name)


# ---------------------------------------------------------------------- diffusers


@healthy("diffusers", "UNet2D (diffusers)")
def _unet() -> Case:
    import diffusers

    model = diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, block_out_channels=(16, 32), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    x, noise, time = torch.randn(4, 3, 16, 16), torch.randn(4, 3, 16, 16), torch.tensor([1, 200, 500, 900])
    return model, lambda: nn.functional.mse_loss(model(x, time).sample, noise)


@healthy("diffusers", "AutoencoderKL (diffusers)")
def _vae() -> Case:
    import diffusers

    model = diffusers.AutoencoderKL(
        block_out_channels=(16, 32), norm_num_groups=8, latent_channels=4, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    x = torch.randn(4, 3, 16, 16)

    def loss() -> Tensor:
        found = model.encode(x).latent_dist
        return nn.functional.mse_loss(model.decode(found.mode()).sample, x) + 1e-6 * found.kl().mean()

    return model, loss


@healthy("diffusers", "DiT (diffusers)")
def _dit() -> Case:
    import diffusers

    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, in_channels=4, num_layers=3, sample_size=8, patch_size=2,
        num_embeds_ada_norm=10, norm_num_groups=4,
    )  # fmt: skip
    x, noise = torch.randn(4, 4, 8, 8), torch.randn(4, 4, 8, 8)
    time, kinds = torch.tensor([1, 200, 500, 900]), labels(4)
    return model, lambda: nn.functional.mse_loss(model(x, timestep=time, class_labels=kinds).sample, noise)


# ---------------------------------------------------------------------- x-transformers, segmentation


@healthy("x_transformers", "decoder with rotary embeddings (x-transformers)")
def _rotary() -> Case:
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=100, max_seq_len=64, attn_layers=Decoder(dim=32, depth=3, heads=4, rotary_pos_emb=True)
    )
    tokens = torch.randint(0, 100, (8, 24))
    return model, lambda: ENTROPY(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])


@healthy("segmentation_models_pytorch", "Unet with a ResNet encoder (segmentation_models_pytorch)")
def _segmentation() -> Case:
    allow_missing_torchvision()
    import segmentation_models_pytorch as smp

    model = smp.Unet("tu-resnet18", encoder_weights=None, classes=4)
    x, y = torch.randn(2, 3, 64, 64), torch.randint(0, 4, (2, 64, 64))
    return model, lambda: ENTROPY(model(x), y)
