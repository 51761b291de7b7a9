"""What binding returns: a formula in which every node has a type and every conversion is a Cast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.formula.parsed import Formula
from tilegen.formula.nodes import Assign, Node
from tilegen.formula.typing import converted
from tilegen.values import F32, DType


@dataclass(frozen=True)
class Special:
    """A value that the context supplies by name, such as `acc`: its type and the indices it varies by."""

    dtype: DType
    indices: tuple[str, ...] = ()


@dataclass(frozen=True)
class TypedFormula:
    """A formula bound to a context.

    Attributes:
        formula: what was bound.
        statements: assignments with typed values. An output has `store`, the type of its elements, and
            `indices`; `stored` gives its value in that type. An intermediate has neither.
        compute: f32, or f64 when an operand or a value of the context is f64.
        operands: storage types of the tensor operands that are read, in order of first mention; their
            indices are `formula.operands`.
        scalars: run-time scalars with their types, in order of first mention.
        specials: the context's values (`acc`) that the formula reads.
        outputs: storage types of what is stored, in order; their indices are `formula.outputs`.
        index_dtype: the type of an index used as a value.
        index_names: every index, context's first.
    """

    formula: Formula
    statements: tuple[Assign, ...]
    compute: DType
    operands: Mapping[str, DType]
    scalars: Mapping[str, DType]
    specials: Mapping[str, Special]
    outputs: Mapping[str, DType]
    index_dtype: DType
    index_names: tuple[str, ...]

    @property
    def text(self) -> str:
        """The canonical text of the formula."""
        return self.formula.text

    @property
    def is_short(self) -> bool:
        """Whether every output is a float of at most 16 bits, computed in float32: CUDA's exp may then be short."""
        kinds = self.outputs.values()
        return self.compute is F32 and all(k.is_float and k.bytes <= 2 for k in kinds)

    def value_of(self, name: str) -> Assign:
        """The statement that assigns `name`; KeyError when none does."""
        for statement in self.statements:
            if statement.name == name:
                return statement
        raise KeyError(name)


def stored(statement: Assign) -> Node:
    """The value of an output's assignment in the type it is stored in, the conversion explicit."""
    return converted(statement.value, statement.store)
