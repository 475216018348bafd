#!/bin/sh
# Installs into a private directory and uses what is there: programs answer, the library compiles and links by neffd.pc, a hit's worth of
# calls works. usage: install.sh BUILD-DIR
set -eu
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root meson install -C "$build" --no-rebuild --quiet >/dev/null
find "$root" -name neffd.pc | grep -q . || { echo "neffd.pc is not installed"; exit 1; }
find "$root" -path '*/bin/neffd' | grep -q . || { echo "bin/neffd is not installed"; exit 1; }
pc=$(dirname "$(find "$root" -name neffd.pc)")
prefix=$(dirname "$(dirname "$(find "$root" -path '*/bin/neffd')")")
for file in bin/neffctl bin/neffopt bin/neffcc libexec/neffd/neffcc-full include/neffd.h include/neffd_codes.h \
    share/man/man1/neffctl.1 share/man/man1/neffcc.1 share/man/man1/neffopt.1 share/man/man8/neffd.8 share/neffd/neffd.conf.sample lib/systemd/system/neffd.service; do
    [ -e "$prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done
library=$(dirname "$pc")
export LD_LIBRARY_PATH=$library
for program in neffd neffctl neffopt; do
    "$prefix/bin/$program" --version | grep -q "[0-9]\.[0-9]" || { echo "$program --version says nothing"; exit 1; }
done
cat >"$root/use.c" <<'C'
#include <neffd.h>
#include <stdio.h>
int main(void)
{
    neffd_client_options options = {.struct_size = sizeof(options), .local_dir = "/nonexistent", .offline = true};
    neffd_request request = {.struct_size = sizeof(request), .graph = "module {}", .graph_bytes = 9, .target = "cpu"};
    neffd_client *client = NULL;
    neffd_artifact *artifact = NULL;
    neffd_error err;
    if (neffd_client_open(&options, &client, &err) != NEFFD_OK)
        return 1;
    int rc = neffd_lookup(client, &request, &artifact, &err);
    neffd_client_close(client);
    printf("%s %s\n", neffd_version(), err.name);
    return rc == NEFFD_ENOTFOUND ? 0 : 1;
}
C
flags=$(PKG_CONFIG_PATH=$pc PKG_CONFIG_SYSROOT_DIR=$root pkg-config --cflags --libs neffd)
# shellcheck disable=SC2086
cc -Wall -Wextra -Werror "$root/use.c" -o "$root/use" $flags
NEFFD_CACHE_DIR=$root/cache NEFFD_LOCAL_DIR=$root/local "$root/use"
