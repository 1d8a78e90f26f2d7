"""A training is killed in the middle, resumed, and ends with the same bits as one that was not interrupted."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.runs import find
from regard.training import Observer, Update, begin, resume

RECIPE = find(
    "demo",
    [
        "data.largest=999", "data.train=500", "data.valid=5", "data.test=5", "model.width=32", "model.depth=1",
        "model.dropout=0.1", "training.steps=30", "training.save=10", "training.evaluate=15", "training.batch=512",
    ],
)  # fmt: skip


class PowerCut(Observer):
    """Ends the process after update 17, as `kill -9` does: nothing can be sanitised up."""

    def stepped(self, update: Update) -> None:
        if update.step == 17:
            os.kill(os.getpid(), signal.SIGKILL)


if len(sys.argv) > 1:  # the process that will be killed
    begin(RECIPE, Path(sys.argv[1]), observers=lambda run: [PowerCut()])

with TemporaryDirectory() as folder:
    cut, untouched = Path(folder, "cut"), Path(folder, "untouched")
    done = subprocess.run([sys.executable, __file__, str(cut)])
    print("ended by signal", -done.returncode)
    print("left behind:", [path.name[:13] for path in (cut / "checkpoints").glob("step-*")])
    resume(cut)
    begin(RECIPE, untouched)
    one, other = ((run / "model.safetensors").read_bytes() for run in (cut, untouched))
    print("resumed, and the same bits:", one == other)
