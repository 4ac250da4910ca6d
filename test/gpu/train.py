"""A small training, on a card where there is one, whose bits depend on nothing but the number of steps: platform.sh kills it and compares them.

    train.py STEPS     prints "digest SHA-256" of weights and moments at the end
"""

import hashlib
import os
import statistics
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch

import fermi

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH, BATCH = (8192, 8192) if DEVICE == "cuda" else (256, 64)  # on a card 256 MiB a layer, 1.5 GiB of state with its moments


def digest(state):
    sha = hashlib.sha256()
    for tensor in leaves(state):
        sha.update(tensor.cpu().numpy().tobytes())
    return sha.hexdigest()


def leaves(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from leaves(value[key])
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)


def main(steps):
    begin = time.perf_counter()
    fermi.init()
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH, device=DEVICE), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH, device=DEVICE))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    ready = time.perf_counter()
    got = fermi.checkpoint.restore()
    if got:
        model.load_state_dict(got.state["model"])
        optimizer.load_state_dict(got.state["optimizer"])
        fermi.set_rng_state(got.state["rng"])
    print("ready after %.2f s, restored %s in %.2f s" % (ready - begin, got and got.step, time.perf_counter() - ready), flush=True)
    stalls, seconds, last = [], [], time.perf_counter()
    for step in range(got.step + 1 if got else 1, steps + 1):
        optimizer.zero_grad()
        loss = model(torch.randn(BATCH, WIDTH, device=DEVICE)).square().mean()
        loss.backward()
        optimizer.step()
        fermi.report(step=step, loss=float(loss))
        saved = fermi.checkpoint.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": fermi.rng_state()}, overlap=optimizer)
        now = time.perf_counter()
        seconds.append(now - last)
        last = now
        if len(seconds) <= 2:
            print("step %d after %.2f s" % (step, seconds[-1]), flush=True)
        if saved:
            stalls.append(1000 * saved.stall)
        if step % 20 == 0 and len(stalls) > 1:
            held = "%d saves, the first held it up for %.1f ms, the others for %.2f" % (len(stalls), stalls[0], statistics.median(stalls[1:]))
            print("step %d, %s; %.1f ms a step (medians)" % (step, held, 1000 * statistics.median(seconds)), flush=True)
    print("digest", digest({"model": model.state_dict(), "optimizer": optimizer.state_dict()}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
