# SPDX-License-Identifier: BSL-1.0
"""The same project with allfold from Conan, which `conan create` builds and runs at the end."""

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain


class Consume(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        self.folders.root = ".."  # so that build output is in build, which git ignores
        self.folders.source = "test/consume/cmake"
        self.folders.build = self.folders.generators = "build/conan"

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.cache_variables["way"] = "conan"
        toolchain.cache_variables["components"] = next(
            (name for name in ("mpi", "compiled") if self.dependencies["allfold"].options.get_safe(name)), "")
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            CMake(self).ctest(["--no-tests=error", "--output-on-failure"])
