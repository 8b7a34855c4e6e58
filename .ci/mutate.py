"""Change one thing in the library and see whether a test notices: python .ci/mutate.py --only nbs/lib/core --each 20

A mutant is one small change in one exported cell: another operator, comparison, number or default, a dropped call,
term, keyword or slice bound, swapped arguments. Figures, messages and annotations are left alone. In a copy of the
project the notebook with the mutant is exported and tested, then the next --next notebooks that import its module.
Caught: a test fails, or does not end in --limit times the usual seconds. A mutant that SURVIVED is to be judged: a test
is missing, or the change means nothing.
"""
import argparse, ast, json, os, random, re, resource, shutil, signal, subprocess, sys, tempfile, time
from collections import defaultdict
from pathlib import Path
import pandas as pd
ROOT = Path(__file__).resolve().parents[1]
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv,
             ast.FloorDiv: ast.Div, ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr,
             ast.BitOr: ast.BitAnd}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
               ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
OTHER_CALLS = dict(mean='sum', sum='mean', min='max', max='min', argmin='argmax', argmax='argmin', floor='ceil',
                   ceil='floor', any='all', all='any', minimum='maximum', maximum='minimum', zeros='ones')
LOOKS = ('draw_', '_draw_', 'use_style', 'save_figure', 'figure_')  # judged by eye


def variants(node, default=False):
    "Yield the changes of one syntax node: kind, the node in its place."
    match node:
        case ast.Constant(value=bool() as value): yield 'constant', ast.Constant(not value)
        case ast.Constant(value=int() as value): yield 'constant', ast.Constant(value + 1)
        case ast.Constant(value=float() as value): yield 'constant', ast.Constant(2*value or 1.)
        case ast.Constant(value=str() as value) if default: yield 'constant', ast.Constant(value + '_')
        case ast.UnaryOp(operand=operand): yield 'dropped sign', operand
        case ast.BinOp(left=left, op=op, right=right):
            yield 'dropped term', left
            yield 'dropped term', right
            if type(op) in OPERATORS: yield 'operator', ast.BinOp(left, OPERATORS[type(op)](), right)
            if not isinstance(op, (ast.Add, ast.Mult)): yield 'swapped', ast.BinOp(right, op, left)
        case ast.BoolOp(op=op, values=values):
            yield 'and, or', ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for part in values: yield 'dropped term', ast.BoolOp(op, [other for other in values if other is not part])
        case ast.Compare(left=left, ops=ops, comparators=others):
            for i, op in enumerate(ops):
                changed = [*ops[:i], COMPARISONS[type(op)](), *ops[i + 1:]]
                yield 'comparison', ast.Compare(left, changed, others)
        case ast.If(body=body, orelse=other) | ast.IfExp(body=body, orelse=other):
            for value in (True, False): yield 'condition', type(node)(ast.Constant(value), body, other)
        case ast.Slice():
            bounds = dict(lower=node.lower, upper=node.upper, step=node.step)
            for name, bound in bounds.items():
                if bound is None: continue
                yield 'dropped bound', ast.Slice(**bounds | {name: None})
                yield 'bound', ast.Slice(**bounds | {name: ast.BinOp(bound, ast.Add(), ast.Constant(1))})
        case ast.Call(): yield from call_variants(node)
        case ast.Expr(value=ast.Call()) | ast.AugAssign(): yield 'dropped statement', ast.Pass()

