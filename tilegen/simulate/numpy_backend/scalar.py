"""Per-lane arithmetic: each instruction becomes a function of the lane mask. Unknown forms are errors that name themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilegen.simulate.launch import SimulationError
from tilegen.simulate.numpy_backend import integers as ints
from tilegen.simulate.numpy_backend import moves, reals
from tilegen.simulate.numpy_backend.operands import Operands, bits_of, resized, signed
from tilegen.simulate.ptx import Instruction, Pair

Array = np.ndarray
Step = Callable[[Array | None], None]

_INTEGER = {"s16", "u16", "s32", "u32", "s64", "u64", "s8", "u8"}
_REAL = {"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"}


def unknown(instruction: Instruction) -> SimulationError:
    return SimulationError(
        f"NumPy backend: {instruction.opcode} is not modelled: {instruction.text}"
    )


def scalar_step(instruction: Instruction, operands: Operands) -> Step | None:
    """The step of an arithmetic instruction, or None where the opcode is no such instruction."""
    name = instruction.opcode.split(".")[0]
    maker = _MAKERS.get(name)
    return None if maker is None else maker(instruction, operands)


def _parts(instruction: Instruction) -> tuple[list[str], str]:
    words = instruction.opcode.split(".")
    return words[1:-1], words[-1]


def _simple(
    instruction: Instruction,
    operands: Operands,
    function: Callable[..., Array],
    kinds: list[int],
    extend: bool = False,
) -> Step:
    """d = function(sources), sources read at the given widths."""
    target = instruction.operands[0]
    reads = [operands.raw(op, bits) for op, bits in zip(instruction.operands[1:], kinds)]

    def step(mask: Array | None) -> None:
        operands.write(target, function(*(read() for read in reads)), mask, extend)

    return step


def _arithmetic(instruction: Instruction, operands: Operands) -> Step:
    """add sub mul mad fma min max abs neg div rem, by type."""
    name = instruction.opcode.split(".")[0]
    mods, kind = _parts(instruction)
    if kind in _REAL:
        return reals.real_step(instruction, operands)
    if kind not in _INTEGER:
        raise unknown(instruction)
    bits = bits_of(kind)
    if "cc" in mods or name in ("addc", "subc"):
        return _carried(instruction, operands, name, mods, bits)
    two, three = [bits] * 2, [bits] * 3
    if name in ("add", "sub") and mods == ["sat"]:

        def saturated(a: Array, b: Array) -> Array:
            wide = signed(a).astype(np.int64) + (1 if name == "add" else -1) * signed(b).astype(
                np.int64
            )
            return np.clip(wide, -(2**31), 2**31 - 1).astype(np.int32).view(np.uint32)

        return _simple(instruction, operands, saturated, two)
    if name in ("add", "sub") and not mods:
        function = np.add if name == "add" else np.subtract
        return _simple(instruction, operands, function, two)
    if name == "mul" and mods[:1] in (["lo"], ["hi"], ["wide"]):
        return _simple(instruction, operands, lambda a, b: ints.multiply(mods[0], kind, a, b), two)
    if name == "mad" and mods[:1] in (["lo"], ["hi"], ["wide"]):
        widths = [bits, bits, 2 * bits if mods[0] == "wide" else bits]
        return _simple(
            instruction, operands, lambda a, b, c: ints.multiply(mods[0], kind, a, b) + c, widths
        )
    if name in ("div", "rem") and not mods:
        return _simple(instruction, operands, lambda a, b: ints.divide(name, kind, a, b), two)
    if name in ("min", "max") and not mods:
        return _simple(instruction, operands, lambda a, b: ints.ordered(name, kind, a, b), two)
    if name == "abs":
        return _simple(instruction, operands, lambda a: np.where(signed(a) < 0, -a, a), [bits])
    if name == "neg":
        return _simple(instruction, operands, lambda a: -a, [bits])
    if name == "sad":

        def distance(a: Array, b: Array, c: Array) -> Array:
            return c + ints.ordered("max", kind, a, b) - ints.ordered("min", kind, a, b)

        return _simple(instruction, operands, distance, three)
    raise unknown(instruction)


def _carried(
    instruction: Instruction, operands: Operands, name: str, mods: list[str], bits: int
) -> Step:
    """add.cc, addc, sub.cc, subc: the carry is one more register of the lane."""
    machine, target = operands.machine, instruction.operands[0]
    reads = [operands.raw(op, bits) for op in instruction.operands[1:]]
    subtract, chained, sets = name.startswith("sub"), name.endswith("c"), "cc" in mods
    if bits != 32:
        raise unknown(instruction)

    def step(mask: Array | None) -> None:
        a, b = (read().astype(np.int64) for read in reads)
        carry = machine.carry.astype(np.int64) if chained else 0
        total = a - b - carry if subtract else a + b + carry
        operands.write(target, (total & 0xFFFFFFFF).astype(np.uint32), mask)
        if sets:
            out = (total < 0) if subtract else (total > 0xFFFFFFFF)
            machine.carry = out if mask is None else np.where(mask, out, machine.carry)

    return step


def _logic(instruction: Instruction, operands: Operands) -> Step:
    name = instruction.opcode.split(".")[0]
    bits = bits_of(_parts(instruction)[1])
    if name == "cnot":
        return _simple(instruction, operands, lambda a: (a == 0).astype(a.dtype), [bits])
    function = {
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "not": np.invert,
    }[name]
    return _simple(instruction, operands, function, [bits] * 2)


def _bit_fields(instruction: Instruction, operands: Operands) -> Step:
    name = instruction.opcode.split(".")[0]
    mods, kind = _parts(instruction)
    bits = 32 if name in ("prmt", "lop3", "shf") else bits_of(kind)
    if name in ("shl", "shr"):
        return _simple(instruction, operands, lambda a, n: ints.shift(name, kind, a, n), [bits, 32])
    if name == "bfi":
        return _simple(instruction, operands, ints.insert_field, [bits, bits, 32, 32])
    if name == "bfe":
        return _simple(
            instruction, operands, lambda a, p, n: ints.extract_field(kind, a, p, n), [bits, 32, 32]
        )
    if name == "bfind":
        amount = "shiftamt" in mods
        return _simple(instruction, operands, lambda a: ints.find_top(kind, a, amount), [bits])
    if name in ("clz", "popc", "brev"):
        function = {"clz": ints.leading_zeros, "popc": ints.count_ones, "brev": ints.reverse}[name]
        return _simple(instruction, operands, function, [bits])
    if name == "prmt":
        mode = "" if kind == "b32" else kind
        return _simple(instruction, operands, lambda a, b, c: ints.permute(mode, a, b, c), [32] * 3)
    if name == "lop3":
        table = instruction.operands[4].value
        return _simple(instruction, operands, lambda a, b, c: ints.logic3(table, a, b, c), [32] * 3)
    if name == "shf":
        return _simple(
            instruction, operands, lambda a, b, c: ints.funnel(mods[0], mods[1], a, b, c), [32] * 3
        )
    if name == "dp4a":
        left = mods[0]
        return _simple(
            instruction, operands, lambda a, b, c: ints.dot4(left, kind, a, b, c), [32] * 3
        )
    raise unknown(instruction)


def _compare(instruction: Instruction, operands: Operands) -> Step:
    """setp, with one or two results and an optional third predicate; set writes a number instead."""
    words = instruction.opcode.split(".")
    name, test, kind = words[0], words[1], words[-1]
    result_kind = words[-2] if name == "set" else "pred"
    middle = [word for word in words[2:-1] if word != result_kind]
    combine = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(
        next((word for word in middle if word in ("and", "or", "xor")), "")
    )
    if kind in _REAL:
        a, b = (operands.real(op, kind) for op in instruction.operands[1:3])
        ftz = "ftz" in middle

        def evaluate() -> Array:
            return reals.compare(test, a(), b(), ftz, kind)

    else:
        x, y = (operands.raw(op, bits_of(kind)) for op in instruction.operands[1:3])

        def evaluate() -> Array:
            return ints.compare(test, kind, x(), y())

    third = operands.raw(instruction.operands[3], 1) if combine else None
    target = instruction.operands[0]
    packed = kind.endswith("x2")

    def step(mask: Array | None) -> None:
        truth = evaluate()
        if name == "set":
            if third is not None:
                truth = combine(truth, third())
            yes = 0x3F800000 if result_kind == "f32" else 0xFFFFFFFF
            operands.write(target, np.where(truth, np.uint32(yes), np.uint32(0)), mask)
            return
        first, second = (truth[:, 0], truth[:, 1]) if packed else (truth, ~truth)
        if third is not None:
            given = third()
            first, second = combine(first, given), combine(second, given)
        if isinstance(target, Pair):
            operands.write(target.first, first, mask)
            operands.write(target.second, second, mask)
        else:
            operands.write(target, first, mask)

    return step


def _select(instruction: Instruction, operands: Operands) -> Step:
    name = instruction.opcode.split(".")[0]
    mods, kind = _parts(instruction)
    target, first, second, choice = instruction.operands
    if name == "slct":
        bits = bits_of(mods[0])
        a, b = operands.raw(first, bits), operands.raw(second, bits)
        if kind != "s32":
            raise unknown(instruction)
        c = operands.raw(choice, 32)
        return lambda mask: operands.write(target, np.where(signed(c()) >= 0, a(), b()), mask)
    bits = bits_of(kind)
    a, b, p = operands.raw(first, bits), operands.raw(second, bits), operands.raw(choice, 1)
    return lambda mask: operands.write(target, np.where(p(), a(), b()), mask)


def _convert(instruction: Instruction, operands: Operands) -> Step:
    words = instruction.opcode.split(".")
    if words[1] == "pack":
        target_kind = words[3]
        width = int(target_kind[1:])
        with_c = len(instruction.operands) == 4

        def pack(a: Array, b: Array, *rest: Array) -> Array:
            parts = [ints.saturate(x, "s32", target_kind) & np.uint32(2**width - 1) for x in (a, b)]
            low = parts[0] << np.uint32(width) | parts[1]
            return low | rest[0] << np.uint32(2 * width) if rest else low

        return _simple(instruction, operands, pack, [32] * (3 if with_c else 2))
    target_kind, source_kind = words[-2:]
    if target_kind in _INTEGER and source_kind in _INTEGER:
        source_bits, target_bits = bits_of(source_kind), bits_of(target_kind)
        saturating = "sat" in words

        def change(a: Array) -> Array:
            wide = resized(a, max(source_bits, target_bits), source_kind[0] == "s")
            if saturating:
                wide = ints.saturate(wide, source_kind, target_kind)
            return resized(wide, target_bits)

        extend = target_kind[0] == "s"
        return _simple(instruction, operands, change, [source_bits], extend)
    return reals.convert_step(instruction, operands)


_MAKERS: dict[str, Callable[[Instruction, Operands], Step]] = {
    **dict.fromkeys(
        "add sub mul mad fma min max abs neg div rem addc subc sad".split(), _arithmetic
    ),
    **dict.fromkeys("and or xor not cnot".split(), _logic),
    **dict.fromkeys("shl shr bfi bfe bfind clz popc brev prmt lop3 shf dp4a".split(), _bit_fields),
    **dict.fromkeys("setp set".split(), _compare),
    **dict.fromkeys("selp slct".split(), _select),
    **dict.fromkeys("cvta mapa getctarank".split(), moves.address_step),
    **dict.fromkeys("rcp sqrt rsqrt ex2 lg2 sin cos tanh copysign testp".split(), reals.real_step),
    "mov": moves.move_step,
    "cvt": _convert,
}
