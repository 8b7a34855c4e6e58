"""Damage files and trained models in many ways, and see how reading them ends: python .ci/fuzz.py --cases 100 --seed 1

Of each format `--cases` copies are changed at random, in their bytes and in their structure, and read by a child with
limits of memory and time. A case ends as a result, as an error of the project (it names the file), as a raw error of
some library, as a hang, with more memory than it may take, or with the child's death. The last four are printed with
their number, by which --only FORMAT --case N repeats one alone.
"""
import argparse, collections, json, multiprocessing, os, resource, shutil, sys, tempfile, time, traceback
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ |= dict(IN_TEST='1', OMP_NUM_THREADS='1', CALM_NB_DEVICE='cpu')
import h5py, numpy as np, torch
from calm_nb import testing
from calm_nb.data import Recording, RecordingError, open_session, prepare, save_session, windows_of
from calm_nb.dat import dat_preset, train_dat
from calm_nb.datasets import load
from calm_nb.forecast import CalM
from calm_nb.nq import nq_preset, train_nq
from calm_nb.recordings.your_own import read
from calm_nb.standins import standin

ENDS = ('result', 'own error', 'raw error', 'hang', 'growth', 'death')

def small(seed=0):
    "A recording of 400 frames and 5 neurons."
    x = np.random.default_rng(seed).normal(size=(400, 5)).cumsum(0).astype('f4')
    cut = dict(trials=windows_of(400, 60), pseudo_trials=True)
    return Recording(traces=x, rate=10., subject='m', session=f's{seed}', **cut)

def write_own(folder):
    "Format -> a file or folder of it."
    from scipy.io import savemat
    r, out = small(), {k: folder/k for k in ('npz', 'npy', 'csv', 'mat', 'v73', 'caiman', 'suite2p', 'session')}
    for place in out.values(): place.mkdir()
    parts = dict(traces=r.traces, rate=10., trials=r.trials, speed=r.traces[:, 0])
    np.savez(out['npz']/'a.npz', **parts)
    np.save(out['npy']/'a.npy', r.traces)
    named = dict(delimiter=',', header='time,a,b,c,d,e', comments='')
    np.savetxt(out['csv']/'a.csv', np.c_[np.arange(400)/10, r.traces], **named)
    savemat(out['mat']/'a.mat', parts)
    with h5py.File(out['v73']/'a.mat', 'w', userblock_size=512) as f:
        for k, v in parts.items(): f[k] = np.atleast_2d(v).T
        for k in f: f[k].attrs['MATLAB_class'] = np.bytes_('double')
    with open(out['v73']/'a.mat', 'r+b') as f: f.write(b'MATLAB 7.3 MAT-file, Platform: GLNXA64'.ljust(128))
    with h5py.File(out['caiman']/'a.hdf5', 'w') as f:
        fields = dict(C=r.traces.T, F_dff=r.traces.T, S=abs(r.traces.T), idx_components=np.arange(5))
        for k, v in fields.items(): f[f'estimates/{k}'] = v
        f['params/data/fr'] = 10.
    plane = out['suite2p']/'suite2p'/'plane0'
    plane.mkdir(parents=True)
    files = dict(F=100 + r.traces.T, Fneu=50 + 0*r.traces.T, spks=abs(r.traces.T), ops=dict(fs=10., nplanes=1, tau=1.),
                 iscell=np.ones((5, 2)), stat=np.array([dict(npix=9)]*5, object))
    for k, v in files.items(): np.save(plane/f'{k}.npy', v)
    save_session(prepare(r), out['session']/'a.h5')
    return out

def write_models(folder):
    "A trained model, and what a training leaves."
    short = dict(steps=4, eval_every=2, save_every=2, log_seconds=0.)
    session = prepare(small())
    (sizes, how), (config, training) = nq_preset('tiny'), dat_preset('tiny')
    nq = train_nq([session], replace(sizes, warmup=.5, codes=8), replace(how, **short))
    dat = train_dat(nq, [session], config, replace(training, **short), context=20)
    CalM(nq, dat, scale='tiny').remember([session]).save_pretrained(folder/'model')
    return folder/'model'

