#!/bin/sh
# What tools/check_symbols finds, in small trees of a few objects each.
# Usage: check_symbols.sh CHECK_SYMBOLS; exit code 77: skipped.
set -eu
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }
command -v nm >/dev/null || { echo "skipped: there is no nm"; exit 77; }
check=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"

# object PATH CODE: a source below src/ or cli/, and its object as CMake puts it.
object() {
    case $1 in cli/*) folder=build/cli/CMakeFiles/program.dir/${1#cli/} ;;
        *) folder=build/src/CMakeFiles/${3:-library}.dir/${1#src/} ;; esac
    mkdir -p "$(dirname "$1")" "$(dirname "$folder")"
    echo "$2" >"$1"
    ${CC:-cc} -O0 -c "$1" -o "$folder.o"
}

# expect CODE LINE: what is found in the tree, which is empty again afterwards.
expect() {
    code=0
    found=$(python3 "$check" build) || code=$?
    [ "$code" = "$1" ] || { echo "exit code $code, expected $1: $found"; exit 1; }
    echo "$found" | grep -qxF "$2" || { echo "found '$found', expected '$2'"; exit 1; }
    rm -rf src cli build
}

low='int low(void) { return 1; }'
calls_low='int low(void); int high(void) { return low(); }'

object src/base/low.c "$low"
object src/model/high.c "$calls_low"
object cli/main.c 'int high(void); int main(void) { return high(); }'
expect 0 '3 objects, 0 offences'

object src/train/low.c "$low"
object src/recipe/high.c "$calls_low"
object src/base/table.c 'static int table[] = {1}; int *base_table(void) { return table; }'
object src/model/table.c 'int table[] = {2};' # another one
expect 0 '4 objects, 0 offences'

# Upwards, and to a neighbour; but core and op are one floor with two rooms.
object src/model/low.c "$low"
object src/base/high.c "$calls_low"
expect 1 'base/high.c: may not refer to low of model'
object src/train/low.c "$low"
object src/models/high.c "$calls_low"
expect 1 'models/high.c: may not refer to low of train'
object src/recipe/low.c 'int table[] = {1};'
object src/train/high.c 'extern int table[]; int high(void) { return table[0]; }'
expect 1 'train/high.c: may not refer to table of recipe'
object src/core/low.c "$low"
object src/op/high.c "$calls_low"
expect 0 '2 objects, 0 offences'

# A registry, for those who declare it.
find='int lki_backend_find(void)'
object src/backend/registry.c "$find { return 1; }"
object src/core/context.c "$find; int high(void) { return lki_backend_find(); }"
expect 0 '2 objects, 0 offences'
object src/backend/registry.c "$find { return 1; }"
object src/machine/context.c "$find; int high(void) { return lki_backend_find(); }"
expect 1 'machine/context.c: may not refer to lki_backend_find of backend'

# Names: two files', a copy that the compiler made, one file's loops for two processors, two programs' main.
walk='static int walk(void) { return 1; } int (*%s)(void) = walk;'
object src/base/a.c "$(printf "$walk" a)"
object src/model/b.c "$(printf "$walk" b)"
expect 1 'walk: functions of base/a.c, model/b.c have this name'
object src/base/a.c "static int walk(void) __asm__(\"walk.part.0\"); $(printf "$walk" a)"
object src/model/b.c "$(printf "$walk" b)"
expect 1 'walk: functions of base/a.c, model/b.c have this name'
object src/backend/loops.c "$(printf "$walk" a)" one
object src/backend/loops.c "$(printf "$walk" b)" two
expect 1 'walk: all 2 copies of backend/loops.c have this name: give it a line in backend/cpu/vector/names.h'
object src/backend/loops.c "#define walk walk_one
$(printf "$walk" a)" one
object src/backend/loops.c "#define walk walk_two
$(printf "$walk" b)" two
expect 0 '2 objects, 0 offences'

# What an earlier build has left is not looked at; a new folder and a build without objects are.
object src/base/gone.c "$calls_low"
object src/model/low.c "$low"
rm src/base/gone.c
expect 0 '1 objects, 0 offences'
object src/annex/new.c "$low"
expect 1 'annex/new.c: its folder is not known to tools/check_symbols'
expect 1 '0 objects, 0 offences'
