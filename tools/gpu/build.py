"""An `orrery` with CUDA and its tests: those that tools/gpu/gpu-pack built, where they are of this source and start here; else
built here, with what it packed and the toolkit."""
import glob
import hashlib
import json
import os
import re
import shutil
import site
import sys
import tarfile

from .check import ENDED, Failure, Skip, last_line

COUNTER = "count_launches"
LIBRARIES = ("cudart", "cublas", "cublasLt", "cusparse", "cusolver", "nvJitLink", "nccl", "cupti")


def source_of(tree):
    """Of all that is compiled: builds and figures of another source are not of this one."""
    told = hashlib.sha256()
    for folder in ("codelets", "src", "tests", "tools"):
        for place, folders, names in sorted(os.walk(os.path.join(tree, folder))):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cu", ".cpp")) or name == "meson.build":
                    path = os.path.join(place, name)
                    told.update(os.path.relpath(path, tree).encode() + b"\0")
                    with open(path, "rb") as file:
                        told.update(file.read() + b"\0")
    return told.hexdigest()[:16]


def tests_in(told):
    """The programs of the tests that need a device, of what Meson says of all tests; others run on an emulated one."""
    return sorted({test["cmd"][0] for test in told if any(suite.split(":")[-1] == "cuda" for suite in test["suite"])})


def counters_in(told):
    """Of what Meson says of all benchmarks: the program that counts launches on the emulated device, if there is one."""
    return sorted({test["cmd"][0] for test in told if os.path.basename(test["cmd"][0]) == COUNTER})


