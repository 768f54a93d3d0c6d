# Not tried: Spack is neither in the distribution nor on the package index that this was written with.
from spack.package import *


class Orrery(MesonPackage):
    """Schedules for training neural networks that are not chains: simulated, planned, and run on StarPU."""

    version("main", branch="main")

    variant("cuda", default=False, description="CUDA codelets")
    variant("mpi", default=True, description="training across processes")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("jansson")
    depends_on("xxhash")
    depends_on("onednn@2:")
    depends_on("hwloc@2:")
    depends_on("starpu@1.3.10: +shared")
    depends_on("starpu +mpi", when="+mpi")
    depends_on("openmpi@4: thread_multiple=True", when="+mpi")
    depends_on("starpu +cuda", when="+cuda")
    depends_on("cuda", when="+cuda")
    depends_on("nccl", when="+cuda")

    def meson_args(self):
        return ["-Dtests=disabled", *(f"-D{name}={'enabled' if self.spec.satisfies('+' + name) else 'disabled'}" for name in ("cuda", "mpi"))]
