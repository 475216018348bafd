"""Run by test_jaxlib.py under a Python that has jaxlib: one program in every form that jaxlib gives it.

usage: jaxlib_forms.py write (MODULE FOLDER)...   text and bytecode, with and without debug information, of several versions
       jaxlib_forms.py read FILE...               what jaxlib makes of each, as text in FILE.back.mlir
       jaxlib_forms.py hlo FILE...                XLA's own HloModuleProto of each, in FILE.hlo.pb; why not, in FILE.refused
"""
import sys

from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir import passmanager
from jaxlib.mlir.dialects import stablehlo

VERSIONS = ("1.0.0", "1.4.0", "1.9.0")


def text(module, path, **options):
    with open(path, "w") as f:
        module.operation.print(file=f, **options)


def portable(module, folder, name):
    for version in VERSIONS + (stablehlo.get_current_version(),):
        try:
            data = stablehlo.serialize_portable_artifact(module, version)
        except Exception:  # an operation that is younger than the version, or of a dialect that has no portable form
            continue
        with open(f"{folder}/{name}-{version}.mlir.bc", "wb") as f:
            f.write(data)


def write(*arguments):
    for path, folder in zip(arguments[::2], arguments[1::2]):
        write_one(path, folder)


def write_one(path, folder):
    with open(path, "rb") as f:
        module = ir.Module.parse(f.read())
    text(module, folder + "/pretty.mlir")
    text(module, folder + "/debug.mlir", enable_debug_info=True)
    text(module, folder + "/generic.mlir", print_generic_op_form=True)
    text(module, folder + "/generic-debug.mlir", print_generic_op_form=True, enable_debug_info=True)
    text(module, folder + "/local.mlir", use_local_scope=True)
    portable(module, folder, "debug")
    passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
    portable(module, folder, "stripped")


def read(*paths):
    for path in paths:
        with open(path, "rb") as f:
            data = f.read()
        if data[:4] == b"ML\xefR":
            module = stablehlo.deserialize_portable_artifact(ir.Context.current, data)
        elif path.endswith(".pb"):
            module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(data))
        else:
            module = ir.Module.parse(data)
        text(module, path + ".back.mlir")


def hlo(*paths):
    for path in paths:
        with open(path, "rb") as f:
            data = f.read()
        try:
            module = str(ir.Module.parse(data))
            computation = _jax.mlir.mlir_module_to_xla_computation(module, use_tuple_args=False, return_tuple=False)
        except Exception as e:
            with open(path + ".refused", "w") as f:
                f.write(str(e))
            continue
        with open(path + ".hlo.pb", "wb") as f:
            f.write(computation.as_serialized_hlo_module_proto())


if __name__ == "__main__":
    with mlir.make_ir_context():
        {"write": write, "read": read, "hlo": hlo}[sys.argv[1]](*sys.argv[2:])
