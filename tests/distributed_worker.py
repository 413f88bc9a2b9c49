"""One of two processes that check the ops on DTensors, and models on two devices.

``distributed_worker.py BACKEND RANK FOLDER``: both processes make all checks of ``CHECKS``, in
order, and write what failed. ``test_distributed.py`` starts them and reads it.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import distributed_models
import distributed_rules
import torch
import torch.distributed as dist
from torch.distributed.tensor import DeviceMesh, init_device_mesh

WORLD = 2
CHECKS: dict[str, Callable[[DeviceMesh], None]] = {
    check.__name__: check for check in (*distributed_rules.CHECKS, *distributed_models.CHECKS)
}


def main(backend: str, rank: int, folder: Path) -> None:
    """Make all checks and write ``<rank>.json``: name -> traceback, empty where it passed."""
    torch.set_num_threads(1)
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend,
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=WORLD,
        timeout=timedelta(seconds=60),
    )
    mesh = init_device_mesh(device.type, (WORLD,))
    outcome = {}
    for name, function in CHECKS.items():
        torch.manual_seed(0)
        try:
            function(mesh)
            outcome[name] = ""
        except Exception:
            outcome[name] = traceback.format_exc()
        (folder / f"{rank}.json").write_text(json.dumps(outcome))
    dist.barrier()
    dist.destroy_process_group()
    # gloo's threads may outlive the group and end the interpreter's exit by std::terminate.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