class Build:
    def __init__(self, check, options, source):
        self.check, self.source = check, source
        self.folder = os.path.abspath(options.build)
        self.prefix, self.device, self.from_source = options.prefix, options.device, options.from_source
        self.orrery = options.orrery and os.path.abspath(options.orrery)
        self.tests, self.cuda, self.packed = None, None, None
        self.why_no_device = "it was not built"

    # ---- finding ----

    def put(self, name, folder, first=True):
        known = [f for f in self.check.env.get(name, "").split(":") if f and f != folder]
        self.check.env[name] = ":".join([folder] + known if first else known + [folder])

    def find_cuda(self):
        places = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
        nvcc = shutil.which("nvcc")
        if nvcc:
            places.append(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))
        places += ["/usr/local/cuda"] + sorted(glob.glob("/usr/local/cuda-*"), reverse=True)
        for place in places:
            if place and os.access(os.path.join(place, "bin/nvcc"), os.X_OK):
                self.cuda = self.check.env["CUDA_HOME"] = place
                self.put("PATH", os.path.join(place, "bin"))
                return

    def find_cuda_libraries(self):
        """Where the toolkit's folder lacks a library, the packages of pip may have it, under its full name alone."""
        folders = [os.path.join(self.cuda, f) for f in ("lib64", "lib", "targets/x86_64-linux/lib", "extras/CUPTI/lib64")] \
            if self.cuda else []
        packages = set(site.getsitepackages() + [site.getusersitepackages()] + [p for p in sys.path if p.endswith("-packages")])
        for package in sorted(packages):
            folders += sorted(glob.glob(os.path.join(package, "nvidia/*/lib")))
            for include in sorted(glob.glob(os.path.join(package, "nvidia/*/include"))):
                self.put("CPATH", include, first=False)
        if self.cuda:
            self.put("CPATH", os.path.join(self.cuda, "extras/CUPTI/include"), first=False)
        links = self.folder + "-links"
        shutil.rmtree(links, ignore_errors=True)
        os.makedirs(links)
        for name in LIBRARIES:
            found = [f for folder in folders for f in sorted(glob.glob(os.path.join(folder, f"lib{name}.so*")))]
            found.sort(key=lambda f: not f.endswith(".so"))
            if found:
                os.symlink(found[0], os.path.join(links, f"lib{name}.so"))
                self.put("LD_LIBRARY_PATH", os.path.dirname(os.path.realpath(found[0])), first=False)
        self.put("LIBRARY_PATH", links)

    def unpack(self):
        """The folder that tools/gpu/gpu-pack packed, once for a file."""
        folder = os.path.abspath(self.prefix)
        if os.path.isfile(folder):
            own = self.folder + "-prefix"
            note, now = os.path.join(own, "unpacked"), f"{os.path.getsize(folder)} {os.path.getmtime(folder)}"
            if not os.path.isfile(note) or open(note).read() != now:
                shutil.rmtree(own, ignore_errors=True)
                os.makedirs(own)
                with tarfile.open(folder) as tar:
                    tar.extractall(own, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
                with open(note, "w") as file:
                    file.write(now)
            folder = os.path.join(own, "orrery-prefix")
        if not os.path.isdir(os.path.join(folder, "lib/pkgconfig")):
            raise Failure(f"{folder} has no lib/pkgconfig: give --prefix what tools/gpu/gpu-pack packed")
        self.packed = folder
        self.check.env["PKG_CONFIG_LIBDIR"] = os.path.join(folder, "lib/pkgconfig")
        self.check.env.pop("PKG_CONFIG_PATH", None)
        self.put("PATH", os.path.join(folder, "bin"))
        self.put("LD_LIBRARY_PATH", os.path.join(folder, "lib"))
        # oneDNN has no module for pkg-config
        self.put("LIBRARY_PATH", os.path.join(folder, "lib"))
        self.put("CPATH", os.path.join(folder, "include"))
        for file in glob.glob(os.path.join(folder, "lib/pkgconfig/*.pc")):
            with open(file) as pc:
                text = pc.read()
            with open(file, "w") as pc:
                pc.write(re.sub(r"(?m)^cudadir=.*$", "cudadir=" + (self.cuda or "/usr/local/cuda"), text))

    # ---- building ----

    def why_not_packed(self):
        """Why the packed programs do not do, or nothing."""
        built = os.path.join(self.packed, "built")
        if not os.path.isfile(os.path.join(built, "source")):
            return "it has no programs"
        with open(os.path.join(built, "source")) as file:
            source = file.read().strip()
        if source != self.source:
            return f"its programs are of another source, {source}"
        code, text = self.check.run([os.path.join(built, "orrery"), "schedules"])
        return f"its programs do not start: {last_line(text)}" if code else ""

    def introspect(self, what):
        told = self.check.must(["meson", "introspect", what, self.folder])
        return json.loads(told[told.index("["):told.rindex("]") + 1])

    def compile(self):
        if not self.cuda:
            raise Failure("no nvcc: put it in PATH, or set CUDA_HOME")
        if not os.path.isfile(os.path.join(self.folder, "build.ninja")):
            self.check.must(["meson", "setup", self.folder, self.check.tree, "--buildtype=release", "-Dcuda=enabled",
                             "-Dstarpu=enabled", "-Dmpi=disabled"])
        tests, counters = tests_in(self.introspect("--tests")), counters_in(self.introspect("--benchmarks"))
        self.check.must(["ninja", "-C", self.folder, "tools/orrery"]
                        + [os.path.relpath(t, self.folder) for t in tests + counters])
        return os.path.join(self.folder, "tools/orrery"), tests

    @staticmethod
    def beside(orrery):
        """(it, the tests of kernels in its folder)"""
        return orrery, [f for f in sorted(glob.glob(os.path.join(os.path.dirname(orrery), "test_cuda_*"))) if os.access(f, os.X_OK)]

    def choose(self, part):
        """(orrery, tests of kernels)"""
        if self.prefix:
            self.unpack()
            why = "--from-source" if self.from_source else self.why_not_packed()
            if not why:
                part.figures["programs"] = "those that were packed"
                return self.beside(os.path.join(self.packed, "built/orrery"))
            part.figures["packed programs"] = f"not taken: {why}"
        part.figures["programs"] = "built here"
        return self.compile()

    def make(self, part):
        os.makedirs(self.folder, exist_ok=True)
        self.check.env.update(STARPU_HOME=self.folder, STARPU_SILENT="1")
        self.find_cuda()
        self.find_cuda_libraries()
        orrery, tests = self.beside(self.orrery) if self.orrery else self.choose(part)
        text = self.check.must([orrery, "schedules"])
        part.compare("orrery lists no schedules", "gpipe" in text)
        self.orrery, self.tests = orrery, tests
        part.figures.update({"cuda": self.cuda or "none", "tests of kernels": len(self.tests)})
        self.ask_device(part)

    def ask_device(self, part):
        """The first start measures the buses of the machine, which takes a while."""
        code, text = self.check.run([self.orrery, "train", "graphs/digits.dot", "--device", self.device, "--steps", "1",
                                     "--workers", "1"])
        if code == ENDED:
            raise self.check.time_is_up("a step of digits")
        why = re.search(r"no device: (.*); take", text)
        self.why_no_device = "" if code == 0 else why.group(1) if why else f"exit code {code}: {last_line(text)}"
        part.figures["device usable"] = not self.why_no_device
        part.compare(f"it does not train on the device: {self.why_no_device}", code == 0 or bool(why))

    # ---- what the parts ask ----

    def counter(self):
        """The program that counts launches on the emulated device, or None."""
        places = [os.path.dirname(self.orrery or ""), os.path.join(self.folder, "tests")]
        return next((f for f in (os.path.join(p, COUNTER) for p in places) if os.access(f, os.X_OK)), None)

    def need(self):
        if self.tests is None:
            raise Skip("it was not built")

    def need_device(self):
        self.need()
        if self.why_no_device:
            raise Skip(self.why_no_device)

    def show(self, graph):
        return json.loads(self.check.must([self.orrery, "show", "--json", graph]))