def read_model(path):
    model = CalM.from_pretrained(path)
    assert np.isfinite(model.forecast(small().traces[:60], 8).samples).all()

def read_corpus(name, path):
    with tempfile.TemporaryDirectory() as store:
        for s in load(name, path, scale='tiny', store=store, workers=1): s.trial(0)

def change_arrays(path, rng):
    "Change one array of an npz or npy file."
    held = dict(np.load(path)) if path.suffix == '.npz' else {'': np.load(path)}
    name = str(rng.choice(list(held)))
    how = str(rng.choice(list(testing._CHANGES)))
    x = np.atleast_1d(held[name])
    held[name] = testing._CHANGES[how](x, rng)
    np.savez(path, **held) if path.suffix == '.npz' else np.save(path, held[''])
    return f'{name} {how}'

def change_tensors(path, rng):
    "Change one tensor of a safetensors file, or its header; half of the time with a digest that fits."
    from safetensors import safe_open
    from safetensors.torch import save_file
    from calm_nb.training import _digest
    with safe_open(path, 'pt') as f:
        about, held = json.loads(f.metadata()['calm_nb']), {k: f.get_tensor(k) for k in f.keys()}
    name = str(rng.choice(list(held)))
    x = held.pop(name)
    new = dict(renamed=lambda: x, header=lambda: x, half=lambda: x.half(), ints=lambda: x.long(), gone=None,
               transposed=lambda: x.mT.contiguous() if x.ndim > 1 else x[None], shorter=lambda: x.reshape(-1)[:-1],
               nan=lambda: torch.full_like(x.float(), torch.nan), scalar=lambda: torch.zeros(()),
               huge=lambda: x.float() + 1e30)
    what = str(rng.choice(list(new)))
    if what != 'gone': held[f'{name}x' if what == 'renamed' else name] = new[what]().clone()
    if what == 'header': about[str(rng.choice(list(about)))] = rng.choice([None, 3, 'x'])
    if what != 'header' and rng.random() < .5: about['digest'] = _digest(held)
    save_file(held, path, metadata={'calm_nb': json.dumps(about, default=str)})
    return f'{name} {what}'

def change_json(path, rng):
    "Change one value of a JSON file, at any depth."
    top = at = json.loads(path.read_text())
    while True:
        key = (rng.choice(list(at)) if isinstance(at, dict) else int(rng.integers(len(at)))) if at else None
        deeper = key is not None and isinstance(at[key], (dict, list)) and at[key] and rng.random() < .8
        if not deeper: break
        at = at[key]
    value = [None, -1, 0, 1e9, 'x', [], {}, True][int(rng.integers(8))]
    if key is None or rng.random() < .2 and isinstance(at, dict): at.pop(key, None)
    else: at[key] = value
    path.write_text(json.dumps(top))
    return f'{key} = {value!r}'

STRUCTURES = {'.npz': change_arrays, '.npy': change_arrays, '.safetensors': change_tensors, '.json': change_json}

def mutate(path, rng):
    "Damage a folder: its bytes and files, or the structure of one file."
    files = sorted(p for p in Path(path).rglob('*') if p.is_file())
    victim = files[int(rng.integers(len(files)))]
    structured = h5py.is_hdf5(victim) or victim.suffix in STRUCTURES
    if not structured or rng.random() < .4: return testing.mutate_folder(path, rng)
    change = testing.mutate_h5 if h5py.is_hdf5(victim) else STRUCTURES[victim.suffix]
    try: return f'{victim.name}: {change(victim, rng)}'
    except Exception: return testing.mutate_folder(path, rng) # pickles, empty arrays

