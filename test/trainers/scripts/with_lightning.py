"""An ordinary script with Lightning: a tiny network with random weights and dropout. It knows nothing of the platform."""

import argparse
import os
import time
import warnings

import torch

try:
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint
except ImportError:  # its older package
    import pytorch_lightning as lightning
    from pytorch_lightning.callbacks import ModelCheckpoint

import diary

p = argparse.ArgumentParser()
p.add_argument("--out", default=".")
p.add_argument("--folder", default="ckpt")
p.add_argument("--save-steps", type=int, default=0)
p.add_argument("--pause", type=float, default=0.05)
p.add_argument("--epochs", type=int, default=4)
p.add_argument("--generator", action="store_true", help="the order of the data comes from a generator of its own")
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
        self.log("val_loss", self.loss(batch), sync_dist=diary.WORLD > 1)

    def on_train_batch_end(self, *_):
        step = self.trainer.global_step
        diary.write(a.out, "step", step)
        time.sleep(a.pause)

    def on_train_epoch_start(self):
        if a.save_steps and self.trainer.global_step:  # what saves was called at the end of the epoch before
            diary.write(a.out, "saved", self.trainer.global_step)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 10), "interval": "step"}]


def rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=g)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


# It saves at the ends of (then short) epochs: resumed twice in the middle of one, Lightning 2.6 makes some of its batches again, here as anywhere.
epochs, batches = (a.epochs * 24 // a.save_steps, a.save_steps) if a.save_steps else (a.epochs, 24)
save = [ModelCheckpoint(a.folder, save_top_k=1, every_n_epochs=1, save_on_train_epoch_end=True)] if a.save_steps else []
trainer = lightning.Trainer(
    max_epochs=epochs, callbacks=save, enable_checkpointing=bool(save), logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
    devices=diary.WORLD, strategy="ddp" if diary.WORLD > 1 else "auto", val_check_interval=min(10, batches),
)
model = Net()
train, test = torch.utils.data.DataLoader(rows(4 * batches * diary.WORLD, 1), 4, shuffle=True, generator=torch.Generator().manual_seed(3) if a.generator else None), torch.utils.data.DataLoader(rows(16, 2), 4)
trainer.fit(model, train, test, ckpt_path=os.environ.get("FERMI_RESUME_FROM"))
if trainer.is_global_zero:
    torch.save(model.state_dict(), os.path.join(a.out, "weights.pt"))
