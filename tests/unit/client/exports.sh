#!/bin/sh
# exports.sh LIBNEFFD.SO HEADER_DIR CODES_DIR: the library exports all of neffd.h and nothing else, needs no heavy library, and
# its header is C++ too.
set -u
lib=$1 header=$2 codes=$3 bad=0
say() { echo "exports.sh: $*"; bad=1; }

nm -D --defined-only "$lib" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort -u > "${TMPDIR:-/tmp}/exports.$$"
trap 'rm -f "${TMPDIR:-/tmp}/exports.$$"' EXIT
grep -v '^neffd_' "${TMPDIR:-/tmp}/exports.$$" | grep -v '^__' | while read -r s; do echo "$s"; done | grep . && say "exports other names than neffd_*"
declared=$(sed 's|/\*.*\*/||' "$header/neffd.h" | grep -o '\bneffd_[a-z0-9_]*(' | tr -d '(' | sort -u | grep -v '^neffd_event_fn$')
[ "$(echo "$declared" | wc -l)" -gt 15 ] || say "found too few declarations in neffd.h"
for f in $declared; do
    grep -qx "$f" "${TMPDIR:-/tmp}/exports.$$" || say "$f is declared, but not exported"
done
for n in $(readelf -d "$lib" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p'); do
    case $n in
    libnghttp2.*|libprotobuf-c.*|libnettle.*|libxxhash.*|libz.*|libc.*|libm.*|ld-linux*|libpthread.*|libdl.*|libasan.*|libubsan.*|libtsan.*|libgcc_s.*) ;;
    *) say "needs $n" ;;
    esac
done
cxx=$(command -v c++ || command -v g++ || command -v clang++) || { echo "SKIP: no C++ compiler"; exit 77; }
for std in c++11 c++17; do
    printf '#include "neffd.h"\nint main() { neffd_request r = neffd_request(); r.struct_size = sizeof r; return r.priority; }\n' |
        "$cxx" -x c++ -std=$std -Wall -Wextra -pedantic -Werror -I"$header" -I"$codes" -fsyntax-only - || say "neffd.h is not $std"
done
exit $bad
