"""An ordinary script with Transformers' Trainer: a tiny model with random weights that learns to repeat. It knows nothing of the platform."""

import argparse
import os
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

import diary

p = argparse.ArgumentParser()
p.add_argument("--out", default=".")
p.add_argument("--folder", default="ckpt")
p.add_argument("--save-steps", type=int, default=0)
p.add_argument("--pause", type=float, default=0.05)
p.add_argument("--epochs", type=int, default=4)
a = p.parse_args()
torch.set_num_threads(1)


class Rows(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        self.rows = torch.randint(0, 50, (n, 12), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


class Diary(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        diary.write(a.out, "step", state.global_step)
        time.sleep(a.pause)

    def on_save(self, args, state, control, **kwargs):
        diary.write(a.out, "saved", state.global_step)


set_seed(7)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0))
args = TrainingArguments(
    a.folder, num_train_epochs=a.epochs, per_device_train_batch_size=4, learning_rate=1e-3, warmup_steps=5, seed=7, report_to=[], use_cpu=True, disable_tqdm=True,
    eval_strategy="epoch", logging_steps=10, save_strategy="steps" if a.save_steps else "no", save_steps=a.save_steps or 500, save_total_limit=1,
)
trainer = Trainer(model, args, train_dataset=Rows(96 * diary.WORLD, 1), eval_dataset=Rows(16, 2), callbacks=[Diary()])
trainer.train(resume_from_checkpoint=os.environ.get("FERMI_RESUME_FROM"))
if trainer.is_world_process_zero():
    torch.save(model.state_dict(), os.path.join(a.out, "weights.pt"))
