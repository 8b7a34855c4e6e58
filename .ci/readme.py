"Write README.md's tables and list of chapters from figures/ and nbs/: readme.py [--check]"
import json
import re
import sys
from pathlib import Path

from calm_nb.scores import by_unit, read_table

FORECASTS = { # what -> table, split
    'simulated networks': ('simulation-single', 'single'),
    'worms': ('atanas-blocks', 'held-in'),
    'mice': ('hippocampus-multi', 'held-in'),
    'new mice': ('hippocampus-multi', 'held-out')}
MODELS = {name: [name] for name in (
    'CalM', 'CalM + linear', 'Linear', 'ridge VAR', 'conditional table', 'climatology')}
MODELS |= {'best network': ['TCN', 'PatchTST', 'iTransformer', 'POCO'], 'best possible': ['Oracle']}
DECODED = { # what -> table, split
    'simulated mice': ('simulation-task-small', 'held-in'), 'worms': ('atanas-small', 'held-in'),
    'mice': ('hippocampus-small', 'held-in'), 'new mice': ('hippocampus-small', 'held-out')}
DECODERS = {'CalM': ['CalM-GLU'], 'CalM, ridge': ['CalM-ridge'], 'ridge': ['Ridge'], 'GLM': ['GLM-window'],
            'POYO+': ['POYO+'], 'time in the trial': ['Clock']}

BOUNDS = 'best possible', 'time in the trial' # no rivals


def means(path, split, metric):
    "Mean of each model over animals, or over sessions where a table of edition 1 does not name animals."
    scores = read_table(path)
    if 'subject' not in scores: scores['subject'] = scores.session
    return by_unit(scores, metric).loc[split].mean()


def row(values, models, better):
    "A cell per column, the best of those that compete in bold."
    cells = {}
    for column, names in models.items():
        there = better*values.reindex(names).dropna()
        cells[column] = better*there.max() if len(there) else None
    rivals = [x for column, x in cells.items() if x is not None and column not in BOUNDS]
    best = max(rivals, key=lambda x: better*x)
    def text(x): return '–' if x is None else f'**{x:.2f}**' if x == best else f'{x:.2f}'
    return [text(x) for x in cells.values()]


def markdown(head, rows):
    return '\n'.join(f'|{"|".join(line)}|' for line in [head, ['---']*len(head), *rows])


def forecasts(figures):
    rows = []
    for what, (label, split) in FORECASTS.items():
        for metric, better in (('corr', 1), ('crps', -1)):
            values = means(figures/'forecast'/label/'forecast_sessions.csv', split, metric)
            rows.append([what, 'r' if metric == 'corr' else 'CRPS ↓', *row(values, MODELS, better)])
    return markdown(['forecast', '', *MODELS], rows)


def decoded(figures):
    rows = []
    for what, (label, split) in DECODED.items():
        values = means(figures/label/'decode_sessions.csv', split, 'r2_concat')
        rows.append([what, *row(values, DECODERS, 1)])
    return markdown(['decode, R²', *DECODERS], rows)


def chapters(notebooks):
    links = []
    for path in sorted(notebooks.glob('[01]*.ipynb')):
        title = ''.join(json.loads(path.read_text(encoding='utf-8'))['cells'][0]['source']).splitlines()[0]
        links.append(f'[{path.stem.split("_")[0]} {title.lstrip("# ").rstrip("?")}](nbs/{path.name})')
    return ' ·\n'.join(links)


def main(check):
    readme, figures = Path('README.md'), Path('figures')
    before = after = readme.read_text(encoding='utf-8')
    parts = dict(forecasts=forecasts(figures), decoded=decoded(figures), chapters=chapters(Path('nbs')))
    for name, text in parts.items():
        part = re.compile(rf'(<!-- {name} -->\n).*?(<!-- end -->)', re.S)
        if not part.search(after): sys.exit(f'README.md has no part <!-- {name} -->')
        after = part.sub(lambda match: match[1] + text + '\n' + match[2], after)
    if check and after != before: sys.exit('README.md is not what the tables say: make readme, and commit it')
    readme.write_text(after, encoding='utf-8')


if __name__ == '__main__': main('--check' in sys.argv)
