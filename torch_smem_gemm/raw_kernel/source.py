"""The text of a .cu file as g++ or NVRTC can read it, line by line as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch_smem_gemm.raw_kernel import ptx, text, unsupported

_UNROLL = re.compile(
    r"^([ \t]*)#[ \t]*pragma[ \t]+unroll\b[ \t]*(?:\(?[ \t]*([\w ]*?)[ \t]*\)?)[ \t]*$", re.M
)
# libcu++ copies these from the C++ library.
_CUDA_STD = re.compile(r"^([ \t]*#[ \t]*include[ \t]*<)cuda/std/(?=\w+>)", re.M)
# The C++ library says __attribute__((__noinline__)), which a macro of the name would break.
_NOINLINE = re.compile(r"(?<!\()(?<!\( )\b__noinline__\b")
# In C++ alignas comes before thread_local, which stands for __shared__.
_ALIGNED = re.compile(
    r"((?:\b(?:extern|static)\s+)?\b__shared__\s+)(alignas\s*\((?:[^()]|\([^()]*\))*\))"
)
_BRACE = re.compile(r"(?:\bnamespace\s+(?P<namespace>\w[\w:]*)\s*)?\{|\}")
# A declaration that has none of these words is the host's, if it does not compile; but without a
# specialisation that defines types or constants the kernel would be another.
_DEVICE_CODE = re.compile(r"\b__(?:global|device|constant|shared|managed)__\b")
_SPECIALISATION = re.compile(r"\btemplate\s*<\s*>")
_MEMBER_FUNCTION = re.compile(r"\)[\s\w]*\{")
# A function that is no kernel and has none of these words runs on the host.
_DEVICE_WORDS = re.compile(r"\b(?:__device__|constexpr)\b")
# A macro may stand for __device__: HOST_DEVICE float f(). If it does not, and the function does not
# compile, it is left out then.
_MACRO = re.compile(r"\b[A-Z][A-Z0-9]*_?[A-Z0-9_]{2,}\b")
_TEMPLATE_HEAD = re.compile(r"\btemplate\s*<(?:[^<>]|<[^<>]*>)*>")


@dataclass(frozen=True)
class Source:
    """A source for one of the two compilers."""

    text: str
    left_out: dict[str, str]  # functions and classes that cannot run there, and why


def for_cpu(
    code: str, file: str, kernel: str, errors: Mapping[int, str], left_out: Mapping[str, str]
) -> Source:
    """Return the source with what a C++ compiler cannot read replaced, every line in its place.

    ``#pragma unroll`` becomes GCC's, because an unrolled loop makes fewer accesses. Functions of
    the host are left out with their launches, and kernels but ``kernel``, which nothing else calls.
    So is what uses hardware that the emulator has not; ``file`` names the source in what says why.

    ``errors`` is what the compiler said of lines when it tried before: what else the host has
    there, such as a variable of a type of its libraries, is left out too, and what uses something
    that was ``left_out`` then.
    """
    code = _NOINLINE.sub("__attribute__((noinline))", code)
    code = ptx.to_cpp(_ALIGNED.sub(r"\2 \1", _CUDA_STD.sub(r"\1", code)))
    masked = text.mask(code)
    uses = unsupported.Uses(code, masked, file)
    kept = _without_host(code, masked, kernel, errors, left_out, uses.reason)
    return Source(_unroll(kept.text), kept.left_out)


def for_gpu(
    code: str, file: str, kernel: str, errors: Mapping[int, str], left_out: Mapping[str, str]
) -> Source:
    """Return the source for NVRTC, which refuses functions of the host, every line in its place.

    The arguments are those of for_cpu.
    """
    masked = text.mask(code)
    return _without_host(code, masked, kernel, errors, left_out, lambda start, end: None)


def _without_host(
    code: str,
    masked: str,
    kernel: str,
    errors: Mapping[int, str],
    left_out_before: Mapping[str, str],
    reason_against: Callable[[int, int], str | None],
) -> Source:
    kept = list(code)
    left_out: dict[str, str] = {}
    for declared in text.declarations(masked):
        reason = None
        if not _is_of_the_host(declared, kernel):
            reason = reason_against(declared.start, declared.end)
            reason = reason or _error(declared, masked, errors, left_out_before)
            if reason is None:
                continue
            left_out.setdefault(declared.name, reason)
        span = slice(declared.start, declared.end)
        kept[span] = text.blank(code[span])
    return Source("".join(kept), left_out)


def _unroll(code: str) -> str:
    def pragma(match: re.Match[str]) -> str:
        indent, count = match[1], match[2]
        # GCC takes a number only; a constant's name means "unrolled" nearly always.
        number = count if count.isdigit() else "65534"
        return f"{indent}#pragma GCC unroll {min(int(number), 65534)}"

    return _UNROLL.sub(pragma, code)


def _is_of_the_host(declared: text.Declaration, kernel: str) -> bool:
    """Return whether a function runs on the host, or is a kernel that is not asked for."""
    if not declared.is_function:
        return False
    if "__global__" in declared.head:
        return declared.name != base_name(kernel)
    if _DEVICE_WORDS.search(declared.head):
        return False
    return not _MACRO.search(_TEMPLATE_HEAD.sub("", declared.head).split("(")[0])


def _error(
    declared: text.Declaration,
    masked: str,
    errors: Mapping[int, str],
    left_out: Mapping[str, str],
) -> str | None:
    """Return the error in a declaration of the host, or in one that uses what was left out why."""
    if not errors:
        return None
    span = declared.start, declared.end
    if _SPECIALISATION.search(declared.head) and not _MEMBER_FUNCTION.search(masked, *span):
        return None
    indent = len(declared.head) - len(declared.head.lstrip())
    first, last = (text.line_of(masked, at) for at in (declared.start + indent, declared.end))
    found = [said for line, said in errors.items() if first <= line <= last]
    if not _DEVICE_CODE.search(masked, *span):
        return next(iter(found), None)
    words = re.findall(r"\w+", " ".join(found))
    return next((left_out[word] for word in words if word in left_out), None)


def base_name(kernel: str) -> str:
    """Return ``transpose`` of ``ns::transpose<float, 32>``."""
    return re.split(r"[<(]", kernel)[0].split("::")[-1].strip()


def qualified(code: str, kernel: str) -> set[str]:
    """Return a kernel's name with the namespaces that its definitions are in.

    A name that has namespaces is taken as it is; of one that the text does not define, nothing is
    returned.
    """
    masked = text.mask(code)
    head = rf"__global__[^;{{}}]*?\b{re.escape(base_name(kernel))}\s*\("
    scopes: list[str] = []
    end, found = 0, set()
    for match in re.finditer(head, masked):
        for brace in _BRACE.finditer(masked, end, match.start()):
            if brace[0] == "}":
                del scopes[-1:]
            else:
                scopes.append(brace["namespace"] or "")
        end = match.start()
        found.add("::".join([*filter(None, scopes), kernel]))
    return {kernel} if found and "::" in re.split(r"[<(]", kernel)[0] else found


def is_device_function(code: str, kernel: str) -> bool:
    """Return whether a text defines the name as a function that only kernels can call."""
    name = base_name(kernel)
    return any(
        declared.is_function and declared.name == name and "__device__" in declared.head
        for declared in text.declarations(text.mask(code))
    )


def template_head(code: str, kernel: str) -> str:
    """Return ``template <typename T, int N>`` of a kernel's definition, or an empty text."""
    definition = rf"__global__[^;{{}}]*?\b{re.escape(kernel)}\s*\("
    heads = rf"({_TEMPLATE_HEAD.pattern})(?=[^;{{}}]*{definition})"
    found = re.search(heads, text.mask(code))
    return " ".join(found[1].split()) if found else ""


