#!/bin/sh
# Checks that every header compiles alone, as C and (the public one) as C++. usage: headers.sh BUILD-DIR
build=$1
cd "$(dirname "$0")/.." || exit 1
flags=$(pkg-config --cflags libuv grpc libprotobuf-c libnghttp2 sqlite3 2>/dev/null)
bad=0 count=0
for header in $(find base config proto lockmgr runtime cache pipeline client daemon tests -name '*.h' | sort); do
    count=$((count + 1))
    case $header in
    pipeline/codegen/*) extra=$(llvm-config-19 --cflags 2>/dev/null) ;;
    *) extra= ;;
    esac
    # shellcheck disable=SC2086
    echo "#include \"$header\"" | cc -std=gnu17 -D_GNU_SOURCE '-DNEFFD_VERSION="0"' -fsyntax-only -Wall -Wextra -Werror -Wno-unused-function -include base/banned.h \
        -I. -I"$build" -I"$build/proto" $flags $extra -x c - || { echo "$header does not compile alone"; bad=1; }
done
if [ -f client/neffd.h ]; then
    echo '#include "client/neffd.h"' | c++ -fsyntax-only -Wall -Wextra -Werror -I. -I"$build/proto" -x c++ - 2>/dev/null || {
        command -v c++ >/dev/null && { echo "client/neffd.h does not compile as C++"; bad=1; }
    }
fi
[ $bad = 0 ] && echo "$count headers compile alone"
exit $bad
