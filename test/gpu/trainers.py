"""An ordinary script with Transformers' Trainer, on a card where there is one (FERMI_DEVICE=cpu: never): trainers.sh has it saved in memory by the
platform, kills it and compares its bits. Beside that it measures: how long each of those saves holds training up, and what a plain copy of as
many bytes from the card into pinned memory takes in the same process.

    trainers.py STEPS     prints "digest SHA-256" of weights and moments at the end, and "measured JSON"
"""

import hashlib
import json
import os
import statistics
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

CARD = os.environ.get("DEVICE") != "cpu" and torch.cuda.is_available()
SIZE = dict(vocab_size=8192, n_positions=64, n_embd=3072, n_layer=3, n_head=16) if CARD else dict(vocab_size=128, n_positions=64, n_embd=64, n_layer=2, n_head=2)
LENGTH, BATCH, PAUSE = 64, 8, 0.3 if CARD else 0.05


class Rows(torch.utils.data.Dataset):
    def __init__(self, n):
        self.rows = torch.randint(0, SIZE["vocab_size"], (n, LENGTH), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


class Pause(TrainerCallback):
    """A larger model would take this long for a step."""

    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(PAUSE)
        if state.global_step % 10 == 0:
            print("step %d" % state.global_step, flush=True)


def wait():
    if CARD:
        torch.cuda.synchronize()


def watch(stalls):
    """Notes how long each save holds training up, from the call to its return, with everything that the platform does there."""
    from fermi import _instant

    own = _instant.Saver.done

    def done(self, step, state, may=True):
        wait()  # what the step itself still computes is no part of it
        before, begin = self.last, time.perf_counter()
        own(self, step, state, may)
        if self.last != before:
            stalls.append(time.perf_counter() - begin)

    _instant.Saver.done = done


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from tensors(value[key])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def timed(copy, times=9):
    seconds = []
    for _ in range(times):
        wait()
        begin = time.perf_counter()
        copy()
        wait()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[2:])


def plain(state):
    """(bytes, seconds of one copy, seconds tensor by tensor) of what lies on the card, into pinned memory; without a card of all of it, into plain memory."""
    list_ = [t for t in {t.data_ptr(): t for t in tensors(state)}.values() if t.is_cuda or not CARD]
    size = sum(t.numel() * t.element_size() for t in list_)
    host = torch.empty(size, dtype=torch.uint8, pin_memory=CARD)
    whole = torch.empty(size, dtype=torch.uint8, device="cuda" if CARD else "cpu")
    one = timed(lambda: host.copy_(whole, non_blocking=True))
    places, at = [], 0
    for t in list_:
        n = t.numel() * t.element_size()
        places.append((host[at : at + n], t.detach().contiguous().view(-1).view(torch.uint8) if t.dim() else t.detach().reshape(1).view(torch.uint8)))
        at += n

    def each():
        for to, t in places:
            to.copy_(t, non_blocking=True)

    return size, one, timed(each)


def main(steps):
    torch.use_deterministic_algorithms(True)
    set_seed(7)
    stalls = []
    watch(stalls)
    model = GPT2LMHeadModel(GPT2Config(bos_token_id=0, eos_token_id=0, attn_implementation="eager", **SIZE))
    args = TrainingArguments(
        "unused", max_steps=steps, per_device_train_batch_size=BATCH, learning_rate=1e-4, warmup_steps=5, seed=7, report_to=[], use_cpu=not CARD, disable_tqdm=True,
        logging_strategy="no", save_strategy="no",
    )
    trainer = Trainer(model, args, train_dataset=Rows(BATCH * 50), callbacks=[Pause()])
    trainer.train()
    state = {"model": model.state_dict(), "optimizer": trainer.optimizer.state_dict()["state"]}
    size, one, each = plain(state)
    said = {"card": CARD, "bytes": size, "saves": len(stalls), "first_ms": 1000 * stalls[0], "stall_ms": 1000 * statistics.median(stalls[1:] or stalls), "copy_ms": 1000 * one, "copy_each_ms": 1000 * each}
    said["ratio"] = said["stall_ms"] / said["copy_ms"]
    print("measured", json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in said.items()}), flush=True)
    sha = hashlib.sha256()
    for t in tensors(state):
        sha.update(t.detach().cpu().numpy().tobytes())
    print("digest", sha.hexdigest(), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
