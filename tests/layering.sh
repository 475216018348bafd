#!/bin/sh
# Checks every #include against the layers: a folder uses only what stands below it, neighbours do not see each other, and a
# library of others is used in one folder. Prints what breaks the rule; exit status 1 if anything does.
cd "$(dirname "$0")/.." || exit 1

# Each file with its own headers. Order of rules in `allowed`: the first that matches the file decides.
find base config proto lockmgr runtime cache pipeline client daemon -name '*.[ch]' | sort | xargs awk '
function fail(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; bad = 1 }

# The folders (or files) of ours that a file may include, as a pattern.
function ours(file) {
    if (file ~ /^base\//) return "^base/"
    if (file ~ /^config\//) return "^(base|config)/"
    if (file ~ /^proto\//) return "^(base|proto)/"
    if (file ~ /^lockmgr\//) return "^(base|lockmgr)/"
    if (file ~ /^runtime\//) return "^(base|config|runtime)/"
    if (file ~ /^cache\//) return "^(base|config|proto|cache)/"
    # A program puts libraries together: neffopt prints front keys as the client computes them.
    if (file ~ /^pipeline\/tools\//) return "^(base|config|proto|runtime|pipeline)/|^cache/key\\.h$"
    if (file ~ /^pipeline\//) return "^(base|config|proto|runtime|pipeline)/"
    # neffcc without a daemon compiles by itself.
    if (file ~ /^client\/(neffcc|cc\/)/) return "^(base|config|proto|lockmgr|runtime|cache|client)/|^pipeline/(driver/|hlo/|target\\.h|pipeline\\.h|side\\.h)"
    # neffctl reads and repairs a cache where no daemon is needed.
    if (file ~ /^client\/(neffctl|ctl\/)/) return "^(base|config|proto|runtime|cache|client)/|^pipeline/(driver/drv_flags\\.h|hlo/|target\\.h|pipeline\\.h)"
    if (file ~ /^client\//) return "^(base|config|proto|runtime|client)/|^cache/(key|read|explain)\\.h$|^pipeline/hlo/"
    if (file ~ /^daemon\//) return "^(base|config|proto|lockmgr|runtime|cache|pipeline|daemon)/"
    return "^$"
}

# Who may include a library of others.
function theirs(header, file) {
    if (header ~ /^(uv\.h|grpc\/)/) return file ~ /^daemon\//
    if (header ~ /^nghttp2\//) return file ~ /^client\//
    if (header ~ /^sqlite3\.h/) return file ~ /^cache\//
    if (header ~ /^llvm-c\//) return file ~ /^pipeline\/codegen\//
    if (header ~ /^(nettle\/|xxhash\.h)/) return file ~ /^base\//
    if (header ~ /^protobuf-c\//) return file ~ /^proto\//
    if (header ~ /^json-c\//) return file ~ /^(client|pipeline\/tools|runtime)\//
    return 1
}

FNR == 1 { first = "" }
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    header = part[2]
    if (header ~ /\.def$|^neffd_codes\.h$|^neffd\.h$/ && header !~ /^(daemon|client|pipeline|cache)\//) next
    if (header !~ /\//) { fail("\"" header "\" does not start at the root"); next }
    if (header !~ ours(FILENAME)) fail("may not include \"" header "\"")
    if (first == "" && FILENAME ~ /\.c$/) {
        first = header
        own = FILENAME
        sub(/\.c$/, ".h", own)
        if (header != own && (getline line < own) >= 0) fail("does not include its own header first")
        close(own)
    }
}
/^[ \t]*#[ \t]*include[ \t]*</ {
    split($0, part, /[<>]/)
    if (!theirs(part[2], FILENAME)) fail("may not include <" part[2] ">")
}
END { exit bad }
' && echo "every include keeps to the layers"
