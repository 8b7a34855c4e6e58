"""Kill work at random moments, start it again, and see that it ends as usual: python .ci/kills.py --kills 25

Four kinds: a training (quantizer, transformer), the conversion of recordings by two processes, the streaming
tokenization, a step of the plan. Each is done once undisturbed; then it is started, killed (SIGKILL, the main process
alone), some times again, and started to its end. Checked: the same files with the same content (times aside), no draft
left, no process of the killed one alive after ten seconds, no file written by it after that. Last, two trainers of one
folder at once.
"""
import argparse, contextlib, hashlib, json, os, random, re, signal, subprocess, sys, tempfile, time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))
import psutil

TRAIN = [sys.executable, '-m', 'calm_nb.train', '--dataset', 'simulation', '--scale', 'tiny', '--sessions', '1']
PLAN = [sys.executable, '-m', 'calm_nb.paper', '--scale', 'tiny', '--dataset', 'simulation', '--only', '03']
CONVERT = '''
import sys, numpy as np
from pathlib import Path
from calm_nb.datasets import load
folder = Path(sys.argv[1])
if not folder.exists():
    draft = folder.with_name('draft')
    draft.mkdir(exist_ok=True)
    for k in range(6):
        x = np.random.default_rng(k).normal(size=(20_000, 40)).cumsum(0)
        np.savez(draft/f'm{k}.npz', traces=x, rate=10., trials=[[a, a + 100] for a in range(0, 20_000, 100)])
    draft.rename(folder)
for s in load('own', folder, workers=2): s.trial(0)
'''
TOKENS = '''
import numpy as np, torch
from calm_nb.dat import _TokenBatches
from calm_nb.nq import NQ, nq_preset
from calm_nb.datasets import load
from calm_nb.store import store_folder
torch.manual_seed(0)
nq, corpus = NQ(nq_preset('small')[0]).eval(), load('simulation', scale='tiny', sessions=2)
batches = _TokenBatches(nq, list(corpus), folder=store_folder('tokens'))
for tokens in batches.tokens.values():
    for i in range(len(tokens)): tokens(np.array([i]))
'''

def started(kind, folder):
    "The work as a process, its files below the folder."
    command = {'train': TRAIN, 'plan': PLAN, 'convert': [sys.executable, '-c', CONVERT, str(folder/'own')],
               'tokens': [sys.executable, '-c', TOKENS]}[kind]
    settings = {k: v for k, v in os.environ.items() if k != 'IN_TEST'} | dict(
        PYTHONPATH=str(HERE), OMP_NUM_THREADS='1', CALM_NB_DEVICE='cpu', CALM_NB_RUNS=str(folder/'runs'))
    with open(folder/'said.txt', 'a') as said:
        return subprocess.Popen(command, cwd=HERE, env=settings, stdout=said, stderr=said, start_new_session=True)

def content(path):
    "Digest of what a file says, times aside; None for one that may differ."
    if path.suffix == '.safetensors':
        from safetensors.numpy import load_file
        return hashlib.sha256(repr(sorted((k, v.tobytes()) for k, v in load_file(path).items())).encode()).hexdigest()
    if path.suffix == '.csv':
        from calm_nb.paper import _untimed
        return _untimed(path)
    if path.name == 'log.jsonl':
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return repr([{k: v for k, v in row.items() if k != 'pace'} for row in rows])
    if path.suffix == '.h5':
        import h5py
        with h5py.File(path) as f: return bytes(f.attrs['digest']), bytes(f.attrs['checksum'])
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.suffix == '.tokens' else None

def results(folder):
    "Files below a folder, and their content."
    files = sorted(p for p in folder.rglob('*') if p.is_file() and p.name not in ('said.txt', 'draft'))
    name = lambda p: re.sub(r'-\w{10}(?=\.h5)', '', str(p.relative_to(folder))) # a key of where the source lies
    return {name(p): content(p) for p in files if content(p)}

def drafts(folder): return [p.name for p in folder.rglob('.*') if '.part' in p.name]

def called(process):
    "Its number and command, cut short; the number alone where it has just ended."
    try: return f'{process.pid} ({" ".join(process.cmdline())[:150]})'
    except psutil.Error: return f'{process.pid}'

def killed(kind, folder, after):
    "Start the work and kill it after some seconds; what is wrong then. None where it had ended by itself."
    process = started(kind, folder)
    try: return None if process.wait(after) is not None else []
    except subprocess.TimeoutExpired: pass
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    alive = psutil.wait_procs(family, 10)[1]
    mark, wrong = time.time(), [f'{called(p)} lives on' for p in alive]
    time.sleep(1)
    late = [p.name for p in folder.rglob('*') if p.is_file() and p.stat().st_mtime > mark]
    for p in alive:
        with contextlib.suppress(psutil.NoSuchProcess): p.kill()
    return wrong + [f'{name} was written after the end' for name in late]

def one(kind, rng, seconds, expected):
    "A case: kills, then the work to its end; kills that met it at work, and what is wrong."
    with tempfile.TemporaryDirectory() as folder:
        folder, wrong, met = Path(folder), [], 0
        for _ in range(rng.choice([1, 1, 2, 3])):
            found = killed(kind, folder, rng.uniform(.25, 1)*seconds)
            met += found is not None
            wrong += found or []
        if status := started(kind, folder).wait(): wrong.append(f'ends with {status}: {last_words(folder)}')
        found = results(folder)
        wrong += [f'{name} differs' for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]
        return met, wrong + [f'{name} is left' for name in drafts(folder)]

def last_words(folder): return (folder/'said.txt').read_text().strip().split('\n')[-1][:300]

def both_at_once(expected):
    "Two trainers of one folder: what is wrong."
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        both = [started('train', folder) for _ in range(2)]
        wrong = [f'one ends with {p.returncode}: {last_words(folder)}' for p in both if p.wait()]
        found = results(folder)
        return wrong + [f'{name} differs' for name in expected if expected[name] != found.get(name)]

def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--kills', type=int, default=25, help='of each kind, at least')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--only', default='train,convert,tokens,plan', help='kinds, separated by commas')
    args, bad = parser.parse_args(argv), 0
    for kind in args.only.split(','):
        rng, met, cases = random.Random(f'{args.seed} {kind}'), 0, 0
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            folder = Path(folder)
            if status := started(kind, folder).wait(): sys.exit(f'{kind} ends with {status}: {last_words(folder)}')
            seconds, expected = time.perf_counter() - start, results(folder)
        while met < args.kills:
            more, wrong = one(kind, rng, seconds, expected)
            met, cases, bad = met + more, cases + 1, bad + len(wrong)
            for what in wrong: print(f'{kind} case {cases}: {what}', flush=True)
        print(f'{kind:8} {met} kills in {cases} cases, {len(expected)} files compared', flush=True)
        if kind == 'train':
            wrong = both_at_once(expected)
            print('two trainers at once:', '; '.join(wrong) or 'the same files', flush=True)
            bad += len(wrong)
    print(f'{bad} wrong')
    return int(bad > 0)

if __name__ == '__main__': sys.exit(main())