def kernel_names(code: str) -> list[str]:
    """Return the names of the kernels that a text defines or declares."""
    attributes = r"__\w+__\s*\((?:[^()]|\([^()]*\))*\)"
    heads = re.findall(r"__global__\b([^;{}]*)", text.mask(code))
    names = (re.search(r"(\w+)\s*\(", re.sub(attributes, "", head)) for head in heads)
    return list(dict.fromkeys(name[1] for name in names if name))


def parameter_names(code: str, kernel: str) -> list[str]:
    """Return the names of a kernel's parameters, as far as the text tells them."""
    masked = text.mask(code)
    for match in re.finditer(rf"\b{re.escape(base_name(kernel))}\s*\(", masked):
        end = text.closing_bracket(masked, match.end() - 1) - 1
        before = masked[max(0, match.start() - 400) : match.start()]
        if "__global__" not in re.split(r"[;}]", before)[-1]:
            continue
        parameters = text.split(masked[match.end() : end])
        return [_declared_name(parameter) for parameter in parameters if parameter.strip()]
    return []


def constants(code: str) -> set[str]:
    """Return the names of the variables that are declared as __constant__."""
    return set(re.findall(r"__constant__[^;={(\[]*?\b(\w+)\s*(?=[;={\[])", text.mask(code)))


def _declared_name(parameter: str) -> str:
    names = re.findall(r"\w+", parameter.split("=")[0].split("[")[0])
    return names[-1] if len(names) > 1 else ""
