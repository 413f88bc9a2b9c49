"""``info``: what is installed, what it was built for, and whether it works."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import torch_smem_gemm
from torch_smem_gemm._kernels import build_info, kernel_resources, kernels
from torch_smem_gemm.cli._environment import gpus, versions
from torch_smem_gemm.cli._smoke import Check, smoke_test
from torch_smem_gemm.cli._text import plain_table, table

SUMMARY = "show versions, GPUs and kernels, and test that everything works"

PACKAGE = Path(torch_smem_gemm.__file__).parent
PTXAS_REPORT = PACKAGE / "_ptxas.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--resources",
        action="store_true",
        help="also list the registers and the shared memory of every kernel's every instance",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report; returns 1 if something is broken."""
    report = collect()
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report, resources=args.resources)
    return int(bool(report["problems"]))


def collect() -> dict[str, Any]:
    """Return everything that ``info`` reports, as JSON-compatible values."""
    version, archs, found = versions(), build_info()["archs"], gpus()
    # Without GPU code, or code for that GPU, its tests would only repeat that in many lines.
    served = [gpu["index"] for gpu in found if gpu["served_by"]]
    devices = [torch.device("cpu"), *(torch.device("cuda", index) for index in served)]
    checks = [check for device in devices for check in smoke_test(device)]
    broken = {check.device for check in checks if check.status == "broken"}
    ptxas = json.loads(PTXAS_REPORT.read_text()) if PTXAS_REPORT.exists() else []
    return {
        "versions": version,
        "archs": archs,
        "gpus": found,
        "kernels": [dataclasses.asdict(info) for info in kernels()],
        "resources": {
            f"cuda:{index}": kernel_resources(index)
            for index in served
            if f"cuda:{index}" not in broken  # a GPU that fails does not answer either
        },
        "ptxas": ptxas,
        "smoke_test": [dataclasses.asdict(check) for check in checks],
        "missing": missing(archs, found),
        "problems": problems(version, archs, found, checks),
    }


def rebuild(arch: str | None = None) -> str:
    """The command that compiles the package again, for GPUs of capability ``arch`` where given."""
    if (PACKAGE.parent / "Makefile").exists():
        return f"make extension ARCHS={arch}" if arch else "make extension"
    prefix = f"TORCH_CUDA_ARCH_LIST={arch} " if arch else ""
    return f"{prefix}pip install --no-build-isolation --force-reinstall --no-deps ."


def missing(archs: Sequence[str], found: Sequence[dict[str, Any]]) -> list[str]:
    """Which kernels a GPU could run, but the binary was not built for.

    Args:
        archs: what the binary has code for.
        found: as ``gpus()`` gives them.
    """
    texts = []
    for gpu in found:
        capability = tuple(map(int, gpu["capability"].split(".")))
        own = "sm_" + gpu["capability"].replace(".", "") + "a"
        names = [
            info.name
            for info in kernels()
            if info.capability_alone and info.capability == capability
        ]
        if gpu["served_by"] and names and own not in archs:
            texts.append(
                f"GPU {gpu['index']} ({gpu['name']}) could also run {', '.join(names)}, which are "
                f"built by `{rebuild(gpu['capability'])}`"
            )
    return texts


def problems(
    version: dict[str, str | None],
    archs: Sequence[str],
    found: Sequence[dict[str, Any]],
    checks: Sequence[Check],
) -> list[str]:
    """Return the problems found, each with its remedy.

    Args:
        version: as ``versions()`` gives them.
        archs: what the binary has code for.
        found: as ``gpus()`` gives them.
        checks: of the smoke test.
    """
    texts = []
    if found and not archs:
        texts.append(
            "torch sees a GPU, but this package was built without GPU code: "
            f"put the CUDA toolkit's nvcc on PATH and rebuild with `{rebuild()}`"
        )
    for gpu in found:
        if archs and not gpu["served_by"]:
            texts.append(
                f"the binary has code for {', '.join(archs)}, and none of it runs on GPU "
                f"{gpu['index']} ({gpu['name']}, {gpu['capability']}): rebuild with "
                f"`{rebuild(gpu['capability'])}`"
            )
    binary, driver = version["CUDA of the binary"], version["CUDA of the driver"]
    if binary and driver and int(driver.split(".")[0]) < int(binary.split(".")[0]):
        texts.append(
            f"the driver supports CUDA {driver} and the binary was built with {binary}: update the "
            f"driver, or rebuild with an nvcc of CUDA {driver.split('.')[0]} by `{rebuild()}`"
        )
    for check in checks:
        if check.status == "broken":
            texts.append(
                f"{check.op}, kernel {check.kernel}, on {check.device}: {check.detail}; rebuild "
                f"with `{rebuild()}`, and if that does not help report it with the output of "
                "`python -m torch_smem_gemm info --json`"
            )
    return texts


