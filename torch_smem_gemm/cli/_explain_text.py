"""The output of ``explain`` for one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from torch_smem_gemm.cli._explain_kernel import (
    Explained,
    Residency,
    largest_launch,
    sms_at_work,
)
from torch_smem_gemm.cli._text import rate_text, table
from torch_smem_gemm.cli._trace_text import (
    faults_text,
    launch_text,
    lines_table,
    lines_title,
    pipeline_text,
    shared_by,
)
from torch_smem_gemm.trace_report import LOADS, STORES, Trace

# The time of the shortest kernel of bench/results/h200.json in a CUDA graph, on an H200.
LAUNCH_US = 1.6


def show(explained: Explained, title: str) -> None:
    """Print everything about one kernel."""
    trace = explained.trace
    print(f"{title}, kernel {trace.kernel}")
    for launch in trace.launches:
        print(launch_text(launch))
    print()
    for number, launch in enumerate(trace.launches, 1):
        title = lines_title(trace, number)
        if launch.lines:
            table(title, *lines_table(launch, trace))
        else:
            print(f"{title}: none accesses memory\n")
    print(
        "B: bytes a lane. sectors (32 bytes, global) and wavefronts (passes through the banks, "
        "shared): of a warp's request.\nmerged: wavefronts if the compiler makes one 16-byte load "
        "of several. n-way: words of one bank at once, at worst.\n"
    )
    if trace.count("requests", actions=["mbarrier_wait"]):
        print("ready: waits at an mbarrier that found the phase complete already.\n")
    if trace.tensor_flop:
        print("cycles: of the SM's four tensor cores together, at Hopper's full rate.\n")
    if trace.count("requests", actions=["copy_to"]):
        print(
            "copy_to (cp.async): the passes of reading the L1 cache and of writing shared memory "
            "together;\nits conflicts may be those of either.\n"
        )
    _show_totals(trace)
    _show_residency(explained)
    if explained.peak_tflops is None:
        print(f"Without ceilings: {explained.device.name} cannot run the kernel's instructions.\n")
    elif not any(launch.sample for launch in trace.launches):
        _show_ceilings(explained)
    print(faults_text(trace))


# ---------------------------------------------------------------------------------------- totals


def _show_totals(trace: Trace) -> None:
    conflicts = f"{trace.conflicts:,} by bank conflicts"
    merged = trace.count("merged_wavefronts", memory="shared")
    if merged != trace.wavefronts:
        conflicts += f"; {merged:,} if loads are merged"
    asked = trace.count("distinct_bytes", memory="global")
    used = f", {asked / trace.sector_bytes:.1%} of it used" if trace.sector_bytes else ""
    fused = sum(launch.fma for launch in trace.launches)
    special = sum(launch.special for launch in trace.launches)
    rows = [
        ["global memory, loaded", _moved(trace, LOADS)],
        ["global memory, stored", _moved(trace, STORES)],
        ["32-byte sectors touched", f"{bytes_text(trace.sector_bytes)}{used}"],
        ["shared memory, loaded", bytes_text(trace.shared_bytes_loaded)],
        ["shared memory, stored", bytes_text(trace.shared_bytes_stored)],
        ["wavefronts", f"{trace.wavefronts:,}, of them {conflicts}"],
        *([f"shared memory, by {who}", what] for who, what in shared_by(trace)),
        ["barriers a block", f"{trace.barriers:g}"],
        *(
            ["pipeline", f"{launch.kernel}: {pipeline_text(launch.pipeline)}"]
            for launch in trace.launches
            if launch.pipeline
        ),
    ]
    if trace.flop:
        rows += [
            ["FLOP", f"{trace.flop:,}, {fused:,} multiply-adds count twice{_useful(trace)}"],
            ["intensity", f"{trace.intensity:.4g} FLOP a byte that is loaded or stored"],
        ]
    if special:
        rows.append(["exp, erf, tanh", f"{special:,}, not among the FLOP"])
    table("Totals", ["", ""], rows)


def _useful(trace: Trace) -> str:
    """What a GEMM needs of the FLOP; others are made with zeros beyond the edges, or add sums."""
    if trace.op != "gemm" or trace.sources:
        return ""
    (m, k), (_, n) = trace.shapes["0"], trace.shapes["1"]
    return f"; 2 M N K is {2 * m * n * k / trace.flop:.1%} of it"


def _moved(trace: Trace, actions: Sequence[str]) -> str:
    """The bytes, and how often that is each tensor."""
    times = [
        f"{trace.count('bytes', actions=actions, memory=name) / size:.4g} x {name}"
        for name, size in trace.tensor_bytes.items()
        if size and trace.count("bytes", actions=actions, memory=name)
    ]
    total = trace.count("bytes", actions=actions, memory="global")
    return f"{bytes_text(total)} ({', '.join(times)})" if times else bytes_text(total)


def bytes_text(size: float) -> str:
    """A size in decimal units: "4.19 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.4g} {unit}"
        size /= 1000
    raise AssertionError


# ------------------------------------------------------------------------------------- occupancy


def _show_residency(explained: Explained) -> None:
    fit, device = explained.residency, explained.device
    table(f"Occupancy on {device.name}", ["", ""], [*_code_rows(fit), *_fit_rows(explained)])


