"""Probe and watch in the real frameworks: the same bits with and without, hooks gone afterwards, the loss heard of."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_zoo import mlp

import gradlab
from gradlab.torch.diagnosis import NO_ACTIVATIONS

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def data() -> TensorDataset:
    torch.manual_seed(1)
    x = torch.randn(256, 32)
    return TensorDataset(x, (x[:, :4] @ torch.randn(4, 4)).argmax(1))


def without_hooks(model: nn.Module) -> bool:
    parameters = all(not parameter._post_accumulate_grad_hooks for parameter in model.parameters())
    return parameters and not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def check_same(train: Callable[[Any], tuple[nn.Module, Any]], steps: int) -> Any:
    """Train without and with a watch, and compare; return the watch."""
    torch.manual_seed(0)
    alone, _ = train(None)
    torch.manual_seed(0)
    watched, watch = train(True)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), watched.parameters(), strict=True))
    assert without_hooks(watched)
    assert watch.step == steps
    assert len(watch.moments) == len(range(0, steps, watch.every))
    assert len(watch.curves()["loss"]) == steps
    assert not watch.skipped
    assert watch.moments[0].probe.parameters().update_ratio.notna().any()
    assert watch.diagnose().healthy, watch.diagnose()
    return watch


# ---------------------------------------------------------------------- Lightning


def lightning_module() -> Any:
    lightning = pytest.importorskip("lightning.pytorch")

    class Net(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(3)

        def training_step(self, batch: Any, index: int) -> Any:
            return nn.functional.cross_entropy(self.body(batch[0]), batch[1])

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("val_loss", nn.functional.cross_entropy(self.body(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 1e-3)

    return Net()


def lightning_trainer(folder: Path, **options: Any) -> Any:
    lightning = pytest.importorskip("lightning.pytorch")
    return lightning.Trainer(
        **{
            "max_epochs": 2,
            "accelerator": "cpu",
            "logger": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": False,
            "default_root_dir": folder,
            **options,
        }
    )


def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning.pytorch")

    def train(watched: Any) -> tuple[nn.Module, Any]:
        module = lightning_module()
        callback = gradlab.lightning.Watch(every=3, quiet=True)
        trainer = lightning_trainer(tmp_path, callbacks=[callback] if watched else [])
        trainer.fit(module, DataLoader(data(), 64), DataLoader(data(), 64))
        return module, callback.watch

    watch = check_same(train, 8)
    assert len(watch.curves()["val_loss"]) == 2


def test_lightning_resumes_with_its_offset(tmp_path: Path) -> None:
    pytest.importorskip("lightning.pytorch")
    module, path = lightning_module(), tmp_path / "last.ckpt"
    trainer = lightning_trainer(tmp_path)
    trainer.fit(module, DataLoader(data(), 64))
    trainer.save_checkpoint(path)
    callback = gradlab.lightning.Watch(every=1, quiet=True)
    trainer = lightning_trainer(tmp_path, callbacks=[callback], max_epochs=3)
    trainer.fit(lightning_module(), DataLoader(data(), 64), ckpt_path=path, weights_only=False)
    assert [moment.step for moment in callback.watch.moments] == [8, 9, 10, 11]


def test_lightning_with_a_scaler(tmp_path: Path) -> None:
    pytest.importorskip("lightning.pytorch")
    from lightning.pytorch.plugins import MixedPrecision

    def train(watched: Any) -> tuple[nn.Module, Any]:
        module = lightning_module()
        callback = gradlab.lightning.Watch(every=2, quiet=True)
        plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=1024.0))
        trainer = lightning_trainer(tmp_path, callbacks=[callback] if watched else [], plugins=[plugin])
        trainer.fit(module, DataLoader(data(), 64))
        return module, callback.watch

    watch = check_same(train, 8)
    assert watch.curves()["loss"][0] == pytest.approx(1.39, abs=0.2), "unscaled"


# ---------------------------------------------------------------------- transformers, accelerate


def small_gpt() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=16, resid_pdrop=0.1, attn_pdrop=0.0, embd_pdrop=0.0
    )
    return transformers.GPT2LMHeadModel(config)


def test_hugging_face_trainer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    rows = [{"input_ids": (torch.arange(16) + k) % 50, "labels": (torch.arange(16) + k) % 50} for k in range(64)]

    def train(watched: Any) -> tuple[nn.Module, Any]:
        model = small_gpt()
        callback = gradlab.transformers.Watch(every=3, quiet=True)
        args = transformers.TrainingArguments(
            output_dir=str(tmp_path),
            per_device_train_batch_size=8,
            max_steps=8,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            learning_rate=1e-3,
            lr_scheduler_type="constant",
            logging_steps=2,
        )
        trainer = transformers.Trainer(model, args, train_dataset=rows, callbacks=[callback] if watched else [])
        trainer.train()
        return model, callback.watch

    watch = check_same(train, 8)
    assert "learning_rate" in watch.curves()


@pytest.mark.parametrize("scaled", [False, True])
def test_accelerate(scaled: bool) -> None:
    accelerate = pytest.importorskip("accelerate")

    def train(watched: Any) -> tuple[nn.Module, Any]:
        accelerator = accelerate.Accelerator(cpu=True)
        model = mlp(3)
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        if scaled:
            accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data(), 64))
        watch = gradlab.watch(model, optimizer, every=2, quiet=True) if watched else None
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
        if watch is not None:
            watch.close()
        return model, watch

    watch = check_same(train, 4)
    assert watch.curves()["loss"][0] == pytest.approx(1.39, abs=0.2), "unscaled"


# ---------------------------------------------------------------------- skorch, fastai, Keras


def test_skorch() -> None:
    skorch = pytest.importorskip("skorch")
    whole = data()
    x, y = whole.tensors[0].numpy(), whole.tensors[1].numpy()

    def train(watched: Any) -> tuple[nn.Module, Any]:
        from gradlab.skorch import Watch

        callback = Watch(every=3, quiet=True)
        net = skorch.NeuralNetClassifier(
            mlp(3),
            criterion=nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam,
            lr=1e-3,
            max_epochs=2,
            batch_size=64,
            train_split=None,
            verbose=0,
            callbacks=[("watch", callback)] if watched else [],
        )
        net.fit(x, y)
        used = dict(net.callbacks_)["watch"].watch if watched else None
        return net.module_, used

    check_same(train, 8)


def test_fastai() -> None:
    pytest.importorskip("fastai.learner")
    import fastai.callback.progress  # noqa: F401 - adds no_bar to Learner
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner

    def train(watched: Any) -> tuple[nn.Module, Any]:
        model = mlp(3)
        from gradlab.fastai import Watch

        callback = Watch(every=3, quiet=True)
        loaders = DataLoaders(DataLoader(data(), 64), DataLoader(data(), 64))
        learner = Learner(loaders, model, loss_func=nn.CrossEntropyLoss(), cbs=[callback] if watched else [], lr=1e-3)
        with learner.no_bar(), learner.no_logging():
            learner.fit(2)
        return model, callback.watch

    check_same(train, 8)


def test_fastai_optimizer_without_its_callback() -> None:
    pytest.importorskip("fastai.optimizer")
    from fastai.optimizer import Adam

    model, whole = mlp(3), data()
    optimizer = Adam(model.parameters(), lr=1e-3)
    with gradlab.watch(model, optimizer, every=2, quiet=True) as watch:
        for index in range(6):
            x, y = whole[32 * index : 32 * (index + 1)]
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert watch.step == 6
    assert [moment.step for moment in watch.moments][:2] == [0, 2]
    assert without_hooks(model)


def test_keras_on_torch() -> None:
    os.environ["KERAS_BACKEND"] = "torch"
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "torch":
        pytest.skip("Keras was imported with another backend")
    model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(4)])
    x, y = data()[:64]
    model(x)
    with gradlab.probe(model) as p:
        nn.functional.cross_entropy(model(x), y).backward()
    found = p.diagnose()
    assert found.healthy
    assert NO_ACTIVATIONS in found.notes
    assert p.parameters().grad_l2.notna().all()
    assert p.loss is not None
