#!/usr/bin/env bash
# Installs a build into a folder, moves the folder, and builds a program against what is there, by
# pkg-config and by the CMake package, with the shared and the static library, in C and in C++.
#   run.sh BUILD    (77: skipped)
set -euo pipefail
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")" && pwd)
command -v pkg-config >/dev/null || { echo 'there is no pkg-config: skipped'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cmake --install "$build" --prefix "$folder/first" >install.log
mv first moved
prefix=$folder/moved
pc=$(find "$prefix" -name lockstep.pc)
libraries=$(dirname "$(find "$prefix" -name liblockstep.so)")
export PKG_CONFIG_PATH=${pc%/*}

expect() { # program
    local found
    found=$(LD_LIBRARY_PATH=$libraries "$1") || { echo "$1 failed: $found"; exit 1; }
    case $found in
    'lockstep '*' on '*) echo "${1##*/}: $found" ;;
    *) echo "$1 said '$found'"; exit 1 ;;
    esac
}
links() { # not a pipe into grep -q, which ends ldd by SIGPIPE when it is quicker
    local needed
    needed=$(LD_LIBRARY_PATH=$libraries ldd "$1")
    [[ $needed == *liblockstep* ]]
}

cp "$source/program.c" program.cpp
# shellcheck disable=SC2046  # lists of words
{
    cc -std=c11 -Wall -Werror "$source/program.c" -o c_shared $(pkg-config --cflags --libs lockstep)
    c++ -std=c++17 -Wall -Werror program.cpp -o cpp_shared $(pkg-config --cflags --libs lockstep)
    mkdir only && cp "$libraries/liblockstep.a" only/
    flags=$(pkg-config --static --cflags --libs lockstep)
    cc -std=c11 -Wall -Werror "$source/program.c" -o c_static -Lonly ${flags//-llockstep/-l:liblockstep.a}
    c++ -std=c++17 -Wall -Werror program.cpp -o cpp_static -Lonly ${flags//-llockstep/-l:liblockstep.a}
}
for p in c_shared cpp_shared c_static cpp_static; do expect "./$p"; done
links ./c_shared || { echo 'c_shared does not use the shared library'; exit 1; }
if links ./c_static; then echo 'c_static uses the shared library'; exit 1; fi

ln -s "$source/../fortran/train.F90" .
cmake -S "$source" -B outside -DTRAIN="$PWD/train.F90" -DCMAKE_PREFIX_PATH="$prefix" >cmake.log || { cat cmake.log; exit 1; }
cmake --build outside >>cmake.log || { cat cmake.log; exit 1; }
for p in c_lockstep cpp_lockstep c_static cpp_static; do expect "./outside/$p"; done
if links outside/c_static; then echo 'outside/c_static uses the shared library'; exit 1; fi

# Documents, and what they point at; the example builds from there.
doc=$prefix/share/doc/lockstep
while read -r page; do
    while read -r link; do
        case $link in http*|'#'*) continue ;; esac
        [ -e "$(dirname "$page")/${link%%#*}" ] || { echo "${page#"$doc"/}: there is no $link"; exit 1; }
    done < <(grep -o ']([^)]*)' "$page" | sed 's/^](//; s/)$//')
done < <(printf '%s\n' "$doc"/README.md "$doc"/docs/program.md "$doc"/docs/numerics.md)
# shellcheck disable=SC2046  # a list of words
cc -std=c11 -Wall -Werror "$doc/examples/own_program.c" -o own $(pkg-config --cflags --libs lockstep) -lm
cc -std=c11 -Wall -Werror "$doc/examples/recipe.c" -o recipe $(pkg-config --cflags --libs lockstep)
cc -std=c11 -Wall -Werror "$doc/examples/own_loop.c" -o loop $(pkg-config --cflags --libs lockstep) -lm
LD_LIBRARY_PATH=$libraries ./recipe "$doc/configs/digits.yaml" train.steps=1 >recipe.log || { cat recipe.log; exit 1; }
LD_LIBRARY_PATH=$libraries ./own >own.log || { cat own.log; exit 1; }
LD_LIBRARY_PATH=$libraries ./loop >loop.log || { cat loop.log; exit 1; }

# The module for Fortran, where this build has one.
if [ -e "$libraries/liblockstep_fortran.a" ]; then
    fortran=$(sed -n 's/^CMAKE_Fortran_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
    # shellcheck disable=SC2046  # a list of words
    "$fortran" "$source/../fortran/train.F90" -o fortran $(pkg-config --cflags --libs lockstep-fortran)
    for p in ./fortran ./outside/fortran; do
        LD_LIBRARY_PATH=$libraries $p arrays ring.safetensors >fortran.log || { cat fortran.log; exit 1; }
    done
fi

"$prefix/bin/lockstep" --version
# Modules for MPI are found in the moved tree, by the program and by the library of a program outside.
if compgen -G "$build/modules/liblockstep-*.so" >/dev/null; then
    "$prefix/bin/lockstep" doctor --format json >doctor.json || true
    [[ $(<doctor.json) == *" in $libraries/lockstep\""* ]] || { echo 'the program finds no module'; exit 1; }
    cat >modules.c <<'END'
#include <lockstep/tools.h>
#include <stdio.h>
int main(void)
{
    lks_mpi_module module = {""};
    lks_mpi_modules(&module, 1, NULL, 0);
    return printf("%s\n", module.path) < 0;
}
END
    # shellcheck disable=SC2046  # a list of words
    cc -std=c11 -Wall -Werror modules.c -o modules $(pkg-config --cflags --libs lockstep)
    found=$(LD_LIBRARY_PATH=$libraries ./modules)
    [ "${found%/*}" = "$libraries/lockstep" ] || { echo "the library finds the module '$found'"; exit 1; }
fi
bash -n "$prefix/share/bash-completion/completions/lockstep"
if command -v man >/dev/null; then
    said=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l "$prefix/share/man/man1/lockstep.1" 2>&1 >man.txt)
    [ -z "$said" ] || { echo "the man page: $said"; exit 1; }
    grep -q 'EXIT STATUS' man.txt
fi
