#!/usr/bin/env python3
"""Text cases of the pipeline: input, passes, expected output.

A file holds cases between lines `// =====`. A case is

    // passes: inline,fold          (or  // print, // generic, // canonical)
    input
    // ----- expected
    output                          (or  // error: LINE: part of the message)

The output is compared with what `neffopt` prints; white space at the ends of lines does not count. Prints TAP.
`run_ir.py --update` writes what neffopt prints into the files.
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def neffopt():
    build = os.environ.get('TEST_BUILD') or os.path.join(HERE, '..', '..', 'build')
    return os.path.join(build, 'bin', 'neffopt')


def cases(path):
    text = open(path).read()
    for number, block in enumerate(text.split('// =====\n')):
        lines = block.split('\n')
        head = next((l for l in lines if l.startswith('// passes:') or l in ('// print', '// generic', '// canonical')), None)
        if head is None:
            continue
        source, _, expected = block.partition('// ----- expected\n')
        yield number, head, source, expected


def run(head, source):
    if head.startswith('// passes:'):
        args = ['--passes=' + head.split(':', 1)[1].strip(), '--print']
    else:
        args = {'// print': ['--print'], '// generic': ['--print-generic'], '// canonical': ['--canonical']}[head]
    with tempfile.NamedTemporaryFile('w', suffix='.mlir') as f:
        f.write(source)
        f.flush()
        r = subprocess.run([neffopt(), f.name] + args, capture_output=True, text=True)
        return r.returncode, r.stdout, r.stderr.replace(f.name, 'FILE')


def clean(text):
    return '\n'.join(l.rstrip() for l in text.strip().split('\n'))


def judge(head, source, expected):
    code, out, err = run(head, source)
    want = clean(expected)
    if want.startswith('// error:'):
        line, part = want[len('// error:'):].split(':', 1)
        if code == 0:
            return 'accepted'
        if 'FILE:%s:' % line.strip() not in err or part.strip() not in err:
            return err.strip()
        return None
    if code != 0:
        return err.strip()
    if clean(out) != want:
        for a, b in zip(clean(out).split('\n'), want.split('\n')):
            if a != b:
                return 'got "%s", wanted "%s"' % (a.strip(), b.strip())
        return 'one is longer'
    return None


def update(path):
    blocks = open(path).read().split('// =====\n')
    for i, block in enumerate(blocks):
        for number, head, source, expected in cases(path):
            if number == i and not clean(expected).startswith('// error:'):
                code, out, err = run(head, source)
                if code != 0:
                    sys.exit('%s, case %d: %s' % (path, i, err))
                blocks[i] = source + '// ----- expected\n' + out + '\n'
    open(path, 'w').write('// =====\n'.join(b.rstrip('\n') + '\n' for b in blocks))


def main():
    files = sorted(os.path.join(HERE, f) for f in os.listdir(HERE) if f.endswith('.mlir'))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--update', action='store_true', help='write what neffopt prints into the files')
    if parser.parse_args().update:
        for f in files:
            update(f)
        return
    number = failed = 0
    for path in files:
        for case, head, source, expected in cases(path):
            number += 1
            why = judge(head, source, expected)
            failed += why is not None
            name = '%s %d %s' % (os.path.basename(path), case, head[3:])
            print(('ok' if why is None else 'not ok') + ' %d - %s' % (number, name) + ('' if why is None else '\n# ' + why.replace('\n', '\n# ')))
    print('1..%d' % number)
    sys.exit(1 if failed or not number else 0)


main()