def call_variants(call):
    "Yield another function, the call left out, two arguments swapped, a keyword dropped."
    function, args, keywords = call.func, call.args, call.keywords
    if isinstance(function, ast.Name) and function.id in OTHER_CALLS:
        yield 'other call', ast.Call(ast.Name(OTHER_CALLS[function.id]), args, keywords)
    if isinstance(function, ast.Attribute):
        if function.attr in OTHER_CALLS:
            yield 'other call', ast.Call(ast.Attribute(function.value, OTHER_CALLS[function.attr]), args, keywords)
        if not isinstance(function.value, ast.Name): yield 'dropped call', function.value  # x[0].copy() -> x[0]
    if len(args) == 1 and not isinstance(args[0], ast.Starred): yield 'dropped call', args[0]  # sorted(x) -> x

    for i in range(len(args) - 1):
        if any(isinstance(argument, ast.Starred) for argument in args[i:i + 2]): continue
        yield 'swapped', ast.Call(function, [*args[:i], args[i + 1], args[i], *args[i + 2:]], keywords)
    for keyword in keywords:
        yield 'dropped keyword', ast.Call(function, args, [other for other in keywords if other is not keyword])

def left_alone(tree):
    "Return the ids of nodes that are not changed: messages, annotations, decorators, figures."
    parts = []
    for node in ast.walk(tree):
        match node:
            case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom(): parts.append(node)
            case ast.Expr(value=ast.Call(func=ast.Name(id='print'))): parts.append(node)
            case ast.arg(annotation=note) | ast.AnnAssign(annotation=note): parts.append(note)
            case ast.FunctionDef(name=name):
                parts += [*node.decorator_list, node.returns]
                if name.startswith(LOOKS): parts.append(node)
            case ast.ClassDef(): parts += node.decorator_list
    return {id(inner) for part in parts if part for inner in ast.walk(part)}

def defaults_of(tree):
    "Return the ids of the defaults of arguments and of a class's fields."
    parts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments): parts += [*node.defaults, *node.kw_defaults]
        if isinstance(node, ast.AnnAssign): parts.append(node.value)
    return {id(inner) for part in parts if part for inner in ast.walk(part)}

class Put(ast.NodeTransformer):
    "Put a node in the place of another."
    def __init__(self, old, new): self.old, self.new = old, new
    def visit(self, node): return self.new if node is self.old else self.generic_visit(node)

def mutants_of(source):
    "Return the mutants of a cell: kind, what is changed, the cell with the change (comments are lost but directives)."
    tree, found = ast.parse(source), {}
    quiet, defaults = left_alone(tree), defaults_of(tree)
    directives = re.findall(r'^#\|.*$', source, re.M)
    for i, node in enumerate(ast.walk(tree)):
        if id(node) in quiet: continue
        default = id(node) in defaults
        for k in range(len(list(variants(node, default)))):
            fresh = ast.parse(source)  # a change is made in place
            old = list(ast.walk(fresh))[i]
            kind, new = list(variants(old, default))[k]
            change = f'{ast.unparse(old)}  ->  {ast.unparse(new)}'
            text = '\n'.join([*directives, ast.unparse(Put(old, new).visit(fresh))])
            found.setdefault(text, ('default' if default else kind, change))
    found.pop('\n'.join([*directives, ast.unparse(tree)]), None)  # a change that changes nothing
    return [(kind, change, text) for text, (kind, change) in found.items()]

def module_of(path):
    found = re.search(r'#\| *default_exp +([\w.]+)', path.read_text(encoding='utf-8'))
    return found and found[1]

def notebooks():
    "Return all notebooks in reading order, plumbing first, the frozen edition left out."
    every = [path.relative_to(ROOT) for path in (ROOT/'nbs').rglob('*.ipynb')]
    return sorted((path for path in every if path.parts[1] != 'first'), key=lambda path: (path.parts[1] != 'lib', path))

def mutants(path, each, seed):
    "Draw mutants of a notebook, every kind as often: number of the cell, kind, change, source."
    kinds, rng = defaultdict(list), random.Random(f'{seed} {path}')
    for number, cell in enumerate(json.loads((ROOT/path).read_text(encoding='utf-8'))['cells']):
        source = ''.join(cell['source'])
        if cell['cell_type'] != 'code' or not re.search(r'^#\| *export', source, re.M): continue
        for mutant in mutants_of(source): kinds[mutant[0]].append((number, *mutant))
    for some in kinds.values(): rng.shuffle(some)
    order = [(k, rng.random(), mutant) for some in kinds.values() for k, mutant in enumerate(some)]
    return [mutant for *_, mutant in sorted(order)][:each]

