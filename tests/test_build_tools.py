"""build_tools: which chips a source is compiled for."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
if not (ROOT / "build_tools").exists():
    pytest.skip("build_tools/ is not installed", allow_module_level=True)

from build_tools import ptxas  # noqa: E402

OLD = "-gencode=arch=compute_80,code=[sm_80,compute_80]"
HOPPER = "-gencode=arch=compute_90a,code=[sm_90a]"
INSTANCE = "/a checkout/csrc/gemm/hopper/instances/tile_64x64.cu"


def test_hopper_kernels_are_compiled_for_hopper_alone() -> None:
    before = ["nvcc", "-O3", OLD, "-c", INSTANCE, HOPPER, "-o", "x.o"]
    assert ptxas.for_its_chips(before) == ["nvcc", "-O3", "-c", INSTANCE, HOPPER, "-o", "x.o"]


def test_where_hopper_is_not_built_for_they_are_compiled_for_what_is() -> None:
    command = ["nvcc", OLD, "-c", INSTANCE]
    assert ptxas.for_its_chips(command) == command


def test_other_sources_are_compiled_for_all() -> None:
    command = ["nvcc", OLD, HOPPER, "-c", "/a checkout/csrc/sum/rows.cu"]
    assert ptxas.for_its_chips(command) == command


def test_those_sources_exist_and_cannot_be_launched_on_other_chips() -> None:
    csrc = ROOT / "csrc"
    for part in ptxas.HOPPER_SOURCES:
        found = [path for path in csrc.rglob("*.cu") if part in path.as_posix()]
        assert found, part
    for kernel in ("gemm/hopper/kernel.h", *ptxas.HOPPER_SOURCES[1:]):
        bound = r"__launch_bounds__\(launch_bound\(TARGET_HAS_SM90A, "
        assert re.search(bound, (csrc / kernel).read_text()), kernel
