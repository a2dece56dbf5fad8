#!/usr/bin/env bash
# Makes Debian packages of a build and looks at what they say and hold; the program of one runs.
#   packages.sh BUILD    (77: skipped)
set -euo pipefail
build=$(cd "$1" && pwd)
for tool in cpack dpkg-deb dpkg-shlibdeps file; do
    command -v $tool >/dev/null || { echo "there is no $tool: skipped"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$folder" >cpack.log || { cat cpack.log; exit 1; }

expected() {
    cat <<'END'
lockstep science usr/bin/lockstep
liblockstep0.1 libs usr/lib*/liblockstep.so.0.1
liblockstep-dev libdevel usr/include/lockstep/lockstep.h
END
    for mpi in openmpi mpich; do
        [ ! -e "$build/modules/liblockstep-$mpi.so" ] ||
            echo "lockstep-$mpi science usr/lib*/lockstep/liblockstep-$mpi.so"
    done
}

# Package, section, and a file of each: no others are made. Modules alone depend on MPI.
while read -r package section file; do
    deb=$(echo "$package"_*.deb)
    [ "$(dpkg-deb -f "$deb" Section)" = "$section" ] || { echo "$deb: not in $section"; exit 1; }
    depends=$(dpkg-deb -f "$deb" Depends)
    [ -n "$depends" ] || { echo "$deb depends on nothing"; exit 1; }
    case $package/$depends in
    lockstep-openmpi/*libopenmpi* | lockstep-mpich/*libmpich*) ;;
    *mpi*) echo "$deb depends on $depends"; exit 1 ;;
    esac
    mkdir "$package" && dpkg-deb -x "$deb" "$package"
    for f in usr/share/doc/"$package"/copyright "$file"; do
        [ -n "$(find "$package" -path "$package/$f")" ] || { echo "$deb has no $f"; exit 1; }
    done
    if [ -n "$(find "$package" -perm /022 ! -type l)" ]; then echo "$deb: writable by all"; exit 1; fi
    rm "$deb"
done < <(expected)
[ -z "$(ls ./*.deb 2>/dev/null)" ] || { echo "unexpected: $(ls ./*.deb)"; exit 1; }
for f in lockstep/usr/share/doc/lockstep/{README.md,docs/program.md,configs/mlp.yaml} \
    liblockstep-dev/usr/share/doc/lockstep/examples/own_program.c; do
    [ -s "$f" ] || { echo "there is no $f"; exit 1; }
done
lockstep/usr/bin/lockstep --version
# zgrep would do, but a pipe into grep -q ends its left side by SIGPIPE when grep is quicker.
grep -q '^\.TH' <(gzip -dc lockstep/usr/share/man/man1/lockstep.1.gz)
grep -q '^# Changelog' <(gzip -dc lockstep/usr/share/doc/lockstep/changelog.gz)
