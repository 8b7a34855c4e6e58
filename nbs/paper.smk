# The chapters of the paper as a Snakemake workflow: what runs on which data, after what, for how long, and on what.
# `calm_paper` (make paper) calls it. By itself, from the top of the repository:
#   snakemake -s nbs/paper.smk -d runs/paper/small-s0 --cores 2 --rerun-triggers mtime --config scale=small
import time
from pathlib import Path

import pandas as pd

from calm_nb.first.core import SCALES, choose, read_json, show_table
from calm_nb.first.datasets import data_root
from calm_nb.first.paper import Step, command_of, intact, last_words, machine_class, record_of, root_of, threads

# chapter-label: data set, waits for, minutes at small (2 CPU cores), paper (a GPU; more is counted), parameters
PLAN = {
    '03-simulation': ('simulation', (), 4, 2, {}),
    '03-atanas': ('atanas', (), 3, 2, {}),
    '03-tseng': ('tseng', (), 15, 10, {}),
    '03-tseng-paper': ('tseng', (), 15, 10, dict(method='paper')),
    '03-sun': ('sun', (), 10, 5, {}),
    '04-simulation': ('simulation', (), 12, 20, {}),
    '05-simulation': ('simulation', (), 23, 8, {}),
    '05-simulation-hard': ('simulation', (), 23, 8, dict(variant='hard')),
    '05-atanas': ('atanas', (), 20, 6, {}),
    '05-tseng': ('tseng', (), 90, 60, {}),
    '05-tseng-single': ('tseng', (), 60, 20, dict(protocol='single')),
    '05-sun': ('sun', (), 60, 30, {}),
    '06-simulation-task': ('simulation', (), 60, 30, {}),
    '06-atanas': ('atanas', ('05-atanas',), 25, 8, {}),
    '06-tseng': ('tseng', ('05-tseng',), 150, 100, {}),
    '06-tseng-single': ('tseng', ('05-tseng-single',), 90, 30, dict(protocol='single')),
    '06-sun': ('sun', ('05-sun',), 100, 50, {}),
    '07-simulation-task': ('simulation', ('05-simulation', '06-simulation-task'), 10, 5, {}),
    '07-atanas': ('atanas', ('06-atanas',), 10, 4, {}),
    '07-tseng': ('tseng', ('06-tseng',), 30, 20, {}),
    '07-tseng-paper': ('tseng', ('06-tseng',), 30, 20, dict(method='paper')),
    '07-sun': ('sun', ('06-sun',), 20, 15, {}),
    '08-simulation': ('simulation', ('05-simulation',), 150, 25, {}),
    '08-tseng': ('tseng', ('05-tseng',), 300, 30, {}),
    '03-hippocampus': ('hippocampus', (), 10, 10, {}),
    '05-hippocampus': ('hippocampus', (), 60, 40, {}),
    '06-hippocampus': ('hippocampus', ('05-hippocampus',), 60, 40, {}),
    '07-hippocampus': ('hippocampus', ('06-hippocampus',), 20, 15, {}),
    '08a-hippocampus': ('hippocampus', (), 240, 240, {})}
OPTIONAL = ('04',)  # runs only when it is named: its results are its own

scale, seed, root = choose('scale', config['scale'], SCALES), config.get('seed', 0), config.get('root')
only, datasets, jobs = config.get('only') or [], config.get('datasets') or [], config.get('jobs', 1)
figures = config.get('figures') or str(Path(workflow.basedir).parent/'figures')
begun = time.time()

def chapter_of(name): return name.split('-')[0]  # '08a-hippocampus' -> '08a'

def chosen():  # -> names of the steps that are asked for
    "Raises ValueError that lists the valid names for an unknown one, or where nothing is left."
    for name in only: choose('chapter', name, dict.fromkeys(map(chapter_of, PLAN)))
    for name in datasets: choose('dataset', name, dict.fromkeys(row[0] for row in PLAN.values()))
    named = [n for n in PLAN if (chapter_of(n) in only if only else chapter_of(n) not in OPTIONAL)]
    names = [n for n in named if not datasets or PLAN[n][0] in datasets]
    if not names: raise ValueError(f'no step of chapters {only} on {datasets}: there are {", ".join(PLAN)}')
    return names

