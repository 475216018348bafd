#!/usr/bin/env python3
"""Turns a serialised FileDescriptorSet into a C table for server reflection.

usage: embed_descriptors.py SET OUTPUT.c

Needs no protobuf package: the few fields of descriptor.proto that are wanted are read from the wire format here.
"""
import sys


def fields(data):
    """Yields (field number, value): bytes for length-delimited fields, int for varints."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
        elif kind == 2:
            length = varint()
            yield tag >> 3, data[at:at + length]
            at += length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            sys.exit(f"unexpected wire type {kind}")


def strings(data, number):
    return [value.decode() for n, value in fields(data) if n == number]


def message_symbols(data, scope):
    name = scope + strings(data, 1)[0]
    found = [name]
    for n, value in fields(data):
        if n == 3:  # nested_type
            found += message_symbols(value, name + ".")
        elif n == 4:  # enum_type
            found.append(name + "." + strings(value, 1)[0])
    return found


def file_symbols(data):
    package = strings(data, 2)
    scope = package[0] + "." if package else ""
    found = []
    for n, value in fields(data):
        if n == 4:  # message_type
            found += message_symbols(value, scope)
        elif n == 5:  # enum_type
            found.append(scope + strings(value, 1)[0])
        elif n == 6:  # service
            service = scope + strings(value, 1)[0]
            found.append(service)
            found += [service + "." + strings(method, 1)[0] for m, method in fields(value) if m == 2]
    return found


def main():
    source, target = sys.argv[1:]
    with open(source, "rb") as f:
        files = [value for n, value in fields(f.read()) if n == 1]
    out = ['#include "proto/rpc.h"\n', "extern const struct rpc_file rpc__files[];\n"]
    rows = []
    for i, data in enumerate(files):
        out.append(f"static const uint8_t bytes_{i}[] = {{")
        for at in range(0, len(data), 20):
            out.append("    " + " ".join(f"{b}," for b in data[at:at + 20]))
        out.append("};")
        for kind, names in (("symbols", file_symbols(data)), ("imports", strings(data, 3))):
            out.append(f"static const char *const {kind}_{i}[] = {{")
            out += [f'    "{name}",' for name in names]
            out.append("    NULL,\n};")
        rows.append(f'    {{"{strings(data, 1)[0]}", bytes_{i}, sizeof(bytes_{i}), symbols_{i}, imports_{i}}},')
    out.append("\nconst struct rpc_file rpc__files[] = {")
    out += rows
    out.append("    {NULL, NULL, 0, NULL, NULL},\n};\n")
    with open(target, "w") as f:
        f.write("\n".join(out))


main()
