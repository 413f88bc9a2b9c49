"""What g++ says of a kernel that it cannot compile, in the user's terms and at the user's line."""

from __future__ import annotations

import re

from torch_smem_gemm.raw_kernel import source
from torch_smem_gemm.raw_kernel.includes import Sources, missing_headers

_ERROR = re.compile(r"^.*: (?:fatal )?error: .*$", re.M)
# What g++ says of the line that it is given after the source, to call the kernel.
_ENTRY = re.compile(r"^(?:smem_entry|.*/smem_unit\.h):\d+:\d+: error: (?P<said>.*)$")


class CompileError(RuntimeError):
    """A kernel that g++ cannot compile: the first error, at the user's line."""


class KernelNameError(CompileError):
    """A name that stands for no kernel of the source, or for several."""


def compile_error(name: str, said: str, sources: Sources) -> CompileError:
    """Return the error for what g++ or the linker said of a kernel."""
    left_out = sources.left_out
    kind, error = _first(said, name, sources)
    errors = "\n".join([error, *_ERROR.findall(said)])
    used = (left_out[word] for word in re.findall(r"\w+", errors) if word in left_out)
    if reason := next(used, None):
        kind, error = CompileError, reason
    elif missing := missing_headers(said):
        error += f"\n(there is no header {', '.join(missing)})"
    return kind(f"smem.RawKernel: {name} does not compile: {error}")


def not_a_kernel(name: str, sources: Sources) -> KernelNameError:
    """Return the error for the name of a __device__ function, which g++ would take."""
    return KernelNameError(
        f"smem.RawKernel: {name} does not compile: it is a __device__ function, and no kernel; the "
        f"source has {', '.join(_kernels(sources)) or 'none'}"
    )


def _kernels(sources: Sources) -> list[str]:
    names = [kernel for text in sources.texts for kernel in source.kernel_names(text)]
    return list(dict.fromkeys(names))


def _first(said: str, name: str, sources: Sources) -> tuple[type[CompileError], str]:
    """Return g++'s first error with its excerpt of the source, or the linker's."""
    missing = re.search(r"undefined (?:reference|symbol)[^`']*[`'](.*?)'", said)
    if missing and re.match(rf"(?:.*\b)?{re.escape(source.base_name(name))}\b", missing[1]):
        return CompileError, f"the source declares {missing[1]} and does not define it"
    if missing:
        return CompileError, (
            f"{missing[1]} is not known on the CPU: the emulator has what docs/kernels.md lists, "
            "and no device library"
        )
    unclosed = re.search(r"^(?!smem_entry)(\S.*?:\d+:\d+): note: to match this .\{", said, re.M)
    if unclosed:
        return CompileError, f"{unclosed[1]}: error: this '{{' has no '}}'"
    lines = said.splitlines()
    for i, line in enumerate(lines):
        if of_entry := _ENTRY.match(line):
            return KernelNameError, _about_the_name(of_entry["said"], name, sources)
        if _ERROR.match(line):
            excerpt = [x for x in lines[i + 1 : i + 3] if re.match(r"\s+\d* \|", x)]
            return CompileError, "\n".join([line, *excerpt])
    return CompileError, said.strip()


def _about_the_name(said: str, name: str, sources: Sources) -> str:
    """Return what is wrong with the name of a kernel, of which g++ said something."""
    base = source.base_name(name)
    known = _kernels(sources)
    if base not in known:
        return f"the source has no kernel of this name; it has {', '.join(known) or 'none'}"
    if returned := re.search(r"smem_call\(([^()]+?) \(&\)\(", said):
        return f"it returns {returned[1]}, and a __global__ function must return void"
    if "overloaded" not in said:
        return f"the kernel's name: {said}"
    heads = (source.template_head(text, base) for text in sources.texts)
    if head := next(filter(None, heads), None):
        return f"it is a {head}: the name must have the arguments, such as {base}<float, 32>"
    return f"the source has several kernels {base}, which differ in their parameters"
