"""An ordinary script with Accelerate, which has its own loop and gathers the gradients of two batches. It knows nothing of the platform."""

import argparse
import os
import shutil
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

import diary

p = argparse.ArgumentParser()
p.add_argument("--out", default=".")
p.add_argument("--folder", default="ckpt")
p.add_argument("--save-steps", type=int, default=0)
p.add_argument("--pause", type=float, default=0.05)
p.add_argument("--epochs", type=int, default=4)
p.add_argument("--generator", action="store_true", help="the order of the data comes from a generator of its own")
a = p.parse_args()
torch.set_num_threads(1)


def rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=g)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
set_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
train, test = torch.utils.data.DataLoader(rows(192 * accelerator.num_processes, 1), 4, shuffle=True, generator=torch.Generator().manual_seed(3) if a.generator else None), torch.utils.data.DataLoader(rows(16, 2), 4)
model, optimizer, train, test, scheduler = accelerator.prepare(model, optimizer, train, test, scheduler)

begin = skip = 0
if os.environ.get("FERMI_RESUME_FROM"):  # as Accelerate's own examples go on
    accelerator.load_state(os.environ["FERMI_RESUME_FROM"])
    done = int(os.path.basename(os.environ["FERMI_RESUME_FROM"]).split("_")[1])
    begin, skip = divmod(2 * done, len(train))
for epoch in range(begin, a.epochs):
    model.train()
    loader = accelerator.skip_first_batches(train, skip) if skip else train
    if hasattr(loader, "set_epoch"):
        loader.set_epoch(epoch)
    skip = 0
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            step = scheduler.scheduler.last_epoch // accelerator.num_processes  # it counts the steps of all
            diary.write(a.out, "step", step)
            time.sleep(a.pause)
            if a.save_steps and step % a.save_steps == 0:
                accelerator.save_state(os.path.join(a.folder, "step_%d" % step))
                diary.write(a.out, "saved", step)
                for name in os.listdir(a.folder):  # only the last one stays
                    if name.startswith("step_") and name != "step_%d" % step:
                        shutil.rmtree(os.path.join(a.folder, name))
    model.eval()
    with torch.no_grad():
        for x, y in test:
            accelerator.gather_for_metrics(torch.nn.functional.mse_loss(model(x), y))
if accelerator.is_main_process:
    torch.save(accelerator.unwrap_model(model).state_dict(), os.path.join(a.out, "weights.pt"))
