"""One exception a cause. Each carries its exit code and, where there is one, the next step for the user."""

from __future__ import annotations


class TilegenError(Exception):
    """Base of every error that tilegen raises on purpose.

    Attributes:
        hint: what to do next, one or more lines, or an empty string.
        exit_code: what the command line returns for it.
    """

    exit_code = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(TilegenError):
    """A flag, a value or a combination of values that tilegen does not accept."""

    exit_code = 2


class FormulaError(UsageError):
    """A formula that does not parse, has a wrong index or type, or uses what the language lacks."""


class IllegalSchedule(UsageError):
    """A schedule that does not fit its problem or target; the message lists every violation."""


class ArgumentError(UsageError):
    """An array or a size that a built kernel does not take: wrong dtype, shape, stride or overlap."""


class CallRefused(ArgumentError):
    """A call that a kernel's `_supports` refuses.

    Attributes:
        code: what `_supports` returned; the kernel's header explains it.
    """

    def __init__(self, message: str, hint: str = "", code: int = 0) -> None:
        super().__init__(message, hint)
        self.code = code


class CheckFailed(TilegenError):
    """A check ran and found something: drift in generated files, a result outside its bound."""

    exit_code = 1


class TemplateFault(TilegenError):
    """A template and its plan disagree, or a template printed unhygienic text. A fault of ours."""

    exit_code = 3


class ToolMissing(TilegenError):
    """A compiler, PyCUDA or a GPU is not there; the hint says what was searched and what to install."""

    exit_code = 4


class BuildError(TilegenError):
    """A compiler ran and refused the emitted source, or reported a spill or a warning."""

    exit_code = 3
