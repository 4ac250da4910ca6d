"""An ordinary script with Lightning: a tiny network with random weights and dropout. It knows nothing of the platform."""

import argparse
import os
import time
import warnings

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

p = argparse.ArgumentParser()
p.add_argument("--out", required=True)
p.add_argument("--folder", default="ckpt")
p.add_argument("--save-steps", type=int, default=0)
p.add_argument("--pause", type=float, default=0.02)
p.add_argument("--epochs", type=int, default=3)
a = p.parse_args()
warnings.filterwarnings("ignore")
torch.set_num_threads(1)
lightning.seed_everything(7, verbose=False)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(32, 1))

    def loss(self, batch):
        x, y = batch
        return torch.nn.functional.mse_loss(self.net(x), y)

    def training_step(self, batch, _):
        return self.loss(batch)

    def validation_step(self, batch, _):
        self.log("val_loss", self.loss(batch))

    def on_train_batch_end(self, *_):
        with open(os.path.join(a.out, "journal"), "a") as file:
            file.write("%d\n" % self.trainer.global_step)
        time.sleep(a.pause)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 10), "interval": "step"}]


def rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=g)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


save = [ModelCheckpoint(a.folder, save_top_k=1, every_n_train_steps=a.save_steps, monitor="step", mode="max")] if a.save_steps else []
trainer = lightning.Trainer(
    max_epochs=a.epochs, callbacks=save, enable_checkpointing=bool(save), logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu", val_check_interval=10,
)
model = Net()
trainer.fit(model, torch.utils.data.DataLoader(rows(96, 1), 4, shuffle=True), torch.utils.data.DataLoader(rows(16, 2), 4), ckpt_path=os.environ.get("FERMI_RESUME_FROM"))
torch.save(model.state_dict(), os.path.join(a.out, "weights.pt"))