def own(error, path):
    "Whether an error is the project's: a RecordingError, one that names the file, or raised by the library."
    named = any(str(p) in str(error) for p in (path, *Path(path).rglob('*')))
    last = traceback.extract_tb(error.__traceback__)[-1]
    raised = f'{os.sep}calm_nb{os.sep}' in last.filename and 'raise ' in last.line
    return isinstance(error, RecordingError) or isinstance(error, (ValueError, OSError)) and (named or raised)

def child(pipe, original, reader, case, folder, gigabytes):
    "One case: damage a copy, read it, say how it ended."
    copy, before = folder/original.name, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shutil.copytree(original, copy)
    done = mutate(copy, np.random.default_rng(case))
    pipe.send(done)
    used = int(open('/proc/self/statm').read().split()[0])*4096
    resource.setrlimit(resource.RLIMIT_AS, (used + int(2*gigabytes*1e9),)*2)
    start = testing._snapshot(folder)
    try:
        reader(copy)
        end, why = 'result', ''
    except Exception as error:
        end, why = 'own error' if own(error, copy) else 'raw error', f'{type(error).__name__}: {error}'
    if testing._snapshot(folder) != start: end, why = 'raw error', f'{why}, files were left behind or changed'
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)/1e6
    pipe.send(('growth', f'{grown:.1f} GB, {why}') if grown > gigabytes else (end, why))

def one(original, reader, case, seconds, gigabytes):
    "What was done to a copy, how reading it ended, and why."
    here, there = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        given = there, original, reader, case, Path(folder), gigabytes
        process = multiprocessing.get_context('fork').Process(target=child, args=given)
        process.start()
        there.close()
        said, end = [], time.monotonic() + seconds
        try:
            while len(said) < 2 and here.poll(max(0, end - time.monotonic())): said.append(here.recv())
            found = said[1] if len(said) == 2 else ('hang', f'{seconds:g} s')
        except EOFError:
            process.join()
            found = 'death', f'exit code {process.exitcode}'
        process.kill()
        process.join()
    return (said or ['?'])[0], *found

def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--cases', type=int, default=100, help='of each format')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--only', default='', help='formats, separated by commas')
    parser.add_argument('--case', type=int, help='this one alone')
    parser.add_argument('--seconds', type=float, default=20., help='after which a case hangs')
    parser.add_argument('--gigabytes', type=float, default=2., help='that a case may take')
    args = parser.parse_args(argv)
    warnings.simplefilter('ignore')
    total = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        quiet = partial(read, say=False, window=40, rate=10.)
        def first(path): quiet(next(iter(sorted(path.iterdir())), path))
        def stored(path): open_session(path/'a.h5').trial(0)
        kinds = {k: (partial(Path, place), stored if k == 'session' else first)
                 for k, place in write_own(folder).items()}
        for name in ('atanas', 'tseng', 'sun', 'hippocampus'):
            how = dict(scale='tiny', sessions=2, **(dict(subjects=2) if name != 'atanas' else {}))
            kinds[name] = partial(standin, name, folder/name, **how), partial(read_corpus, name)
        kinds['model'] = partial(write_models, folder), read_model
        for name, (make, reader) in kinds.items():
            if args.only and name not in args.only.split(','): continue
            original, ends = make(), collections.Counter()
            start = time.perf_counter()
            for case in [args.case] if args.case is not None else range(args.seed*10**6, args.seed*10**6 + args.cases):
                done, end, why = one(original, reader, case, args.seconds, args.gigabytes)
                ends[end] += 1
                if end in ENDS[:2] and args.case is None: continue
                print(f'{name} case {case}, {done}: {end}, {why[:300]}', flush=True)
            total += ends
            seconds = f'  {time.perf_counter() - start:.0f} s'
            print(f'{name:12}', '  '.join(f'{ends[e]} {e}' for e in ENDS), seconds, flush=True)
    print(f'{"all":12}', '  '.join(f'{total[e]} {e}' for e in ENDS))
    return int(any(total[e] for e in ENDS[2:]))

if __name__ == '__main__': sys.exit(main())
