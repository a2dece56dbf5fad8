"""LARS and LAMB, which PyTorch has not, after their papers' algorithms: optimizers of torch for parity.py.

Y. You, I. Gitman, B. Ginsburg: "Large batch training of convolutional networks", 2017, algorithm 1; Y. You et al.: "Large
batch optimization for deep learning: training BERT in 76 minutes", 2019, algorithm 2. As is usual, tensors of one dimension
(biases, norms) have the rate as it is, and so has one whose norm is 0, or its gradient's or step's.
"""
import torch


def is_scaled(p, norm, other):
    return p.dim() > 1 and norm > 0 and other > 0


class Lars(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.0, weight_decay=0.0, trust=0.001, eps=1e-8):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay,
                                  "trust": trust, "eps": eps})

    @torch.no_grad()
    def step(self):
        for o in self.param_groups:
            for p in o["params"]:
                norm, slope, decay = p.norm(), p.grad.norm(), o["weight_decay"]
                v = o["lr"] * (p.grad + decay * p)
                if is_scaled(p, norm, slope):
                    v *= o["trust"] * norm / (slope + decay * norm + o["eps"])
                if o["momentum"]:
                    before = self.state[p].get("momentum_buffer", torch.zeros_like(p))
                    v = self.state[p]["momentum_buffer"] = o["momentum"] * before + v
                p -= v


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for o in self.param_groups:
            b1, b2 = o["betas"]
            for p in o["params"]:
                s = self.state[p]
                s["step"] = s.get("step", 0) + 1
                s["m"] = b1 * s.get("m", torch.zeros_like(p)) + (1 - b1) * p.grad
                s["v"] = b2 * s.get("v", torch.zeros_like(p)) + (1 - b2) * p.grad**2
                m, v = s["m"] / (1 - b1**s["step"]), s["v"] / (1 - b2**s["step"])
                r = m / (v.sqrt() + o["eps"]) + o["weight_decay"] * p
                if is_scaled(p, p.norm(), r.norm()):
                    r *= p.norm() / r.norm()
                p -= o["lr"] * r
