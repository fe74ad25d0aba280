"""Write the notebooks of examples/ and execute them, so that they contain their results.

python scripts/make_notebooks.py            # all
python scripts/make_notebooks.py 1          # the first
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parent.parent / "examples"

NOTEBOOKS = {
    "1-the-first-five-minutes": [
        "# The first five minutes\n\nA study asks a question. This one is built in: does a skip alone make a 20-layer "
        "network learn the identity?",
        "import gradlab\n\nresult = gradlab.run('identity', seeds=3)\nresult",
        "The answer comes first, then whether the comparison is fair, then a verdict on every claim of the write-up. "
        "The audit compares what was actually trained:",
        "result.audit",
        "Numbers are data frames: one row per trial, per curve point, per layer.",
        "result.trials()[['group', 'seed', 'initial_loss', 'final_loss']]",
        "layers = result.layers()\n"
        "layers.query(\"measure == 'delta_l2' and step == 0\").groupby(['group', 'layer']).value.median().unstack(0)",
        "Every figure is a chart that can be drawn anywhere:",
        "import matplotlib.pyplot as plt\n\nfigure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), "
        "layout='constrained')\nresult.figure('training_loss', ax=left)\nresult.figure('signal_by_layer', ax=right);",
    ],
    "2-write-your-own-study": [
        "# Write your own study\n\nA study is a question, what all arms share, and what each changes. Here: does "
        "a layer "
        "norm do what a skip does, in a plain 10-layer network?",
        "import gradlab\n\nstudy = {\n"
        "    'question': 'Does a layer norm do what a skip does?',\n"
        "    'factor': ['model.skip', 'model.norm'],\n"
        "    'base': {\n"
        "        'data': {'task': 'identity', 'dim': 32, 'samples': 512},\n"
        "        'model': {'stem': 'none', 'depth': 10, 'width': 32, 'head': 'none',\n"
        "                  'init': {'kind': 'he_normal', 'scale': '1/sqrt(depth)', 'bias': 'zeros'}},\n"
        "        'train': {'loss': 'mse', 'optimizer': 'adam', 'lr': 1e-3, 'batch': 64, 'steps': 300},\n"
        "    },\n"
        "    'axes': {'model.skip': ['none', 'identity'], 'model.norm': ['none', 'layer']},\n"
        "    'seeds': 5,\n"
        "    'measure': {'layers': ['start', 'log', 'end']},\n"
        "    'headline': {'metric': 'final_loss'},\n"
        "    'claims': [\n"
        "        {'text': 'The skip helps', 'metric': 'final_loss', 'arms': ['skip=none', 'skip=identity'],\n"
        "         'at': {'norm': 'none'}, 'op': '>'},\n"
        "        {'text': 'A norm does what a skip does', 'metric': 'final_loss',\n"
        "         'arms': ['skip=none, norm=layer', 'skip=identity, norm=none'], 'op': 'ratio', 'value': [0.8, "
        "1.25]},\n"
        "    ],\n"
        "    'figures': ['training_loss', 'loss_by_axis', 'gradient_at_start_by_layer', 'effects'],\n"
        "}\ngradlab.audit(study, seeds=1)",
        "Fair, and the audit says what the design cannot distinguish. Now run it:",
        "result = gradlab.run(study)\nresult",
        "A claim that is not settled says how many seeds would settle it:",
        "for verdict in result.verdicts:\n    display(verdict)",
    ],
    "3-look-inside-a-network": [
        "# Look inside a network\n\nWhy does the plain network of the identity study not learn? Two arms, layer "
        "by layer.",
        "import gradlab\nfrom gradlab.report.inside.diagnosis import diagnose\n"
        "from gradlab.report.inside.views import draw_view, make_views\n"
        "from gradlab.running.inside import record_inside\n\nresult = gradlab.run('identity', seeds=1)\n"
        "recording = record_inside(result.measured, ('plain', 'residual'))\n"
        "[inspection.step for inspection in recording.inspections[0]]",
        "The diagnosis in words, from the numbers:",
        "configs = {planned.group.name: planned.group.config for planned in result.measured.plan.groups}\n"
        "for found in diagnose(recording, (configs['plain'], configs['residual'])):\n    print(found.state, '|', "
        "found.words)",
        "The chain rule as a picture: the product of all Jacobians from the output back, with and without the `+ x`.",
        "by_name = {view.name: view for view in make_views(recording)}\nprint(by_name['gradient_highway'].caption)\n"
        "draw_view(by_name['gradient_highway'], recording)",
        "A weight gradient is a product; before training both of its factors die, in opposite directions, and "
        "the product "
        "hides it:",
        "start = recording.inspections[0][0]\nimport pandas as pd\n\npd.DataFrame({'delta': start.delta, 'activation': "
        "start.entering, "
        "'gradient': start.gradient}, index=range(1, 21)).rename_axis('layer')",
        "One input on its way through both networks:",
        "draw_view(by_name['one_input'], recording)",
    ],
    "4-your-own-pytorch-code": [
        "# Your own PyTorch code\n\nGradlab's instruments work on any `nn.Module` and any training loop. A "
        "network that will not "
        "train, first:",
        "import gradlab\nimport torch\nfrom torch import nn\n\n\ndef network(gain):\n    layers = []\n"
        "    for _ in range(20):\n        layer = nn.Linear(32, 32)\n"
        "        nn.init.normal_(layer.weight, std=(gain / 32) ** 0.5)\n        layers += [layer, nn.ReLU()]\n"
        "    return nn.Sequential(*layers, nn.Linear(32, 4))\n\n\ntorch.manual_seed(0)\n"
        "x, y = torch.randn(128, 32), torch.randint(0, 4, (128,))\nloss = nn.functional.cross_entropy\n\n"
        "with gradlab.probe(network(gain=0.5)) as before:\n    loss(before.model(x), y).backward()\n"
        "before.diagnose()",
        "before.figure()",
        "The diagnosis names what usually helps. Did it? Compare a probe after the fix with the one before it:",
        "with gradlab.probe(network(gain=2)) as after:  # He: variance 2/n, because a ReLU lets half of it through\n"
        "    loss(after.model(x), y).backward()\nafter.against(before)",
        "A healthy network can overfit one batch. On request this is tried on a copy:",
        "after.diagnose(overfit=(x, y), loss=loss)",
        "A watch probes a model during training; the loop does not change.",
        "model = network(gain=2)\noptimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n"
        "with gradlab.watch(model, optimizer, every=10, quiet=True) as watch:\n    for _ in range(100):\n"
        "        optimizer.zero_grad()\n        loss(model(x), y).backward()\n        optimizer.step()\n"
        "watch.figure()",
        "Now a comparison. Is it fair? Functions that build the arms are called under the same seed, and what "
        "they build is "
        "compared tensor by tensor:",
        "def made(gain):\n    model = network(gain)\n    data = torch.utils.data.TensorDataset(x, y)\n"
        "    loader = torch.utils.data.DataLoader(data, 64, shuffle=True)\n"
        "    return model, torch.optim.Adam(model.parameters(), lr=1e-3), loader, loss\n\n\n"
        "gradlab.audit({'small': lambda: made(0.5), 'he': lambda: made(2)})",
        "No: the initial weights differ, here on purpose. So declare what is compared, and run your own training "
        "function for "
        "every arm and seed. What it returns is kept, judged and reported like any study:",
        "def train(gain, seed):\n    model, optimizer, loader, loss = made(gain)\n    losses = []\n"
        "    with gradlab.watch(model, optimizer, every=20, quiet=True) as inside:\n        for _ in range(20):\n"
        "            for inputs, targets in loader:\n                value = loss(model(inputs), targets)\n"
        "                optimizer.zero_grad()\n                value.backward()\n                optimizer.step()\n"
        "                losses.append(value.item())\n"
        "    return {'loss': losses, 'final_loss': sum(losses[-4:]) / 4, 'inside': inside}\n\n\n"
        "result = gradlab.compare(train, {'small': {'gain': 0.5}, 'he': {'gain': 2}}, seeds=5)\nresult",
        "With `out='runs/mine'` every finished trial is stored at once, the same call resumes the run, and the report "
        "is a self-contained page.",
    ],
    "5-theory-beside-measurement": [
        "# Theory beside measurement\n\nBefore anything is trained, mean-field theory says how large signal and δ are "
        "in every layer. Nothing runs here but arithmetic:",
        "import gradlab\n\nexpected = gradlab.predict('identity')\nfor group in expected.groups:\n"
        "    print(group)\n    for sentence in expected.sentences(group):\n        print('   ', sentence)",
        "Every number has a band that holds 95 % of the seeds, and says what kind of statement it is:",
        "expected.frame().query(\"measure == 'delta_l2' and layer in (1, 10, 20)\")",
        "expected.figure()",
        "Now measure. Theory is about the first step, so a short run will do. Dotted: theory:",
        "result = gradlab.run('identity', seeds=10, overrides={'train.steps': 20})\nresult.figure('signal_by_layer')",
        "Measured/predicted, over all layers together, with its interval over seeds:",
        "import pandas as pd\n\nfrom gradlab.analysis.theory import agreements\n\npd.DataFrame(\n"
        "    [(one.group, one.measure, one.ratio, one.low, one.high, one.kind) "
        "for one in agreements(result.measured)],\n"
        "    columns=['group', 'measure', 'measured/predicted', 'low', 'high', 'kind'],\n).round(3)",
        "Your own PyTorch network, if it is a plain or residual MLP, has a theory as well. The variance of its weights "
        "is measured, so any init will do:",
        "import torch\nfrom torch import nn\n\ntorch.manual_seed(0)\n"
        "layers = [part for _ in range(8) for part in (nn.Linear(64, 64), nn.ReLU())]\n"
        "model = nn.Sequential(*layers, nn.Linear(64, 10))\n"
        "x, y = torch.randn(64, 64), torch.randint(0, 10, (64,))\nloss = nn.functional.cross_entropy\n\n"
        "found = gradlab.torch.predict(model, x, y, loss=loss)\nfound",
        "The probe says whether it came:",
        "with gradlab.probe(model) as probe:\n    loss(model(x), y).backward()\n"
        "found.beside(probe).query(\"measure in ('delta_l2', 'activation_std.pre')\")",
        "What theory does not cover is refused with the reason:",
        "try:\n    gradlab.torch.predict(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 10)), x)\n"
        "except gradlab.GradlabError as error:\n    print(error)",
    ],
}


def notebook(cells: list[str]) -> nbformat.NotebookNode:
    """Make a notebook; cells that start with a capital letter or a heading are text."""
    document = nbformat.v4.new_notebook()
    document.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for number, cell in enumerate(cells):
        text = cell.startswith("#") or (cell[0].isupper() and " " in cell.split("\n")[0])
        node = nbformat.v4.new_markdown_cell(cell) if text else nbformat.v4.new_code_cell(cell)
        node["id"] = f"cell-{number}"
        document.cells.append(node)
    return document


def main() -> None:
    """Write and execute the notebooks."""
    EXAMPLES.mkdir(exist_ok=True)
    for name, cells in NOTEBOOKS.items():
        if len(sys.argv) > 1 and not name.startswith(sys.argv[1]):
            continue
        document = notebook(cells)
        NotebookClient(document, timeout=600, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
        for cell in document.cells:
            cell.metadata.pop("execution", None)
        nbformat.write(document, EXAMPLES / f"{name}.ipynb")
        print(name)


if __name__ == "__main__":
    main()
