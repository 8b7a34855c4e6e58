"""Change one thing in the library, and see whether a test notices: python .ci/mutate.py --each 8 --out mutants.csv

Each mutant is one change of one expression in an exported cell: an operator, a comparison, a number, a condition, a sum
for a mean, an argument left out. Functions that draw are left alone, tables of settings (constants of a module), which
a test could only repeat, and what writes files for tests. The chapter's own tests run on it, in a copy of the project;
a mutant that passes them is tried on the chapters that import the module, nearest first, as many as --next. Caught: a
test fails, or nothing ends within --limit times the usual seconds. What survives is printed, to be judged: a test is
missing, or the change means nothing, which the column `note` of the csv says; --again tries those without a note once
more.
"""
import argparse, ast, collections, csv, json, os, random, re, shutil, subprocess, sys, tempfile, time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
SWAPS = {ast.Add: '+-', ast.Sub: '-+', ast.Mult: '*/', ast.Div: '/*', ast.Mod: ('%', '//'), ast.Pow: ('**', '*')}
COMPARES = {ast.Lt: '<=', ast.LtE: '<', ast.Gt: '>=', ast.GtE: '>', ast.Eq: '!=', ast.NotEq: '==',
            ast.Is: 'is not', ast.IsNot: 'is', ast.In: 'not in', ast.NotIn: 'in'}
CALLS = dict(mean='sum', sum='mean', min='max', max='min', detach='clone', argmax='argmin', argmin='argmax',
             ceil='floor', any='all', all='any')

def places(source):
    "Changes of a cell: (start, end, new text), by offset."
    lines = [0]
    for line in source.encode().splitlines(keepends=True): lines.append(lines[-1] + len(line))
    raw = source.encode()
    at = lambda row, column: lines[row - 1] + column
    text = lambda a, b: raw[a:b].decode()
    span = lambda n: (at(n.lineno, n.col_offset), at(n.end_lineno, n.end_col_offset))
    tree = ast.parse(source)
    set_ups = [d for n in ast.walk(tree) if isinstance(n, ast.arguments) for d in (*n.defaults, *n.kw_defaults) if d]
    set_ups += [n for n in ast.walk(tree) if isinstance(n, (ast.Raise, ast.JoinedStr, ast.AnnAssign))]
    looks = re.compile('_?(draw|figure|label_traces|use_style|picture)') # judged by eye
    set_ups += [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and looks.match(n.name)]
    constants = [n for n in tree.body if isinstance(n, ast.Assign)]
    set_ups += [n for n in constants if text(*span(n.targets[0])).strip('_')[:1].isupper()]
    quiet = {id(m) for n in set_ups for m in ast.walk(n)} # words of messages, and defaults: choices, not claims
    for n in ast.walk(tree):
        if id(n) in quiet: continue
        if isinstance(n, ast.BinOp) and type(n.op) in SWAPS:
            (_, a), (b, _) = span(n.left), span(n.right)
            between, (old, new) = text(a, b), SWAPS[type(n.op)]
            if between.count(old) == 1 and '#' not in between: yield a, b, between.replace(old, new)
        elif isinstance(n, ast.Compare) and len(n.ops) == 1:
            (_, a), (b, _) = span(n.left), span(n.comparators[0])
            if '(' not in text(a, b) and ')' not in text(a, b): yield a, b, f' {COMPARES[type(n.ops[0])]} '
        elif isinstance(n, ast.BoolOp):
            (_, a), (b, _) = span(n.values[0]), span(n.values[1])
            word, other = ('and', 'or') if isinstance(n.op, ast.And) else ('or', 'and')
            if text(a, b).count(word) == 1: yield a, b, text(a, b).replace(word, other)
        elif isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not): yield span(n)[0], span(n.operand)[0], ''
        elif isinstance(n, ast.Constant) and type(n.value) in (int, float):
            if 0 < abs(n.value) <= 1e-3: continue # guards of divisions
            yield (*span(n), repr(n.value + 1 if type(n.value) is int else n.value*1.5))
        elif isinstance(n, ast.Constant) and type(n.value) is bool: yield (*span(n), repr(not n.value))
        elif isinstance(n, ast.Call):
            if isinstance(n.func, ast.Attribute) and n.func.attr in CALLS:
                end = span(n.func)[1]
                yield end - len(n.func.attr), end, CALLS[n.func.attr]
            for k in n.keywords:
                if k.arg and (len(n.args) or len(n.keywords) > 1):
                    a, b = span(k)
                    before = re.search(r',\s*$', text(0, a))
                    if before: yield a - len(before[0].encode()), b, ''

def mutants(notebook):
    "All changes of a chapter's exported cells: (id of the cell, start, end, new text)."
    cells = json.loads(notebook.read_text(encoding='utf-8'))['cells']
    for cell in cells:
        source = ''.join(cell['source'])
        if cell['cell_type'] != 'code' or not re.match(r'#\| *export', source): continue
        if 'import ' in source.split('\n')[1]: continue
        for a, b, new in places(source): yield cell['id'], a, b, new