def run(project, command, seconds):
    "Run a command in the copy, with fresh runs and 8 GB; return what it printed and its exit code, or 'too slow'."
    def bounded(): resource.setrlimit(resource.RLIMIT_AS, (8*2**30,)*2)
    with tempfile.TemporaryDirectory() as runs:
        env = os.environ | dict(PYTHONPATH=str(project), OMP_NUM_THREADS='1', IN_TEST='1', CALM_NB_RUNS=runs)
        child = subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, start_new_session=True, preexec_fn=bounded)
        try: return child.communicate(timeout=seconds)[0], child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # its own group: the child and what it started
            return child.communicate()[0], 'too slow'

def export(project, path):
    code = f'from nbdev.export import nb_export; nb_export({str(project/path)!r}, lib_path={str(project/"calm_nb")!r})'
    said, ended = run(project, [sys.executable, '-c', code], 300)
    if ended: sys.exit(f'{path} cannot be exported:\n{said}')

def test(project, path, seconds=900):
    nbdev_test = Path(sys.executable).with_name('nbdev_test')
    return run(project, [nbdev_test, '--path', project/path, '--n_workers', '0', '--do_print'], seconds)

def catcher(project, path, number, text, seconds, following):
    "Return the notebook whose tests catch a mutant, or ''."
    notebook = json.loads((ROOT/path).read_text(encoding='utf-8'))
    notebook['cells'][number]['source'] = text.splitlines(keepends=True)
    (project/path).write_text(json.dumps(notebook), encoding='utf-8')
    export(project, path)
    if test(project, path, seconds)[1]: return str(path)
    imported = rf'(from|import) calm_nb\.{re.escape(module_of(ROOT/path))}\b'
    others = [nb for nb in notebooks() if nb != path and re.search(imported, (ROOT/nb).read_text(encoding='utf-8'))]
    return next((str(nb) for nb in others[:following] if test(project, nb)[1]), '')

def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--each', type=int, default=10, help='mutants of each notebook, drawn by --seed')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--only', nargs='*', default=[''], help='how the paths of notebooks begin: nbs/lib/core nbs/02')
    parser.add_argument('--next', type=int, default=0, help='importing notebooks that are asked besides')
    parser.add_argument('--limit', type=float, default=4., help='times the usual seconds, after which a test hangs')
    parser.add_argument('--out', help='a csv of all mutants')
    args = parser.parse_args()
    rows, caught = [], defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)/'project'
        shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns('.venv', 'runs', '.git', 'pages'))
        where, _ = run(project, [sys.executable, '-c', 'import calm_nb; print(calm_nb.__file__)'], 60)
        if not where.startswith(str(project)): sys.exit(f'{where}: the tests would import this one, not the copy')
        for path in [path for path in notebooks() if str(path).startswith(tuple(args.only))]:
            if not module_of(ROOT/path): continue # nothing exported
            start = time.monotonic()
            said, ended = test(project, path)
            if ended: sys.exit(f'{path} fails as it is:\n{said[-2000:]}')
            seconds = args.limit*(time.monotonic() - start) + 20
            for number, kind, change, text in mutants(path, args.each, args.seed):
                by = catcher(project, path, number, text, seconds, args.next)
                print('caught  ' if by else 'SURVIVED', f'{path} cell {number}, {kind}: {change[:300]}', flush=True)
                rows.append(dict(notebook=path, cell=number, kind=kind, change=change, caught=by))
            shutil.copy(ROOT/path, project/path)
            export(project, path)
    if args.out: pd.DataFrame(rows).to_csv(args.out, index=False)
    for row in rows: caught[module_of(ROOT/row['notebook'])].append(bool(row['caught']))
    for module, found in caught.items(): print(f'{module:24} {sum(found)} of {len(found)} caught')

if __name__ == '__main__': main()