def _code_rows(fit: Residency) -> list[list[str]]:
    """What ptxas said, and what the launch asks for."""
    built = fit.resources
    shared = f"{fit.static_shared_bytes:,} B static, {fit.dynamic_shared_bytes:,} B dynamic"
    opt_in = "needs no opt-in (48 KiB or less), carveout left to the driver"
    if fit.opts_in:
        opt_in = f"opts in to more than 48 KiB, prefers a carveout of {fit.carveout}%"
    rows = [["registers a thread", f"not known: {fit.unknown}"]]
    if built:
        spills = f"{built.spill_store_bytes:,} B stored, {built.spill_load_bytes:,} B loaded"
        spilled = built.spill_store_bytes or built.spill_load_bytes
        rows = [
            ["registers a thread", f"{built.registers}, by ptxas for {built.arch}"],
            ["spills", f"{spills}, stack {built.stack_bytes:,} B" if spilled else "none"],
        ]
    return [*rows, ["shared memory a block", shared], ["dynamic shared memory", opt_in]]


def _fit_rows(explained: Explained) -> list[list[str]]:
    fit, held = explained.residency, explained.residency.occupancy
    if held is None:
        return [["blocks an SM", f"none: {fit.refusal}"]]
    launch, device = largest_launch(explained.trace), explained.device
    limits = ", ".join(f"{name} {blocks}" for name, blocks in held.limits.items())
    without = "" if fit.resources else " (registers left out)"
    rows = [
        [
            "blocks an SM",
            f"{held.blocks}, limited by {' and '.join(held.limit)}{without}; "
            f"each would allow: {limits}",
        ],
        ["occupancy", f"{held.percent:.0f}%: {held.warps} warps, {held.threads:,} threads an SM"],
    ]
    if fit.waves is not None:
        rows.append(["waves", f"{fit.waves:.3g}: {launch.blocks:,} blocks for {device.sms} SMs"])
    return rows


# -------------------------------------------------------------------------------------- ceilings

TRAFFIC_TEXTS = {
    "threads": "if no cache helps",
    "sectors": "what the L1 cache is asked for",
    "each tensor once": "if caches keep everything",
}


def _show_ceilings(explained: Explained) -> None:
    device = explained.device
    if explained.trace.flop and explained.trace.op == "gemm":
        _show_roofline(explained)
    elif explained.traffic["each tensor once"]:
        _show_bandwidth(explained)
    rows = [
        [name, f"{seconds * 1e6:.4g}", _least_text(explained, name)]
        for name, seconds in explained.least_seconds.items()
        if seconds
    ]
    launches = len(explained.trace.launches)
    launching = LAUNCH_US * launches
    kernels = f"{launches} kernels" if launches > 1 else "a kernel"
    rows.append(["launch", f"{launching:.4g}", f"{kernels}, {LAUNCH_US} us each, as on an H200"])
    blocks = largest_launch(explained.trace).blocks
    busy = "all" if blocks >= device.sms else f"{blocks} of {device.sms}"
    table(f"Least times on {device.name}, {busy} SMs at work", ["", ">us", "for"], rows)
    longest, least = explained.bottleneck, 1e6 * explained.least_seconds[explained.bottleneck]
    if least < launching:
        print(f"Bottleneck: the launch, {launching:.4g} us: the problem is too small.\n")
    else:
        print(f"Bottleneck: {longest}, {least:.4g} us.\n")


def _show_roofline(explained: Explained) -> None:
    device = explained.device
    rows = [
        [
            name,
            bytes_text(explained.traffic[name]),
            f"{line.intensity:.4g}",
            rate_text(line.gflops),
            f"{line.fraction:.1%}",
            line.bound,
            TRAFFIC_TEXTS[name],
        ]
        for name, line in explained.rooflines.items()
    ]
    ridge = explained.rooflines["threads"].ridge
    table(
        f"Roofline of {device.name}: {device.bandwidth_gbs:,.0f} GB/s, "
        f"{explained.peak_tflops:.4g} TFLOP/s, ridge at {ridge:.3g} FLOP/B",
        ["traffic", ">bytes", ">FLOP/B", ">GFLOP/s at most", ">of peak", "bound by", "holds"],
        rows,
    )


def _show_bandwidth(explained: Explained) -> None:
    """For an op that is all memory: how much of the bandwidth the traffic leaves for its work."""
    device, work = explained.device, explained.traffic["each tensor once"]
    rows = [
        [
            name,
            bytes_text(moved),
            f"{moved / work:.4g}",
            rate_text(device.bandwidth_gbs * work / moved),
            f"{work / moved:.1%}",
            TRAFFIC_TEXTS[name],
        ]
        for name, moved in explained.traffic.items()
        if moved
    ]
    table(
        f"Bandwidth of {device.name}: {device.bandwidth_gbs:,.0f} GB/s",
        ["traffic", ">bytes", ">x least", ">useful GB/s at most", ">of bandwidth", "holds"],
        rows,
    )


def _least_text(explained: Explained, name: str) -> str:
    trace, device = explained.trace, explained.device
    whole = ""
    if sms_at_work(largest_launch(trace), device) < 1:
        whole = " if all SMs were at work"
    if name == "arithmetic":
        flop = trace.flop - trace.tensor_flop
        return f"{flop:,} FLOP, at {device.tflops(trace.dtype):g} TFLOP/s{whole}"
    if name == "tensor cores":
        return (
            f"{trace.tensor_flop:,} FLOP, at {explained.peak_tflops:.4g} TFLOP/s{whole}: "
            f"{trace.tensor_cycles:,.0f} SM cycles at Hopper's full rate"
        )
    if name == "DRAM":
        once = bytes_text(explained.traffic["each tensor once"])
        return f"{once}, each tensor once, at {device.bandwidth_gbs:,.0f} GB/s"
    passes = trace.count("merged_wavefronts", memory="shared")
    merged = ", loads merged" if passes != trace.wavefronts else ""
    return f"{passes:,} wavefronts of 128 B{merged}, at {device.shared_gbs:,.0f} GB/s{whole}"
