#!/bin/sh
# Test programs that take options know them: --help helps and does nothing else, what they do not know ends them with 2. usage: options.sh BUILD-DIR
build=$1
cd "$(dirname "$0")/.." || exit 1
bad=0
check() { # EXIT WORD COMMAND...
    want=$1 word=$2
    shift 2
    out=$(timeout 60 "$@" 2>&1)
    got=$?
    [ "$got" = "$want" ] || { echo "$*: exit $got instead of $want"; bad=1; }
    case $out in
    *"$word"*) ;;
    *) echo "$*: says nothing of '$word': $out"; bad=1 ;;
    esac
}
for program in "$build/tests/unit/codegen/random_programs" "$build/tests/benchmarks/model_run" tests/run tests/ir/run_ir.py tests/mutate; do
    check 0 usage: "$program" --help
    check 2 --nonsense "$program" --nonsense
done
program=$build/tests/unit/codegen/random_programs
check 2 "--count does not take '12x'" "$program" --count 12x
check 2 "--native does not take '0'" "$program" --native 0
check 2 usage: "$program" --count
check 0 "3 programs, 0 differ" "$program" --count 3 --seed=7
check 1 "1 programs, 1 differ" "$program" /nonexistent.mlir
check 2 "--tier does not take '-1'" "$build/tests/benchmarks/model_run" x --tier -1
check 2 usage: "$build/tests/benchmarks/model_run"
[ $bad = 0 ] && echo "options are known or refused"
exit $bad
