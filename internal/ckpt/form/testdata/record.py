"""Records what the libraries write, for the tests of this package: python3 record.py FOLDER [NAME…]. Each needs its libraries: torch (with
safetensors), accelerate, lightning, transformers, tensorflow (with Keras), orbax (with jax), paddle. Tiny models with random weights. Those of DeepSpeed and
Megatron-LM are made by hand in the tests: the one wants a compiler, the other a card."""

import os
import sys
import warnings

warnings.filterwarnings("ignore")
root = sys.argv[1] if len(sys.argv) > 1 else ""


def net():
    import torch

    return torch.nn.Linear(3, 2)


def rows():
    import torch

    return [{"x": torch.full((3,), float(i)), "labels": torch.tensor(i % 2)} for i in range(8)]


def with_transformers():
    import torch
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
    Trainer(Model(Config()), args, train_dataset=rows()).train()


def with_lightning():
    import lightning
    import torch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self.net(batch["x"]), batch["labels"])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    save = lightning.pytorch.callbacks.ModelCheckpoint(os.path.join(root, "lightning"), save_last=True, every_n_train_steps=300)
    lightning.Trainer(max_steps=300, max_epochs=-1, callbacks=[save], logger=False, enable_progress_bar=False, accelerator="cpu").fit(Module(), torch.utils.data.DataLoader(rows(), 2))


def with_accelerate():
    import torch
    from accelerate import Accelerator

    a = Accelerator(cpu=True)
    model = net()
    model, optimizer, loader = a.prepare(model, torch.optim.AdamW(model.parameters()), torch.utils.data.DataLoader(rows(), 2, shuffle=True))
    scheduler = a.prepare(torch.optim.lr_scheduler.StepLR(optimizer, 1))
    a.save_state(os.path.join(root, "accelerate", "checkpoint_3"))


def with_torch():
    import safetensors.torch
    import torch
    import torch.distributed.checkpoint as dcp

    here = os.path.join(root, "torch")
    os.makedirs(here, exist_ok=True)
    torch.save(net().state_dict(), os.path.join(here, "step-5.pt"))
    safetensors.torch.save_file(net().state_dict(), os.path.join(here, "step-6.safetensors"))
    dcp.save({"model": net().state_dict()}, checkpoint_id=os.path.join(root, "dcp", "step-7"))


def with_tensorflow():
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    model.compile("adam", "mse")
    model.fit(tf.ones((4, 3)), tf.ones((4, 2)), verbose=0)
    here = os.path.join(root, "keras")
    os.makedirs(here, exist_ok=True)
    model.save(os.path.join(here, "m-4.keras"))
    model.save(os.path.join(here, "m-4.h5"))
    model.save_weights(os.path.join(here, "m-4.weights.h5"))
    here = os.path.join(root, "tensorflow")
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model, optimizer=model.optimizer), here, max_to_keep=2)
    for step in (2, 3):
        manager.save(step)
    model.export(os.path.join(here, "saved-5"), verbose=False)


def with_orbax():
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager(os.path.abspath(os.path.join(root, "orbax"))) as manager:
        manager.save(40, args=ocp.args.StandardSave({"w": jnp.ones((3, 2)), "step": 40}))
        manager.wait_until_finished()


def with_paddle():
    import paddle

    model = paddle.nn.Linear(3, 2)
    optimizer = paddle.optimizer.Adam(parameters=model.parameters())
    model(paddle.ones([2, 3])).mean().backward()
    optimizer.step()
    here = os.path.join(root, "paddle")
    paddle.save(model.state_dict(), os.path.join(here, "model_10.pdparams"))
    paddle.save(optimizer.state_dict(), os.path.join(here, "model_10.pdopt"))


if __name__ == "__main__":  # some of them start processes that read this file again
    os.makedirs(root, exist_ok=True)
    for name in sys.argv[2:] or ["torch", "accelerate", "lightning", "transformers"]:
        if name in ("torch", "accelerate", "lightning", "transformers"):
            import torch

            torch.manual_seed(0)
        globals()["with_" + name]()
