# SPDX-License-Identifier: BSL-1.0
"""The recipe for Conan 2: conan create . --build=missing"""

import os
import re
import shutil

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import supported_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.scm import Version
from conan.tools.system.package_manager import Apt

OLDEST = {"gcc": "12", "clang": "14"}  # that compile the headers


class Allfold(ConanFile):
    name = "allfold"
    description = "Collective algorithms over user-defined associative operators"
    license = "BSL-1.0"
    url = homepage = "https://github.com/allfold/allfold"
    topics = "collectives", "allreduce", "scan", "parallel", "mpi", "header-only"
    settings = "os", "arch", "compiler", "build_type"
    options = {"mpi": [True, False], "compiled": [True, False]}
    default_options = {"mpi": False, "compiled": False}
    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"
    no_copy_source = True

    def configure(self):
        self.package_type = "static-library" if self.options.compiled else "header-library"

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "include/allfold/version.hpp"))
        self.version = ".".join(re.findall(r"define ALLFOLD_VERSION_\w+ (\d+)", header))

    def layout(self):
        cmake_layout(self)

    def validate(self):
        # Checks what the compiler can do, not compiler.cppstd: CMake raises that for everything that links with
        # allfold::allfold.
        if "20" not in (supported_cppstd(self) or ["20"]):
            raise ConanInvalidConfiguration("allfold needs a compiler with C++20")
        compiler, version = self.settings.get_safe("compiler"), self.settings.get_safe("compiler.version")
        if compiler in OLDEST and version and Version(version) < OLDEST[compiler]:
            raise ConanInvalidConfiguration(f"allfold needs {compiler} {OLDEST[compiler]} or newer, not {version}")

    def package_id(self):
        if not self.info.options.compiled:
            self.info.clear()  # one package for all settings and options

    def system_requirements(self):
        # A program must use the MPI whose mpirun starts it: the system's, never one that Conan built.
        if self.options.mpi and not shutil.which("mpicxx"):
            Apt(self).install_substitutes(["libopenmpi-dev", "openmpi-bin"], ["libmpich-dev", "mpich"])

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["ALLFOLD_DEVELOPMENT"] = False
        toolchain.cache_variables["ALLFOLD_BUILD_COMPILED"] = bool(self.options.compiled)
        toolchain.generate()

    def package(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()
        cmake.install()
        rmdir(self, os.path.join(self.package_folder, "share", "licenses"))
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # CMake uses the package's own allfoldConfig.cmake, which also finds the system's MPI for the component mpi.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/allfold"]  # where CMakeConfigDeps looks for it; for CMakeDeps see below

        # The same for other generators. MPI's flags come from its mpicxx.
        core = self.cpp_info.components["core"]
        core.set_property("cmake_target_name", "allfold::allfold")
        core.set_property("pkg_config_name", "allfold")
        core.bindirs = core.libdirs = []
        core.builddirs = ["share/cmake/allfold"]
        if self.settings.os in ("Linux", "FreeBSD"):
            core.system_libs = ["pthread"]
        if self.options.compiled:
            compiled = self.cpp_info.components["compiled"]
            compiled.set_property("cmake_target_name", "allfold::compiled")
            compiled.libs = ["allfold_compiled"]
            compiled.defines = ["ALLFOLD_COMPILED"]
            compiled.requires = ["core"]
        if self.options.mpi:
            mpi = self.cpp_info.components["mpi"]
            mpi.set_property("cmake_target_name", "allfold::mpi")
            mpi.set_property("pkg_config_name", "allfold-mpi")
            mpi.bindirs = mpi.libdirs = mpi.includedirs = []
            mpi.requires = ["core"]
