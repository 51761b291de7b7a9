"""The second way to a GPU: the same `.cu` under TILEGEN_DEVICE_ONLY, compiled by PyCUDA, without its host part.

What the launcher would do is learnt by running it against the recorder of host calls; the launches that it
recorded are then made through the driver, in PyCUDA's context, on a module that `pycuda.compiler` built.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilegen.emit.render import Rendered
from tilegen.errors import ArgumentError
from tilegen.runtime.arguments import View, marshal, require_supported
from tilegen.runtime.driver import Driver
from tilegen.runtime.gpu import driver, on_device, workspace
from tilegen.simulate.host import Copy, Fill, Host, build_host
from tilegen.simulate.launch import TENSOR_MAP_MAGIC, Launch
from tilegen.targets import CudaTarget
from tilegen.toolchain import build
from tilegen.toolchain.find import find_nvcc

FLAGS = ("-std=c++17", "-O3", "-DTILEGEN_DEVICE_ONLY")


class DeviceOnlyKernel:
    """A CUDA kernel whose device code PyCUDA compiled and whose launches were recorded.

    Attributes:
        kernel: what was emitted.
    """

    def __init__(self, kernel: Rendered, arch: CudaTarget | None = None) -> None:
        self.kernel = kernel
        self._arch = arch or kernel.spec.target
        driver()
        self._driver = Driver()
        self._module = self._driver.load_module(self._compile())
        source = build.laid_out(kernel)
        self._host = Host(build_host(source, self._arch), self._arch)

    def _compile(self) -> bytes:
        from pycuda import compiler

        text = self.kernel.files[self.kernel.source]
        folder = build.laid_out(self.kernel).parent
        arch = self._arch.name.removeprefix("sm_")
        return compiler.compile(
            text,
            nvcc=find_nvcc().path,
            options=[*FLAGS, f"-I{folder}"],
            no_extern_c=True,
            arch=f"compute_{arch}",
            code=f"sm_{arch}",
        )

    def launch(self, views: Mapping[str, View], scalars: Mapping[str, float]) -> None:
        """Make the launches that the host part would make, on device arrays.

        Raises:
            ArgumentError: the arrays do not fit, or the launcher refused the call.
        """
        plan, symbol = self.kernel.plan, self.kernel.symbol
        query = self._host.function(f"{symbol}_workspace") if plan.uses_workspace else None
        supports = self._host.function(f"{symbol}_supports")
        with workspace(plan, query, views, scalars) as space:
            values, sizes = marshal(plan, views, scalars, 0, space)
            require_supported(plan, supports, values)
            recording = self._host.record(symbol, values)
            if recording.status:
                raise ArgumentError(f"the launcher returned {recording.status} for sizes {sizes}")
            for step in recording.steps:
                if isinstance(step, Launch):
                    self._launch(step)
                elif isinstance(step, Fill):
                    self._driver.fill(step.address, step.value, step.width, step.height, step.pitch)
                elif isinstance(step, Copy):
                    self._driver.copy(step.to, step.source, step.size)

    def _launch(self, step: Launch) -> None:
        function = self._driver.function(self._module, step.kernel)
        params = []
        for data in step.params:
            if data.startswith(TENSOR_MAP_MAGIC):
                index = int.from_bytes(data[8:16], "little")
                params.append(self._driver.tensor_map(step.tensor_maps[index]))
            else:
                params.append(data)
        self._driver.launch(
            function, step.grid, step.block, step.cluster, step.shared_bytes, params
        )

    def run(self, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, float]) -> None:
        """Compute on NumPy arrays, as `GpuKernel.run` does."""
        on_device(arrays, lambda views: self.launch(views, scalars))
