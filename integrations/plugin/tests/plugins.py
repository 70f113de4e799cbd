"""Parts of the plug-ins' tests: files that are fetched once, and a plug-in that is built as a person does who has installed libfa."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "libfa"


class CannotFetch(Exception):
    pass


def fetch(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotFetch(f"{command[0]}: {error}") from error
    if done.returncode:
        raise CannotFetch(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout)[-1000:]}")


def pip(*arguments):
    fetch(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def fetched(host, versions, fill):
    """The folder of these versions of a host in the cache. fill(folder) fetches them where they are not there yet."""
    folder = CACHE / host / re.sub(r"\W+", "-", versions)
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        partial.mkdir(parents=True)
        try:
            fill(partial)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def or_skip(function, *arguments):
    """The function's result; where it cannot fetch, the test is skipped with the reason."""
    try:
        return function(*arguments)
    except CannotFetch as error:
        print("skipped:", error)
        sys.exit(77)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(cmake, libfa_build, folder, compiler, source, *options):
    """Installs libfa from its build folder, and builds the plug-in of the folder `source` against it, into another folder."""
    folder = pathlib.Path(folder)
    prefix = folder.parent / "libfa"
    for component in "runtime", "development":
        run(cmake, "--install", libfa_build, "--prefix", prefix, "--component", component)
    run(cmake, "-S", source, "-B", folder, f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror",
        f"-DCMAKE_PREFIX_PATH={prefix}", *options)
    run(cmake, "--build", folder, "-j2")
    return folder