def changed(notebook, i, a, b, new):
    "The chapter with a change, and the changed line before and after."
    nb = json.loads(notebook.read_text(encoding='utf-8'))
    cell = next(c for c in nb['cells'] if c['id'] == i)
    raw = ''.join(cell['source']).encode()
    cell['source'] = mutant = (raw[:a] + new.encode() + raw[b:]).decode()
    row = raw[:a].count(b'\n')
    return nb, raw.decode().splitlines()[row].strip(), mutant.splitlines()[row].strip()

def passes(project, name, seconds):
    "Whether a chapter's tests pass in time."
    settings = os.environ | dict(PYTHONPATH=str(project), OMP_NUM_THREADS='1')
    run = subprocess.Popen([str(HERE/'.venv/bin/nbdev_test'), '--path', f'nbs/{name}'], cwd=project, env=settings,
                           start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try: return run.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, 9)
        return False

def users(project, module):
    "Chapters that import a module, nearest first."
    named = re.compile(rf'from calm_nb\.{re.escape(module)} import|import calm_nb\.{re.escape(module)}\b')
    return [p.name for p in sorted((project/'nbs').glob('*.ipynb')) if named.search(p.read_text(encoding='utf-8'))]

def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--each', type=int, default=5, help='mutants of a chapter')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--next', type=int, default=1, help='further chapters asked about a survivor')
    parser.add_argument('--limit', type=float, default=4., help='times the usual seconds of a chapter')
    parser.add_argument('--only', default='', help='chapters, by the beginning of their names, separated by commas')
    parser.add_argument('--out', help='csv of all mutants; what it holds already is not tried again')
    parser.add_argument('--again', action='store_true', help='only what survived, and has no note, once more')
    args = parser.parse_args(argv)
    rows = list(csv.DictReader(open(args.out, encoding='utf-8'))) if args.out and Path(args.out).exists() else []
    def key(r): return r['chapter'], r['cell'], str(r['start']), r['after']
    left = {key(r): r for r in rows if args.again and not r['caught'] and not r['note']} # to be tried again
    rows = [r for r in rows if key(r) not in left]
    known = {key(r) for r in rows}
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)/'project'
        shutil.copytree(HERE, project, symlinks=True, ignore=shutil.ignore_patterns('.venv', 'runs', '.git'))
        for notebook in sorted((HERE/'nbs').glob('*.ipynb')):
            if args.only and not notebook.name.startswith(tuple(args.only.split(','))): continue
            module = re.search(r'#\| *default_exp ([\w.]+)', notebook.read_text(encoding='utf-8'))
            support = module and module[1].startswith(('writers', 'standins', 'testing'))
            everything = list(mutants(notebook)) if module and not support else []
            some = random.Random(f'{args.seed} {notebook.name}').sample(everything, min(args.each, len(everything)))
            if args.again:
                whole = [(m, changed(notebook, *m)[2]) for m in everything]
                some = [m for m, after in whole if (notebook.name, m[0], str(m[1]), after) in left]
            if not some: continue
            module, copy = module[1], project/'nbs'/notebook.name
            exported = project/'calm_nb'/f'{module.replace(".", "/")}.py'
            start = time.perf_counter()
            if not passes(project, notebook.name, 900): sys.exit(f'{notebook.name} fails as it is')
            usual = time.perf_counter() - start
            for i, a, b, new in some:
                nb, before, after = changed(notebook, i, a, b, new)
                if (notebook.name, i, str(a), after) in known: continue
                copy.write_text(json.dumps(nb), encoding='utf-8')
                caught = '' if passes(project, notebook.name, args.limit*usual + 20) else notebook.name
                others = [n for n in users(project, module) if n > notebook.name][:0 if caught else args.next]
                export, settings = [str(HERE/'.venv/bin/nbdev_export')], os.environ | dict(PYTHONPATH=str(project))
                if others: subprocess.run(export, cwd=project, env=settings, capture_output=True)
                for other in others:
                    if not caught and not passes(project, other, 900): caught = other
                rows.append(dict(chapter=notebook.name, module=module, cell=i, start=a, before=before, after=after,
                                 caught=caught, note=''))
                left.pop(key(rows[-1]), None)
                print(f'{"caught  " if caught else "SURVIVED"} {module}: {before}  ->  {after}', flush=True)
                shutil.copy(notebook, copy)
                shutil.copy(HERE/'calm_nb'/exported.relative_to(project/'calm_nb'), exported)
                if args.out:
                    with open(f'{args.out}.part', 'w', newline='', encoding='utf-8') as f:
                        writer = csv.DictWriter(f, rows[0].keys())
                        writer.writeheader()
                        writer.writerows([*rows, *left.values()])
                    os.replace(f'{args.out}.part', args.out)
    by = collections.defaultdict(list)
    for r in (rows := [*rows, *left.values()]):
        if not r['note']: by[r['module']].append(bool(r['caught']))
    for module, found in sorted(by.items()): print(f'{module:24} {sum(found)} of {len(found)}')
    tried = sum(map(len, by.values()))
    print(f'{sum(map(sum, by.values()))} of {tried} caught; {len(rows) - tried} more change nothing')

if __name__ == '__main__': main()
