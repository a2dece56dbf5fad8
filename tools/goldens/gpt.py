#!/usr/bin/env python3
"""Makes tests/models/golden/transformers.json: small transformers as Hugging Face's transformers and torch have them, for
tests/models/test_transformer.c.

Usage: gpt.py > tests/models/golden/transformers.json   (needs torch and transformers)

GPT2LMHeadModel; LlamaForCausalLM with tied weights, which is gpt with rms_norm, swiglu, rotary positions, grouped keys and no biases;
torch.nn.TransformerEncoder on embedded tokens, with norms behind sums; and on patches of images, with norms before. Twice more on
tokens that end early, with src_key_padding_mask: the mean of what is no padding, and the first position; on frames that end early, likewise with the mean;
on patches behind a token of the class, whose vector is one parameter with that of its position; and with norms behind sums, a causal mask and the embedding's weight in the head: a gpt with post_norm. Each has 20
steps of AdamW (decay of matrices alone) with gradients clipped by their norm, in float64, and how far float32 is from that at most; and
the logits before the first.

Tensor number p of a case is scale * units(.., p) + shift of formula.py. Tokens and classes are hashes(.., 901) and hashes(.., 902), modulo
the vocabulary, and with a mask sample i has padding from LENGTHS[i] on; images units(.., 903), row, column, channel; frames
units(.., 904), and zeros from LENGTHS[i] on.
"""
import json

import numpy as np
import torch
import transformers

from formula import hashes, units

SAMPLES, STEPS, CONTEXT, VOCABULARY, CLASSES, SIDE, FEATURES = 4, 20, 16, 37, 5, 8, 3
LR, CLIP = 3e-3, 0.5
TOKENS = torch.from_numpy((hashes(SAMPLES * CONTEXT, 901) % VOCABULARY).astype(np.int64)).reshape(SAMPLES, CONTEXT)
NEXT = torch.from_numpy((hashes(SAMPLES * CONTEXT, 902) % VOCABULARY).astype(np.int64)).reshape(SAMPLES, CONTEXT)
LABELS = torch.arange(SAMPLES) % CLASSES
PADDING, LENGTHS = 36, (16, 9, 4, 1)
PADDED = torch.stack([torch.where(torch.arange(CONTEXT) < n, row, PADDING) for row, n in zip(TOKENS, LENGTHS)])
FRAMES = torch.from_numpy(units((SAMPLES, CONTEXT, FEATURES), 904)) * (PADDED != PADDING)[..., None]
IMAGES = torch.from_numpy(units((SAMPLES, SIDE, SIDE, 3), 903)).permute(0, 3, 1, 2)


class Encoder(torch.nn.Module):
    def __init__(self, patches, masked=None, token=False, frames=False):
        super().__init__()
        width, heads = 24, 3
        self.masked = masked  # None; or what is read behind a mask of padding: "mean", "first"
        self.embed = (torch.nn.Conv2d(3, width, 4, 4) if patches else torch.nn.Linear(FEATURES, width) if frames else
                      torch.nn.Embedding(VOCABULARY, width))
        self.token = token
        self.place = torch.nn.Parameter(torch.zeros((4 if patches else CONTEXT) + token, width))
        layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu" if patches else "relu",
                                                 batch_first=True, norm_first=patches)
        self.layers = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(width) if patches else None,
                                                  enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, CLASSES)

    def forward(self, x):
        mask = ((x == 0).all(-1) if x.dim() == 3 else x == PADDING) if self.masked else None
        x = self.embed(x)
        x = x.flatten(2).transpose(1, 2) if x.dim() == 4 else x
        x = torch.cat([torch.zeros_like(x[:, :1]), x], 1) if self.token else x
        x = self.layers(x + self.place, src_key_padding_mask=mask)
        if self.masked == "mean":
            return self.head((x * ~mask[..., None]).sum(1) / (~mask).sum(1, keepdim=True))
        return self.head(x[:, 0] if self.masked == "first" or self.token else x.mean(1))


class Causal(torch.nn.Module):
    """What Vaswani's decoder is without an encoder: no norm behind the last block, which ends with one."""

    def __init__(self):
        super().__init__()
        width, heads = 24, 3
        self.embed = torch.nn.Embedding(VOCABULARY, width)
        self.place = torch.nn.Parameter(torch.zeros(CONTEXT, width))
        layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(CONTEXT, dtype=self.place.dtype)
        return self.layers(self.embed(x) + self.place, mask, is_causal=True) @ self.embed.weight.t()


def gpt2():
    net = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=24, n_layer=2, n_head=3, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, attn_implementation="eager"))
    turned = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # [inputs][outputs]
    own = [(n, [p.t() if n.endswith(turned) else p]) for n, p in net.named_parameters()]
    return net, own, lambda dtype: net(TOKENS).logits


