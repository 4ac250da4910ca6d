"""Records what the libraries write, for the tests of this package: python3 record.py FOLDER. Needs torch, transformers, lightning,
accelerate and safetensors; tiny models with random weights."""

import os
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
root = sys.argv[1]
os.makedirs(root, exist_ok=True)
torch.manual_seed(0)


def net():
    return torch.nn.Linear(3, 2)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return {"x": torch.full((3,), float(i)), "labels": torch.tensor(i % 2)}


def with_transformers():
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

    class Config(PretrainedConfig):
        model_type = "tiny"

    class Model(PreTrainedModel):
        config_class = Config

        def __init__(self, config):
            super().__init__(config)
            self.net = net()
            self.post_init()

        def forward(self, x, labels=None):
            logits = self.net(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    args = TrainingArguments(os.path.join(root, "transformers"), max_steps=2, save_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no")
    Trainer(Model(Config()), args, train_dataset=Rows()).train()


def with_lightning():
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self.net(batch["x"]), batch["labels"])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    save = lightning.pytorch.callbacks.ModelCheckpoint(os.path.join(root, "lightning"), save_last=True, every_n_train_steps=300)
    lightning.Trainer(max_steps=300, max_epochs=-1, callbacks=[save], logger=False, enable_progress_bar=False, accelerator="cpu").fit(Module(), torch.utils.data.DataLoader(Rows(), 2))


def with_accelerate():
    from accelerate import Accelerator

    a = Accelerator(cpu=True)
    model = net()
    model, optimizer, loader = a.prepare(model, torch.optim.AdamW(model.parameters()), torch.utils.data.DataLoader(Rows(), 2, shuffle=True))
    scheduler = a.prepare(torch.optim.lr_scheduler.StepLR(optimizer, 1))
    a.save_state(os.path.join(root, "accelerate", "checkpoint_3"))


def with_torch():
    import safetensors.torch
    import torch.distributed.checkpoint as dcp

    here = os.path.join(root, "torch")
    os.makedirs(here, exist_ok=True)
    torch.save(net().state_dict(), os.path.join(here, "step-5.pt"))
    safetensors.torch.save_file(net().state_dict(), os.path.join(here, "step-6.safetensors"))
    dcp.save({"model": net().state_dict()}, checkpoint_id=os.path.join(root, "dcp", "step-7"))


with_torch()
with_accelerate()
with_lightning()
with_transformers()
