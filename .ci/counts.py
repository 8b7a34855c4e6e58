"""Hold the library and the book against their limits; exits with 1 where anything is over: counts.py [--all]

Of a module of calm_nb/: lines (all of them), syntax nodes a written line (docstrings and comments left out), lines over
100 columns, imports of modules that stand after it, and whether a notebook exports it. Of a main chapter: cells, words,
lines of a shown cell and of an output, papermill parameters, and how soon a picture comes. Of all: lines, nodes, public
names, lines of tests and demonstrations. What is not yet rewritten may only shrink.
"""
import ast
import json
import re
import sys
from pathlib import Path

# Lines of each module, in the order of imports: a module imports only what stands above it.
BUDGETS = {
    'core': 226, 'layers': 150, 'training': 270, 'plots': 220, 'data': 448,
    'recordings.atanas': 200, 'recordings.tseng': 240, 'recordings.sun': 230, 'recordings.tracks': 126,
    # of the reserve 176 lines: each format is asked what it says, and each doubt has its own sentence
    'recordings.formats': 368, 'recordings.objects': 141, 'recordings.files': 487,
    'simulation': 220, 'ceilings': 150, 'tasks': 310, 'fixtures': 180, 'datasets': 141,
    'nq': 425, 'dat': 586, 'calm': 337, 'scores': 430, 'baselines.linear': 367, 'baselines.networks': 470,
    'heads': 480, 'baselines.decoders': 350, 'analyses': 480, 'variants': 160,
    'signal': 250, 'report': 300, 'command': 180, 'workflow': 295}
COLUMNS, NODES, ALL_NODES = 100, 13, 12
LINES, PUBLIC, TESTS = 9300, 215, 6500
CHAPTER = dict(cells=40, words=1000, shown=25, printed=25, parameters=10, picture=7)

# Not yet rewritten: their sizes may only fall, to nothing.
FIRST = 14795 # lines of calm_nb/first
OLD_CHAPTERS = {
    '06_decode': dict(cells=56, words=2222, shown=42, printed=201, parameters=15, picture=17),
    '07_interpret': dict(cells=43, words=1352, shown=37, printed=321, parameters=14, picture=13),
    '08_ablation': dict(cells=41, words=1967, shown=25, printed=54, parameters=14, picture=8),
    '08a_scaling': dict(cells=28, words=1191, shown=54, printed=395, parameters=20, picture=12),
    '08b_shipped': dict(cells=16, words=788, shown=48, printed=25, parameters=12, picture=999),
}


def notebooks(folder='nbs'):
    for path in sorted(Path(folder).rglob('*.ipynb')):
        if '.ipynb_checkpoints' not in path.parts: yield path


def cells_of(path): return json.loads(path.read_text(encoding='utf-8'))['cells']


def code_of(cells): return [''.join(c['source']) for c in cells if c['cell_type'] == 'code']


def exported_modules():
    "Names of the modules that notebooks export."
    pattern = re.compile(r'^#\|\s*default_exp\s+(\S+)', re.M)
    return {m[1] for path in notebooks() for source in code_of(cells_of(path)) if (m := pattern.search(source))}


def docstrings(tree):
    "Numbers of the lines of docstrings that stand on lines of their own."
    lines = set()
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) or not node.body: continue
        first = node.body[0]
        text = isinstance(first, ast.Expr) and isinstance(getattr(first.value, 'value', None), str)
        if text and first.lineno != getattr(node, 'lineno', 0):
            lines |= set(range(first.lineno, first.end_lineno + 1))
    return lines