def step_of(name):  # '05-atanas' -> Step
    "Raises FileNotFoundError where its notebook does not lie beside this file."
    chapter, label = name.split('-', 1)
    found = sorted(p for d in ('', 'first') for p in (Path(workflow.basedir)/d).glob(f'{chapter}_*.ipynb'))
    if not found: raise FileNotFoundError(f'chapter {chapter}: no notebook {chapter}_*.ipynb in {workflow.basedir}')
    return Step(str(found[0]), PLAN[name][0], label, scale, seed, PLAN[name][4], root, figures)

def guess(name):  # -> minutes
    "How long a step takes; at scale paper without what CalM's training takes."
    return PLAN[name][{'small': 2, 'paper': 3}[scale]] if scale != 'tiny' else 1

def measured(name):  # -> minutes, 0 where it has not run on a machine of this class
    "How long a step took before."
    records = [read_json(path) for path in Path().glob(f'{name}.*.json')]
    return max([r['seconds']/60 for r in records if r['environment']['machine'] == machine_class()], default=0.)

def lacking(step):  # -> what keeps it from running, '' for nothing
    "Recordings that are missing, with the commands that fetch them."
    if step.dataset == 'simulation': return ''
    try: return data_root(step.dataset, root_of(step.dataset, root)) and ''
    except FileNotFoundError as error: return str(error)

def check_root(wanted):  # names of data sets
    "Raises ValueError where one folder would be taken for several data sets, or does not exist."
    if root and not Path(root).is_dir(): raise ValueError(f'root {root} is no folder')
    if root and len(wanted) > 1 and not any((Path(root)/dataset).is_dir() for dataset in wanted):
        raise ValueError(f'root {root} has no folder named {", ".join(sorted(wanted))}: '
                         'pass a folder with one for each data set, or name one data set with --dataset')

def way(name):  # -> minutes
    "From the start of a step to the end of all that waits for it."
    return minutes[name] + max([way(other) for other in record if name in after[other]], default=0)

def show_plan():
    "Print the steps, which are done, and what the others will take."
    todo = [name for name in record if not intact(record[name])]
    now = {name: 'no recordings' if name not in record else 'to run' if name in todo else 'done' for name in steps}
    given = {name: ' '.join(f'{k}={v}' for k, v in step.params.items()) for name, step in steps.items()}
    rows = [(name, step.dataset, given[name], minutes[name], now[name]) for name, step in steps.items()]
    title = f'scale {scale}, seed {seed}, {machine_class()}, {jobs} side by side; minutes guessed, or measured here'
    show_table(pd.DataFrame(rows, columns=['step', 'data set', 'with', 'minutes', 'now']), digits=0, title=title)
    total, longest = sum(minutes[n] for n in todo), max(map(way, todo), default=0)
    print(f'{len(todo)} of {len(steps)} steps to run: {total:.0f} min one after the other, '
          f'about {max(total/jobs, longest):.0f} min side by side')
    for dataset in missing: print(f'without {dataset}: no recordings; the report says how to fetch them')

steps = {name: step_of(name) for name in chosen()}
check_root({step.dataset for step in steps.values()} - {'simulation'})
missing = {step.dataset: why for step in steps.values() if (why := lacking(step))}
for dataset in datasets:
    if dataset in missing: raise FileNotFoundError(missing[dataset])
record = {name: record_of(step) for name, step in steps.items() if step.dataset not in missing}
after = {name: [other for other in PLAN[name][1] if choose('step', other, PLAN) in record] for name in steps}
minutes = {name: measured(name) or float(guess(name)) for name in steps}
if workflow.is_main_process: show_plan()


rule paper:
    input: list(record.values())

for i, name in enumerate(record):
    rule:
        name: name
        input: [ancient(record[other]) for other in after[name]]  # that they ran again is no reason to run this again
        output: record[name]
        log: f'{name}.log'
        message: f'{name}: about {minutes[name]:.0f} min'
        params: command=command_of(steps[name])
        priority: round(way(name)) if jobs > 1 else len(record) - i  # the longest way first; one at a time: as planned
        threads: threads()
        resources: gpu=int(scale == 'paper'), runtime=round(30 + 3*minutes[name])  # in a queue: no guess ends a step
        shell: 'exec {params.command} {output} 2> {log}'

onerror:
    for name in record:
        log, waits = Path(f'{name}.log'), [other for other in after[name] if not Path(record[other]).is_file()]
        if Path(record[name]).is_file(): continue
        if log.is_file() and log.stat().st_mtime >= begun: print(f'failed: {name}: {last_words(log)}')
        else: print(f'not run: {name}' + (f' waits for {", ".join(waits)}' if waits else ''))