def llama():
    net = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, max_position_embeddings=CONTEXT, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=True,
        attn_implementation="eager"))
    m = net.model
    tensors = [("transformer.wte.weight", [m.embed_tokens.weight])]
    for i, b in enumerate(m.layers):
        a, f, h = b.self_attn, b.mlp, f"transformer.h.{i}."
        tensors += [(h + "ln_1.weight", [b.input_layernorm.weight]),
                    (h + "attn.c_attn.weight", [a.q_proj.weight, a.k_proj.weight, a.v_proj.weight]),
                    (h + "attn.c_proj.weight", [a.o_proj.weight]),
                    (h + "ln_2.weight", [b.post_attention_layernorm.weight]), (h + "mlp.c_fc.weight", [f.up_proj.weight]),
                    (h + "mlp.c_gate.weight", [f.gate_proj.weight]), (h + "mlp.c_proj.weight", [f.down_proj.weight])]
    tensors.append(("transformer.ln_f.weight", [m.norm.weight]))
    return net, tensors, lambda dtype: net(TOKENS).logits


def blocks(layers, begin, names):
    tensors = []
    for i, b in enumerate(layers):
        a = b.self_attn
        parts = ((a.in_proj_weight, a.in_proj_bias), (a.out_proj.weight, a.out_proj.bias), (b.linear1.weight, b.linear1.bias),
                 (b.linear2.weight, b.linear2.bias), (b.norm1.weight, b.norm1.bias), (b.norm2.weight, b.norm2.bias))
        for name, (weight, bias) in zip(names, parts):
            tensors += [(f"{begin}{i}.{name}.weight", [weight]), (f"{begin}{i}.{name}.bias", [bias])]
    return tensors


def post_norm():
    net = Causal()
    tensors = [("transformer.wte.weight", [net.embed.weight]), ("transformer.wpe.weight", [net.place])]
    tensors += blocks(net.layers.layers, "transformer.h.",
                      ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj", "ln_1", "ln_2"))
    return net, tensors, lambda dtype: net(TOKENS)


def encoder(patches, masked=None, token=False, frames=False):
    net = Encoder(patches, masked, token, frames)
    embed = "patch_embed.proj" if patches else "embed"
    tensors = [(embed + ".weight", [net.embed.weight])]
    tensors += [(embed + ".bias", [net.embed.bias])] if patches or frames else []
    tensors.append(("pos_embed.weight", [net.place]))
    tensors += blocks(net.layers.layers, "blocks.", ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2", "norm1", "norm2"))
    for name, module in [("norm", net.layers.norm)] * patches + [("head", net.head)]:
        tensors += [(name + ".weight", [module.weight]), (name + ".bias", [module.bias])]
    if patches or frames:
        return net, tensors, lambda dtype: net((IMAGES if patches else FRAMES).to(dtype))
    return net, tensors, lambda dtype: net(PADDED if masked else TOKENS)


def amounts(name):
    """Scale and shift of a tensor's values."""
    norm = any(part in name for part in ("norm", "ln_"))
    return (0.25, 1.0 if norm and name.endswith("weight") else 0.0)


def shape_of(parts):
    return [sum(p.shape[0] for p in parts), *parts[0].shape[1:]]


def fill(tensors):
    for p, (name, parts) in enumerate(tensors):
        scale, shift = amounts(name)
        values = torch.from_numpy(units(tuple(shape_of(parts)), p)).double() * scale + shift
        for part, piece in zip(parts, values.split([q.shape[0] for q in parts])):
            part.copy_(piece)


def run(make, dtype):
    torch.manual_seed(0)
    net, tensors, logits = make()
    assert sum(p.numel() for p in net.parameters()) == sum(q.numel() for _, parts in tensors for q in parts)
    net.train()
    with torch.no_grad():
        fill(tensors)
    net.to(dtype)
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.99))
    first, losses = None, []
    for _ in range(STEPS):
        out = logits(dtype)
        first = out.detach().double() if first is None else first
        wanted = NEXT if out.dim() == 3 else LABELS
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), wanted.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return {"logits": first.reshape(-1).numpy(), "losses": np.array(losses)}


def main():
    cases = {"gpt2": gpt2, "llama": llama, "encoder": lambda: encoder(False), "vit": lambda: encoder(True),
             "masked": lambda: encoder(False, "mean"), "class_token": lambda: encoder(False, "first"),
             "vit_token": lambda: encoder(True, token=True), "post_norm": post_norm,
             "frames": lambda: encoder(False, "mean", frames=True)}
    print(f'{{"made_with": "torch {torch.__version__}, transformers {transformers.__version__}"')
    for name, make in cases.items():
        exact, single = run(make, torch.float64), run(make, torch.float32)
        entry = {what: {"values": [float(f"{v:.10g}") for v in values],
                        "float32": float(f"{abs(values - single[what]).max():.3g}")} for what, values in exact.items()}
        entry["tensors"] = [[n, shape_of(parts), *amounts(n)] for n, parts in make()[1]]
        print(f',"{name}": {json.dumps(entry, separators=(",", ":"))}')
    print("}")


if __name__ == "__main__":
    main()