def show(report: dict[str, Any], *, resources: bool = False) -> None:
    """Print the report for people; ``resources``: also what each instance of a kernel takes."""
    table(
        "Versions",
        ["", ""],
        [
            *([name, value or "-"] for name, value in report["versions"].items()),
            ["GPU code", " ".join(report["archs"]) or "none: the CPU part alone was built"],
        ],
    )
    _show_gpus(report["gpus"])
    table(
        "Kernels",
        ["op", "name", "what it is", "requires"],
        [
            [info[key] for key in ("op", "name", "summary", "requires")]
            for info in report["kernels"]
        ],
    )
    if resources:
        for device, found in report["resources"].items():
            _show_resources(f"Resources on {device}", found)
        if not report["resources"]:
            _show_ptxas(report["ptxas"])
    elif report["resources"] or report["ptxas"]:
        print("Registers and shared memory of every kernel: info --resources\n")
    _show_checks(report["smoke_test"])
    for text in report["missing"]:
        print(f"{text}.\n")
    if report["problems"]:
        print("Broken:")
        for text in report["problems"]:
            print(f"- {text}")
    else:
        print("Everything works.")


def _show_gpus(found: Sequence[dict[str, Any]]) -> None:
    if not found:
        print("No GPU that torch can use: the ops run on the CPU.\n")
        return
    table(
        "GPUs",
        [">", "name", ">capability", ">SMs", ">shared KiB a block", ">a SM", "runs the code for"],
        [
            [
                str(gpu["index"]),
                gpu["name"],
                gpu["capability"],
                str(gpu["sms"]),
                f"{gpu['shared_memory_per_block'] / 1024:.0f}",
                f"{gpu['shared_memory_per_sm'] / 1024:.0f}",
                gpu["served_by"] or "nothing in this binary",
            ]
            for gpu in found
        ],
    )


def _show_resources(title: str, resources: Sequence[dict[str, Any]]) -> None:
    keys = ("op", "name", "dtype", "registers", "shared_bytes", "local_bytes", "max_threads")
    heads = ["op", "kernel", "dtype", ">registers", ">shared B", ">local B", ">max threads"]
    table(title, heads, [[str(entry[key]) for key in keys] for entry in resources])


def _show_ptxas(report: Sequence[dict[str, Any]]) -> None:
    """A line for each kernel; registers for each architecture, the most of the rest."""
    if not report:
        return
    archs = sorted({entry["arch"] for entry in report})
    kernels_: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in report:
        kernels_.setdefault(entry["kernel"], {})[entry["arch"]] = entry
    rows = [
        [
            *(str(entries[arch]["registers"]) if arch in entries else "" for arch in archs),
            str(max(entry["shared_bytes"] for entry in entries.values())),
            str(max(_spilled(entry) for entry in entries.values())),
            re.sub(r"^void |\(.*|smem::|device_build::", "", kernel),
        ]
        for kernel, entries in kernels_.items()
    ]
    registers = [f">registers {arch}" for arch in archs]
    heads = [*registers, ">shared B", ">spilled B", "kernel"]
    # Names of templates are longer than any terminal is wide, and rich would cut them.
    print(plain_table("Resources, from the build", heads, rows), end="\n\n")


def _spilled(entry: dict[str, Any]) -> int:
    return entry["spill_store_bytes"] + entry["spill_load_bytes"]


def _show_checks(checks: Sequence[dict[str, str]]) -> None:
    """A line for each op and device, and one for each kernel that the device should have run."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for check in checks:
        groups.setdefault((check["device"], check["op"]), []).append(check)
    rows = []
    for (device, op), group in groups.items():
        right = [check["kernel"] for check in group if check["status"] == "ok"]
        rows.append([device, op, f"{len(right)} right", " ".join(right)])
        rest = [check for check in group if check["status"] != "ok"]
        if device == "cpu":
            elsewhere = [check["kernel"] for check in rest if check["status"] == "n/a"]
            rest = [check for check in rest if check["status"] != "n/a"]
            if elsewhere:
                needs = f"{len(elsewhere)} need{'s' * (len(elsewhere) == 1)} a GPU"
                rows.append(["", "", needs, " ".join(elsewhere)])
        rows += [
            ["", "", check["status"], f"{check['kernel']}: {check['detail']}"] for check in rest
        ]
    table("Smoke test", ["device", "op", "result", "kernels"], rows)
