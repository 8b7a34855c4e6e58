"""Count what should only get better.

Of the library, calm_nb/ without _modidx.py, which nbdev writes. Lines: all of them, comments too. Syntax nodes: of the
tree, a line that holds more than a comment. Function lines: from `def` to the last. Public names: in the modules'
`__all__`. Modules in circles: those that reach themselves by imports, inside functions too, or by the name of a module
in a string.

Of the notebooks. Tests or shown: share of all cells, prose too, that are not exported and assert, call a test_…, or
have an output. Outputs without content: those that hold blank lines at most. Not valid: not of the notebooks' format.

LIMITS is what held when it was last set: no more than that, of tests no fewer. Only the names in ENFORCED can fail.
"""
import ast, json, re, statistics, sys
import nbformat
from pathlib import Path

LIMITS = {
    'lines': 17450, 'longest line': 130, '% lines over 120': .1, 'syntax nodes a line': 14.9,
    'function lines, median': 6,
    'function lines, 90 %': 15, 'function lines, most': 30, 'functions over 30': 0, 'public names': 505,
    'modules in circles': 0, '% tests or shown': 33, 'outputs without content': 0, 'notebooks not valid': 0}
ENFORCED = {'outputs without content', 'notebooks not valid', 'modules in circles', 'functions over 30',
            '% lines over 120'} # can fail

def imported(path, tree, modules):
    "Modules of the package that a module names anywhere in it."
    here, names = path.with_suffix('').parts, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import): names += [a.name for a in node.names]
        elif isinstance(node, ast.Constant): names.append(str(node.value))
        elif isinstance(node, ast.ImportFrom):
            base = '.'.join([*(here[:-node.level] if node.level else ()), *([node.module] if node.module else ())])
            names += [base, *(f'{base}.{a.name}' for a in node.names)]
    return modules & set(names) - {'.'.join(here)}

def in_circles(imports):
    "How many modules reach themselves."
    def reached(start):
        seen, waiting = set(), [start]
        while waiting:
            new = imports[waiting.pop()] - seen
            waiting += new
            seen |= new
        return seen
    return sum(m in reached(m) for m in imports)

def library(folder):
    "Counts of the modules."
    files = {p: p.read_text(encoding='utf-8') for p in sorted(folder.rglob('*.py')) if p.name != '_modidx.py'}
    trees = {p: ast.parse(text) for p, text in files.items()}
    lines = [line for text in files.values() for line in text.splitlines()]
    nodes = [n for tree in trees.values() for n in ast.walk(tree)]
    sizes = [n.end_lineno - n.lineno + 1 for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    written = [line for line in lines if line.strip() and not line.strip().startswith('#')]
    public = [n.value.elts for n in nodes if isinstance(n, ast.Assign) and getattr(n.targets[0], 'id', '') == '__all__']
    names = {p: '.'.join(p.with_suffix('').parts) for p in files}
    imports = {names[p]: imported(p, tree, set(names.values())) for p, tree in trees.items()}
    return {'lines': len(lines), 'longest line': max(map(len, lines)),
            '% lines over 120': 100*statistics.mean(len(line) > 120 for line in lines),
            'syntax nodes a line': len(nodes)/len(written), 'function lines, median': statistics.median(sizes),
            'function lines, 90 %': statistics.quantiles(sizes, n=10)[-1], 'function lines, most': max(sizes),
            'functions over 30': sum(s > 30 for s in sizes), 'public names': sum(map(len, public)),
            'modules in circles': in_circles(imports)}

def blank(output):
    "Whether an output shows nothing."
    parts = [output.get('text', ''), *output.get('data', {}).values()]
    return output['output_type'] != 'error' and not any(''.join(part).strip() for part in parts)

def notebooks(folder):
    "Counts of the notebooks' cells and outputs."
    cells = [c for p in sorted(folder.glob('*.ipynb')) for c in json.loads(p.read_text(encoding='utf-8'))['cells']]
    code = [(''.join(c['source']), c['outputs']) for c in cells if c['cell_type'] == 'code']
    exported = re.compile(r'^#\| *(export|default_exp)', re.M)
    apart = [(source, outputs) for source, outputs in code if not exported.search(source)]
    shown = sum(bool(outputs or re.search(r'\bassert\b|\btest_\w+\(', source)) for source, outputs in apart)
    blanks = sum(blank(o) for _, outputs in code for o in outputs)
    broken = sum(not valid(p) for p in folder.glob('*.ipynb'))
    return {'% tests or shown': 100*shown/len(cells), 'outputs without content': blanks, 'notebooks not valid': broken}

def valid(path):
    "Whether a notebook keeps to its format, without which no page is made of it."
    try: nbformat.validate(nbformat.read(path, as_version=4))
    except nbformat.ValidationError as error: return print(f'{path}: {str(error).splitlines()[0]}')
    return True

if __name__ == '__main__':
    worse = set()
    for name, n in {**library(Path('calm_nb')), **notebooks(Path('nbs'))}.items():
        n, limit = round(n, 1), LIMITS[name]
        if n < limit if name == '% tests or shown' else n > limit: worse.add(name)
        print(f'{name:24}{n:8g}' + f'   worse than {limit:g}'*(name in worse))
    sys.exit(bool(worse & ENFORCED))
