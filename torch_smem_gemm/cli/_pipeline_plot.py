"""The picture of a pipeline: a row for each stage, over the steps. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch_smem_gemm.cli._strips import BLUE, ORANGE
from torch_smem_gemm.cli._trace_text import pipeline_text
from torch_smem_gemm.pipeline_trace import STATES, Pipeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREEN, GREY = "#009E73", "#E4E4E4"
COLOURS = dict(zip(STATES, (GREY, ORANGE, BLUE, GREEN), strict=True))


def inches(pipeline: Pipeline) -> float:
    """Return the height that :func:`draw` needs."""
    return 0.3 * pipeline.stages + 1.3


def draw(axes: Axes, kernel: str, pipeline: Pipeline) -> None:
    """Draw which stage is empty, loading, full and being read at each step."""
    from matplotlib.patches import Patch

    for stage in range(pipeline.stages):
        for begin, end, state in pipeline.spans(stage):
            axes.barh(stage, end - begin, 0.85, left=begin, color=COLOURS[state])
    axes.set(
        title=f"Pipeline of {kernel}, block 0: {pipeline_text(pipeline)}",
        xlabel="step: one change of a stage",
        ylabel="stage",
        yticks=range(pipeline.stages),
        xlim=(0, len(pipeline.changes)),
    )
    axes.invert_yaxis()
    patches = [Patch(color=colour, label=state) for state, colour in COLOURS.items()]
    axes.legend(handles=patches, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