def imports_of(tree, name):
    "Names of the library's modules that a module imports, also inside functions."
    package = ['calm_nb', *name.split('.')[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import): yield from (a.name for a in node.names)
        if isinstance(node, ast.ImportFrom):
            above = package[:len(package) + 1 - node.level] if node.level else []
            module = '.'.join([*above, *([node.module] if node.module else [])])
            yield from (module, *(f'{module}.{a.name}' for a in node.names))


def measure_module(path, name):
    text = path.read_text(encoding='utf-8')
    lines, tree = text.splitlines(), ast.parse(text)
    prose, generated, public = docstrings(tree), set(), []
    for node in tree.body: # nbdev writes __all__
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', '') == '__all__':
            generated = set(range(node.lineno, node.end_lineno + 1))
            public = [e.value for e in node.value.elts]
    written = sum(bool(x.strip()) and x.strip()[0] != '#' and i not in prose for i, x in enumerate(lines, 1))
    wide = sum(len(x) > COLUMNS and i not in generated for i, x in enumerate(lines, 1))
    used = {x.removeprefix('calm_nb.') for x in imports_of(tree, name) if x.startswith('calm_nb.')}
    return dict(lines=len(lines), nodes=sum(1 for _ in ast.walk(tree)), written=written, wide=wide, public=public,
                used=used)


def faults_of_module(name, m, exported):
    order, budget = list(BUDGETS), BUDGETS.get(name)
    if budget is None: yield f'{m["lines"]} lines in no budget'
    elif m['lines'] > budget: yield f'{m["lines"]} lines of {budget}'
    if m['nodes'] > NODES*m['written']: yield f'{m["nodes"]/m["written"]:.1f} nodes a line, at most {NODES}'
    if m['wide']: yield f'{m["wide"]} lines over {COLUMNS} columns'
    if name not in exported: yield 'no notebook exports it'
    if any(x.split('.')[0] == 'first' for x in m['used']): yield 'imports edition 1'
    if name in order:
        above = sorted(x for x in m['used'] if x in order and order.index(x) >= order.index(name))
        if above: yield f'imports from above: {", ".join(above)}'


def measure_chapter(cells):
    code = [(c, ''.join(c['source'])) for c in cells if c['cell_type'] == 'code' and ''.join(c['source']).strip()]
    hidden = {id(c) for c, s in code if re.search(r'^#\|\s*hide\s*$', s, re.M)}
    visible = [c for c in cells if id(c) not in hidden]
    outputs = [(i, o) for i, c in enumerate(visible) for o in c.get('outputs', [])]
    texts = [o.get('text') or o.get('data', {}).get('text/plain') or '' for _, o in outputs]
    pictures = [i for i, o in outputs if any(k.startswith('image/') for k in o.get('data', {}))]
    pictures += [i for i, c in enumerate(visible) if c['cell_type'] == 'markdown' and '![' in ''.join(c['source'])]
    parameters = [''.join(c['source']) for c in cells if 'parameters' in c['metadata'].get('tags', [])]
    names = [t for p in parameters for n in ast.parse(p).body if isinstance(n, ast.Assign)
             for t in getattr(n.targets[0], 'elts', [n.targets[0]])]
    tests = [s for _, s in code if not re.search(r'^#\|\s*exports?i?\b', s, re.M)]
    return dict(
        cells=len(visible), parameters=len(names), picture=min(pictures, default=999),
        words=sum(len(''.join(c['source']).split()) for c in cells if c['cell_type'] == 'markdown'),
        shown=max((len(s.splitlines()) for c, s in code if not re.search(r'^#\|\s*(hide|export)', s, re.M)), default=0),
        printed=max((len(''.join(t).splitlines()) for t in texts), default=0),
        tests=sum(bool(x.strip()) and x.strip()[0] != '#' for s in tests for x in s.splitlines()))


def limits_of(name):
    "Limits of a main chapter; those of 01 to 04 grow the library in front of the reader and may be longer."
    building = re.match(r'0[1-4]_', name)
    return OLD_CHAPTERS.get(name) or CHAPTER | (dict(cells=80, words=1600) if building else {})


def main(show_all):
    over, modules, tests = [], {}, 0
    exported = exported_modules()
    for path in sorted(Path('calm_nb').rglob('*.py')):
        name = '.'.join(path.relative_to('calm_nb').with_suffix('').parts)
        if name == '_modidx' or path.name == '__init__.py' or name.startswith('first.'): continue
        m = modules[name] = measure_module(path, name)
        over += [f'module {name}: {fault}' for fault in faults_of_module(name, m, exported)]
        if show_all: print(f'{name:22} {m["lines"]:4} lines {m["nodes"]/m["written"]:5.1f} nodes a line')
    for path in notebooks():
        if path.parent.name == 'first': continue
        c = measure_chapter(cells_of(path))
        tests += c['tests']*(path.stem not in OLD_CHAPTERS)
        if show_all: print(f'{path.stem:22}', c)
        main_chapter = path.parent.name == 'nbs' and (re.match(r'\d\d_', path.name) or path.stem in OLD_CHAPTERS)
        if not main_chapter: continue
        over += [f'{path}: {c[k]} {k}, at most {v}' for k, v in limits_of(path.stem).items() if c[k] > v]
    names = {n for m in modules.values() for n in m['public']}
    sums = dict(lines=sum(m['lines'] for m in modules.values()), public=len(names))
    nodes = sum(m['nodes'] for m in modules.values())/sum(m['written'] for m in modules.values())
    first = sum(len(p.read_text(encoding='utf-8').splitlines()) for p in Path('calm_nb/first').rglob('*.py'))
    limits = (('lines of library', sums['lines'], LINES), ('public names', sums['public'], PUBLIC),
              ('nodes a line', round(nodes, 1), ALL_NODES), ('lines of tests and demonstrations', tests, TESTS),
              ('lines of edition 1', first, FIRST))
    over += [f'{value} {what}, at most {limit}' for what, value, limit in limits if value > limit]
    stale = sorted({m for m in exported if not Path('calm_nb', *m.split('.')).with_suffix('.py').exists()})
    over += [f'{m} is exported by a notebook and not there: make export' for m in stale]
    frozen = [p.relative_to('calm_nb').with_suffix('') for p in Path('calm_nb/first').rglob('*.py')]
    first_modules = {'.'.join(p.parts) for p in frozen}
    strays = sorted(m for m in first_modules - exported if not m.endswith('__init__'))
    over += [f'calm_nb/{m.replace(".", "/")}.py: no notebook exports it; delete it' for m in strays]
    for line in over: print('over:', line)
    print(f'{len(modules)} modules, {sums["lines"]} lines, {nodes:.1f} nodes a line, {sums["public"]} public names; '
          f'{tests} lines of tests and demonstrations; {first} lines of edition 1; {len(over)} over')
    return bool(over)


if __name__ == '__main__': sys.exit(main('--all' in sys.argv))
