"""A source with the user's headers, all of which are read as the source itself is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch_smem_gemm.raw_kernel import source
from torch_smem_gemm.raw_kernel.text import line_of, mask

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)([<"])([^<>"\n]+)[>"]', re.M)

# How g++ is told to say that there is no such header; see missing_headers.
_MISSING = "torch_smem_gemm: no header "


# What these of CUDA's own headers declare is known without them, or belongs to the host.
_KNOWN_ALREADY = re.compile(
    r"cuda\.h|cuda_runtime_api\.h|device_(?:launch_parameters|functions|types)\.h|driver_types\.h"
    r"|vector_functions\.h(?:pp)?|host_(?:defines|config)\.h|builtin_types\.h|math_functions\.h"
    r"|(?:device_)?atomic_functions\.h|sm_\d+_\w+\.h|cuda_profiler_api\.h|cuda_device_runtime_api\.h"
    r"|channel_descriptor\.h|texture_(?:types|fetch_functions)\.h|thrust/.*|nvtx3?/.*"
)
_OF_TORCH = re.compile(r"(?:torch|ATen|c10)/.*")
_OF_CUB = re.compile(r"cub/.*")


def if_it_exists(directive: str, line: int) -> str:
    """Return the directive for a header that may be only on the host of a GPU.

    Such as cublas_v2.h: kernels seldom need it, and if one does, g++'s error names what it misses.
    """
    header = directive.split("include", 1)[1].strip()
    shown = header.strip('<>"')
    if _KNOWN_ALREADY.fullmatch(shown):
        return ""
    if _OF_TORCH.fullmatch(shown):  # they would take 20 s to compile
        return '#include "smem_torch.h"'
    if _OF_CUB.fullmatch(shown):
        return '#include "cub/cub.cuh"'
    return (
        f'#if __has_include({header})\n{directive}\n#else\n#pragma message "{_MISSING}{shown}"\n'
        f"#endif\n#line {line + 1}"
    )


@dataclass
class Sources:
    """The files of a kernel, as a compiler reads them; headers from ``folder``."""

    kernel: str  # which of the kernels is wanted
    folder: Path
    search: Sequence[Path]
    errors: Mapping[tuple[str, int], str]  # what the compiler said of files' lines
    translate: Callable[..., source.Source] = source.for_cpu
    # The directive that includes what is no header of the user's, and its line: what it becomes.
    other_header: Callable[[str, int], str] = if_it_exists
    files: dict[Path, str] = field(default_factory=dict)  # the user's headers, as they are
    left_out: dict[str, str] = field(default_factory=dict)  # see source.Source
    texts: list[str] = field(default_factory=list)  # the source and the user's headers

    def add(self, code: str, path: str) -> str:
        """Return a file's text for the compiler, after writing the headers that it includes."""
        here = [Path(path).parent] if Path(path).is_absolute() else []

        def replaced(match: re.Match[str]) -> str:
            before, bracket, name = match.groups()
            if masked[match.end(1) - len(before.lstrip())] != "#":
                return match[0]  # in a comment
            found = self._find(name, [*(here if bracket == '"' else []), *self.search])
            if found:
                return f'{before}"{self._copy(found)}"'
            return self.other_header(match[0], line_of(code, match.start()))

        self.texts.append(code)
        masked = mask(code)
        errors = {line: said for (file, line), said in self.errors.items() if file == path}
        translated = self.translate(code, Path(path).name, self.kernel, errors, self.left_out)
        for name, reason in translated.left_out.items():
            self.left_out.setdefault(name, reason)
        shown = json.dumps(path, ensure_ascii=False)
        return f"#line 1 {shown}\n{_INCLUDE.sub(replaced, translated.text)}\n"

    def _find(self, name: str, folders: Sequence[Path]) -> Path | None:
        paths = (folder / name for folder in folders)
        return next((path.resolve() for path in paths if path.is_file()), None)

    def _copy(self, path: Path) -> Path:
        known = path in self.files
        number = list(self.files).index(path) if known else len(self.files)
        copy = self.folder / f"{number}_{path.name}"
        if not known:
            self.files[path] = path.read_text(encoding="utf-8-sig", errors="replace")
            copy.write_text(self.add(self.files[path], str(path)), encoding="utf-8")
        return copy


def errors_by_line(said: str) -> dict[tuple[str, int], str]:
    """Return g++'s errors by file and line."""
    found = re.finditer(r"^([^\n:]+):(\d+):.* error: .*$", said, re.M)
    return {(match[1], int(match[2])): match[0] for match in found}


def missing_headers(said: str) -> list[str]:
    """Return the headers that g++ has not found."""
    return sorted(set(re.findall(rf"{_MISSING}([^\s’'\"]+)", said)))
