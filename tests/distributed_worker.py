"""One of some processes that check the ops on DTensors, and models on several devices.

``distributed_worker.py BACKEND LAYOUT RANK FOLDER``: all processes of a layout make its checks, in
order, and write what failed. ``test_distributed.py`` starts them and reads it.
"""

import json
import math
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

Checks = dict[str, Callable[[DeviceMesh], None]]
# Sizes of the mesh's dimensions, and what is checked on it.
LAYOUTS: dict[str, tuple[dict[str, int], Checks]] = {
    layout: (sizes, {check.__name__: check for check in checks})
    for layout, sizes, checks in (
        ("line", {"data": 2}, (*distributed_rules.CHECKS, *distributed_models.CHECKS)),
        ("four", {"data": 4}, distributed_models.CHECKS),
        (
            "grid",
            {"data": 2, "model": 2},
            (*distributed_rules.GRID_CHECKS, *distributed_models.GRID_CHECKS),
        ),
    )
}


def main(backend: str, layout: str, rank: int, folder: Path) -> None:
    """Make all checks and write ``<rank>.json``: name -> traceback, empty where it passed."""
    sizes, checks = LAYOUTS[layout]
    torch.set_num_threads(1)
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend,
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=math.prod(sizes.values()),
        timeout=timedelta(minutes=4),
    )
    mesh = init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    outcome = {}
    for name, function in checks.items():
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
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
