"""Real AdamW steps of a small language model: its weights and both moments, as bytes, after some steps.

    FERMI_DELTA=FOLDER delta.py DTYPE WARM GAPS... -      files weights-N, first-N, second-N: after WARM steps (N = 0) and each gap later
"""

import glob
import os
import sys

import torch
from torch import nn

WIDTH, LAYERS, LENGTH, BATCH = 128, 3, 64, 8


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, WIDTH)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, LAYERS)
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, ids):
        mask = torch.triu(torch.full((LENGTH, LENGTH), float("-inf"), dtype=self.place.dtype), 1)
        return self.head(self.body(self.embed(ids) + self.place, mask))


def corpus():
    """Text that people wrote: Python's own library."""
    names = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))[:40]
    text = b"".join(open(name, "rb").read() for name in names)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def dump(model, optimizer, folder, n):
    parts = {"weights": [], "first": [], "second": []}
    for p in model.parameters():
        state = optimizer.state[p]
        for name, t in (("weights", p), ("first", state["exp_avg"]), ("second", state["exp_avg_sq"])):
            parts[name].append(t.detach().contiguous().reshape(-1).view(torch.uint8))
    for name, list_ in parts.items():
        with open(os.path.join(folder, "%s-%d" % (name, n)), "wb") as file:
            file.write(torch.cat(list_).numpy().tobytes())


def main(dtype, warm, gaps, folder):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    text, model = corpus(), Model().to(getattr(torch, dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(1, warm + max(gaps) + 1):
        at = torch.randint(len(text) - LENGTH - 1, (BATCH,))
        rows = torch.stack([text[i : i + LENGTH + 1] for i in at.tolist()]).long()
        loss = nn.functional.cross_entropy(model(rows[:, :-1]).float().reshape(-1, 256), rows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
        if step - warm in [0] + gaps:
            dump(model, optimizer, folder, step - warm)
    if sum(losses[-10:]) >= sum(losses[:10]):
        raise SystemExit("it does not learn: %s" % losses)
    print('{"loss": [%.3f, %.3f]}' % (losses[0], losses[-1]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [int(n) for n in sys.argv[3:-1]], os.environ["FERMI_DELTA"])
