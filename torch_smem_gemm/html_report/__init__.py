"""A trace as HTML: a page of its own, and a short table for notebooks.

The page is one file that loads nothing. Jinja2, which torch requires, fills the templates and
escapes all text of sources, kernels and tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_smem_gemm._version import __version__
from torch_smem_gemm.analysis import device as find_device
from torch_smem_gemm.cli._explain_kernel import judge, largest_launch, sms_at_work
from torch_smem_gemm.cli._explain_text import TRAFFIC_TEXTS, bytes_text
from torch_smem_gemm.cli._trace_text import pipeline_text, shared_by
from torch_smem_gemm.html_report._listing import COLUMNS, accesses_of, listing, look_first
from torch_smem_gemm.html_report._roofline import HEIGHT, MARKS, WIDTH, roofline_picture
from torch_smem_gemm.pipeline_trace import STATES
from torch_smem_gemm.trace_report import LOADS, SECTOR, STORES, Trace

if TYPE_CHECKING:
    from jinja2 import Environment


def page(trace: Trace, device: str = "H200") -> str:
    """Return the page of a trace: faults, totals, ceilings on ``device``, the source by line.

    Raises ValueError for an unknown device.
    """
    gpu = find_device(device)
    explained = judge(trace, gpu) if trace.launches else None
    ceilings = explained if explained and explained.peak_tflops else None
    files = listing(trace)
    return _render(
        "trace.html.j2",
        trace=trace,
        totals=totals(trace),
        files=files,
        look_first=look_first(files),
        explained=explained,
        has_ceilings=ceilings is not None,
        largest=largest_launch(trace) if trace.launches else None,
        sms_at_work=sms_at_work,
        traffic_texts=TRAFFIC_TEXTS,
        roofline=roofline_picture(ceilings) if ceilings and trace.flop else None,
        roof_width=WIDTH,
        roof_height=HEIGHT,
        marks=MARKS,
        states=STATES,
        pipeline_text=pipeline_text,
        version=__version__,
    )


def summary(trace: Trace) -> str:
    """Return the totals, faults and lines of a trace, for a notebook."""
    return _render(
        "summary.html.j2",
        trace=trace,
        totals=totals(trace),
        accesses=accesses_of(listing(trace)),
    )


def totals(trace: Trace) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of each total that a kernel of this kind has."""
    rows = []
    if trace.flop:
        rows += [
            (
                "Arithmetic",
                f"{trace.flop:,} FLOP",
                "Floating-point operations; a fused multiply-add counts as two.",
            ),
            (
                "Intensity",
                f"{trace.intensity:.4g} FLOP/B",
                "Arithmetic per byte that is loaded from or stored to global memory.",
            ),
        ]
    if trace.sector_bytes:
        used = trace.count("distinct_bytes", memory="global") / trace.sector_bytes
        loaded, stored = (_by_tensor(trace, actions) for actions in (LOADS, STORES))
        rows += [
            (
                "Global memory, loaded",
                bytes_text(trace.global_bytes_loaded) + loaded,
                "Bytes that threads and TMA load, from DRAM or from a cache.",
            ),
            (
                "Global memory, stored",
                bytes_text(trace.global_bytes_stored) + stored,
                "Bytes that threads and TMA store.",
            ),
            (
                "Sectors",
                f"{bytes_text(trace.sector_bytes)}, {used:.1%} used",
                f"Global memory moves whole sectors of {SECTOR} bytes. A warp that needs only a "
                "part of a sector wastes the rest.",
            ),
        ]
    if trace.wavefronts:
        rows += [
            (
                "Shared memory, loaded",
                bytes_text(trace.shared_bytes_loaded),
                "Bytes that threads, TMA and wgmma load from shared memory.",
            ),
            (
                "Shared memory, stored",
                bytes_text(trace.shared_bytes_stored),
                "Bytes that threads store there, and those of cp.async and TMA.",
            ),
            (
                "Wavefronts",
                f"{trace.wavefronts:,}",
                "Passes through the 32 banks of shared memory. In one pass each bank serves one "
                "word of 4 bytes, to any number of lanes.",
            ),
            (
                "Bank conflicts",
                f"{trace.conflicts:,} ({trace.conflicts / trace.wavefronts:.1%} of the wavefronts)",
                "Passes beyond the least for the access width: lanes access different words of "
                "one bank.",
            ),
        ]
        rows += [
            (f"Shared memory, by {who}", what, "Bytes, and passes through the banks.")
            for who, what in shared_by(trace)
        ]
    if trace.tensor_flop:
        rows.append(
            (
                "Tensor cores",
                f"{trace.tensor_flop:,} FLOP, {_count(trace.tensor_cycles)} SM cycles",
                "Cycles at Hopper's full rate: 4,096 FLOP per SM and cycle with 16-bit numbers, "
                "half of it in tf32.",
            )
        )
    barriers = "Times that the threads of a block wait for each other."
    return [*rows, ("Barriers per block", f"{trace.barriers:g}", barriers)]


def _by_tensor(trace: Trace, actions: tuple[str, ...]) -> str:
    """Return how often each byte of the tensors is loaded or stored, on average."""
    moved = {name: trace.count("bytes", actions=actions, memory=name) for name in _sizes(trace)}
    times = [
        f"{name} {moved[name] / size:.4g} ×" for name, size in _sizes(trace).items() if moved[name]
    ]
    return f" ({', '.join(times)})" if times else ""


def _sizes(trace: Trace) -> Mapping[str, int]:
    return {name: size for name, size in trace.tensor_bytes.items() if size}


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": bytes_text,
        "count": _count,
        "product": lambda sizes: " × ".join(f"{n:,}" for n in sizes),
    }
    return environment


def _count(value: float) -> str:
    """Return a number with separators of thousands, a fraction with four digits."""
    return f"{value:,.0f}" if isinstance(value, int) or value >= 1000 else f"{value:.4g}"


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values, columns=COLUMNS)
