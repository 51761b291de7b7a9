"""Host code of emitted kernels, run against a recording stand-in for the CUDA runtime and driver."""

from tilegen.simulate.host.build import HostBuild, build_host
from tilegen.simulate.host.recorder import Copy, Fill, Host, Recording, apply, perform

__all__ = ["Copy", "Fill", "Host", "HostBuild", "Recording", "apply", "build_host", "perform"]
