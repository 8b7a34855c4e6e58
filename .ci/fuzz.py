"""Damage recordings and stored sessions, read them: fuzz.py [--n 1000] [--seed 0] [--only FORMAT]
In half of the inputs a part is gone, empty, turned, of another type, NaN, a link to elsewhere or a
pickle that runs code; in the others bytes are flipped or cut. Same: the traces are what they were.
Stated: what the changed file states; after flipped bytes any, but where there are checksums.
Refused: by an error of ours that names the file, or in `skipped`. Fault: anything else, 20 s, a
crash, 2 GB of memory, code that was run. --n 1 --seed SEED --only FORMAT repeats an input."""
import argparse, multiprocessing, re, resource, shutil, sys, tempfile, traceback, warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout, suppress
from pathlib import Path
import h5py, numpy as np, pandas as pd, pynwb, zarr
from pynwb.testing.mock import file as mock, ophys
from scipy.io import loadmat, savemat
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calm_nb import datasets, fixtures
from calm_nb.data import open_session, prepare, save_session
from calm_nb.recordings import files
np.set_printoptions(threshold=10**9) # values are compared by what they print
OUTCOMES = ['same', 'stated', 'refused', 'fault'] # from good to bad
SCRATCH = Path(tempfile.mkdtemp())
MARKER = SCRATCH/'marker' # exists if a pickle ran
X = np.random.default_rng(0).normal(size=(400, 6)).cumsum(0).astype('f4') # (T, N)
TIME = np.arange(400)/10 # s
ARRAYS = dict(dff=X, rate=10., speed=np.sin(TIME), depth=np.arange(6.))
SMALL = { # file, with the format in front -> its parts
    'npz/rec.npz': ARRAYS, 'mat/rec.mat': ARRAYS, 'hdf5/rec.h5': ARRAYS, 'npy/rec.npy': {'': X},
    'caiman/rec.hdf5': {'estimates/F_dff': X.T, 'estimates/C': X.T, 'estimates/A': X,
                        'estimates/idx_components': [0, 2, 5], 'params/data/fr': 10.},
    'csv/rec.csv': dict(time=TIME, **{f'cell{k}': x for k, x in enumerate(X.T)}),
    'suite2p/rec/F.npy': {'': 90 + abs(X.T)}, 'suite2p/rec/Fneu.npy': {'': 30 + X.T[::-1] % 5},
    'suite2p/rec/iscell.npy': {'': 1 - np.eye(6, 2)},
    'suite2p/rec/ops.npy': dict(fs=10., neucoeff=.7, frames_per_folder=[200, 200])}
PLACES = {place.split('/')[0]: place.split('/')[1] for place in SMALL} | dict(nwb='rec.nwb')
OPTIONS = dict(npy=dict(rate=10.), suite2p=dict(series='F'))
FORMATS = [*PLACES, *fixtures.STANDINS, 'stored']
TRACES = r'F_dff|dff|dF_over_F|trace_array|Fdemix|F(neu)?\.npy|cell\d|rec\.npy' # their names

def load_parts(path): # name -> array
    _, place = path.relative_to(SCRATCH).as_posix().split('/', 1)
    if place in SMALL: return dict(SMALL[place])
    if path.suffix == '.npz': return dict(np.load(path))
    if path.suffix == '.mat': return {key: x for key, x in loadmat(path).items() if key[0] != '_'}
    return {'': zarr.open_array(path.parent, mode='r')[:]} # of which it is a chunk
def save_parts(path, parts):
    if path.suffix == '.npy': np.save(path, parts.get('', parts))
    elif path.suffix == '.npz': np.savez(path, **parts)
    elif path.suffix == '.mat': savemat(path, parts, do_compression=True)
    elif path.suffix == '.csv': pd.DataFrame.from_dict(parts, 'index').T.to_csv(path, index=False)
    elif path.suffix in ('.h5', '.hdf5'):
        with h5py.File(path, 'w') as file: file.update(parts)
    else: zarr.create_array(path.parent, data=parts[''], zarr_format=2, overwrite=True)

def write(name, folder): # a small recording or session, to a new folder
    if name in fixtures.STANDINS:
        return (fixtures.standin(name, folder, 'tiny', sessions=2)/'standin.txt').unlink()
    (folder/'rec').mkdir(parents=True)
    for place, parts in SMALL.items():
        if place.startswith(f'{name}/'): save_parts(folder.parent/place, parts)
    if name == 'stored':
        save_session(prepare(files.from_arrays(X, 10., None, dict(speed=TIME))), folder/'rec')
    if name == 'nwb':
        nwb = mock.mock_NWBFile()
        table = ophys.mock_PlaneSegmentation(n_rois=6, nwbfile=nwb)
        table.add_column('Accepted', 'x', data=[1, 1, 0, 1, 1, 1])
        ophys.mock_RoiResponseSeries('dff', X, plane_segmentation=table, nwbfile=nwb)
        nwb.add_acquisition(pynwb.TimeSeries('x', np.sin(TIME), 'x', timestamps=TIME/5))
        for start in range(8): nwb.add_trial(float(start), start + .8)
        with pynwb.NWBHDF5IO(str(folder/'rec.nwb'), 'w') as file: file.write(nwb)

class Bomb: __reduce__ = lambda self: (open, (str(MARKER), 'w')) # that makes the marker
def twist(x, rng, pickles=0): # -> what was done, and the array x became; None: it is gone
    x = np.atleast_1d(np.asarray(x))
    one = np.arange(x.size).reshape(x.shape) == rng.integers(max(1, x.size))
    ways = dict(
        empty=lambda: x[:0], half=lambda: x[:-(-len(x)//2)], column=lambda: x[..., :1],
        longer=lambda: np.concatenate([x, x[:3]]), turned=lambda: x.T, deeper=lambda: x[..., None],
        text=lambda: x.astype(str), whole=lambda: x.astype(int), date=lambda: x.astype('M8[s]'),
        nan=lambda: np.where(one, np.nan, x), less=lambda: np.where(one, -1, x), flat=x.ravel,
        huge=lambda: np.where(one, 1e300, x), complex=lambda: x*1j, nans=lambda: x*np.nan,
        gone=lambda: None, pickle=lambda: np.array([Bomb()], object))
    way = rng.choice([*ways][:-1] + ['pickle']*pickles)
    try: return way, ways[way]()
    except Exception: return 'gone', None # it has no such type

def change_hdf5(path, rng): # -> what was done to an attribute or object, what it became
    names = []
    with h5py.File(path, 'a') as file, h5py.File(path.parents[1]/'elsewhere.h5', 'w') as other:
        file.visit(names.append)
        name = key = rng.choice([name for name in names if not name.startswith('specifications/')])
        place, value, attributes = file, file[name], dict(file[name].attrs)
        if attributes and rng.random() < .3:
            place, key = file[name].attrs, rng.choice(sorted(attributes))
            value = attributes.pop(key)
        if isinstance(value, h5py.HLObject): value = value[()] if hasattr(value, 'shape') else None
        way, x = twist(value, rng)
        if value is None or rng.random() < .2:
            other['x'] = value*2. if np.asarray(value).dtype.kind in 'iuf' else X
            x = dict(linked=h5py.ExternalLink(other.filename, '/x'), loop=file['/'],
                     dangling=h5py.SoftLink('/nothing'), null=h5py.Empty('f'))
            x = x.get(way := rng.choice([*x, 'gone']))
        del place[key]
        with suppress(Exception): # else it is gone
            place[key] = x
            file[name].attrs.update(attributes)
        return f'{name} {key}: {way}', x if isinstance(x, np.ndarray) else None

def change(path, rng): # one part of what a file holds; as above
    if h5py.is_hdf5(path): return change_hdf5(path, rng)
    try: parts = load_parts(path)
    except OSError: return damage(path, rng) # we know no parts of it
    name = rng.choice([*parts])
    way, x = twist(parts.pop(name), rng, 4*(path.suffix in ('.npy', '.npz')))
    try: save_parts(path, parts if x is None else parts | {name: x})
    except Exception: path.unlink() # it cannot hold this
    return f'{name}: {way if path.exists() else "removed"}', x

def damage(path, rng): # bits flip, the end is cut, or bytes become 0
    data, way = bytearray(path.read_bytes()), rng.choice(['flip', 'flip', 'cut', 'hole'])
    at = int(rng.integers(len(data)))
    for place in rng.integers(len(data), size=5*(way == 'flip')): data[place] ^= 1 << at % 8
    if way == 'cut': del data[at:]
    if way == 'hole': data[at:at + 500] = bytes(len(data[at:at + 500]))
    path.write_bytes(data)
    return f'bytes {way} at {at}', None

def read(name, folder): # -> sessions by name, skipped; or trace, text, is it an error of ours
    try:
        with redirect_stdout(None):
            if name in fixtures.STANDINS:
                corpus = datasets.load(name, folder, 0, 'paper', alpha=1., store=folder.parent/'s')
                return {session.name: session for session in corpus}, corpus.skipped
            if name == 'stored': return {'rec': open_session(folder/'rec')}, {}
            if name == 'suite2p': files.read(folder/'rec', False) # dF/F, too
            return {'rec': files.read(folder/PLACES[name], False, **OPTIONS.get(name, {}))}, {}
    except Exception as e: # RecordingError is a ValueError
        return traceback.format_exc(), str(e), isinstance(e, (ValueError, FileNotFoundError))

def compare(name, done, x, new, old): # -> the outcome for traces, after a part became x
    same, flipped = np.array_equal(new.traces, old.traces), 'bytes' in done
    if name == 'stored' and flipped: same &= repr(vars(new)) == repr(vars(old))
    if same: return 'same'
    if flipped: return 'fault' if name in ('npz', 'stored') else 'stated' # those have checksums
    after, before = new.traces.shape, old.traces.shape
    told = (new.notes, new.units) != (old.notes, old.units) or re.search(TRACES, done)
    if after == before[::-1] or after != before and not told: return 'fault'
    if name == 'suite2p' and re.search(r'F(neu)?\.npy', done): fine = x.shape == (6, 400)
    elif re.search('conversion|offset|neucoeff|iscell|_t', done): fine = True # or convolved events
    else:
        x = np.atleast_2d(x if x is not None and x.dtype.kind in 'biufM' else 0).astype(float)
        rows = [row[:after[0]] for row in (*X.T, *old.traces.T, *x, *x.T) if len(row) >= after[0]]
        fine = all(any(np.allclose(row, y, 1e-4, 1e-4) for row in rows) for y in new.traces.T)
    return 'stated' if fine else 'fault'

def judge(name, done, x, answer, truth, path): # -> outcome, why
    if MARKER.exists(): return 'fault', 'what was pickled ran'
    named = lambda text: str(SCRATCH) in text or path.name in text
    if len(answer) == 3:
        trace, text, own = answer
        fine = own and named(text) and not re.search('MemoryError|nable to allocate', trace)
        return ('refused', text) if fine else ('fault', trace)
    sessions, skipped = answer
    ends = [('refused' if named(why) else 'fault', why) for why in skipped.values()]
    if len(sessions) + len(skipped) < len(truth): ends.append(('fault', 'left out in silence'))
    for key, new in sessions.items():
        old = truth.get(key, [*truth.values()][0])
        ends.append((compare(name, done, x, new, old), f'{old.traces.shape} to {new.traces.shape}'))
    return max(ends, key=lambda end: OUTCOMES.index(end[0]))

if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--n', type=int, default=1000)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--only', choices=FORMATS)
    args = parser.parse_args()
    warnings.simplefilter('ignore')
    used = int(Path('/proc/self/statm').read_text().split()[0])*4096
    resource.setrlimit(resource.RLIMIT_AS, (used + 2*10**9,)*2) # of children, too
    truths, pool, table = {}, None, pd.DataFrame(0, FORMATS, OUTCOMES)
    for seed in range(args.seed, args.seed + args.n):
        name, rng = args.only or FORMATS[seed % len(FORMATS)], np.random.default_rng(seed)
        whole, folder = SCRATCH/name, SCRATCH/str(seed)/name
        if name not in truths: truths[name], _ = write(name, whole) or read(name, whole)
        shutil.copytree(whole, folder)
        path = rng.choice([path for path in sorted(folder.rglob('*')) if path.is_file()])
        done, x = (change if rng.random() < .5 else damage)(path, rng)
        done = f'{path.relative_to(folder)}: {done}'
        if pool is None: pool = ProcessPoolExecutor(1, multiprocessing.get_context('fork'))
        try: answer = pool.submit(read, name, folder).result(20)
        except Exception as error: # TimeoutError, BrokenProcessPool
            for process in [*(pool._processes or {}).values()]: process.kill()
            answer, pool = (repr(error), '', False), None
        outcome, why = judge(name, done, x, answer, truths[name], path)
        table.loc[name, outcome] += 1
        if outcome == 'fault' or args.n == 1:
            print(f'--seed {seed} --only {name}: {done}: {outcome}: {why[-900:]}', flush=True)
        MARKER.unlink(missing_ok=True)
        shutil.rmtree(folder.parent)
    shutil.rmtree(SCRATCH)
    print(table, table.sum().to_dict(), sep='\n')
    sys.exit(int(table.fault.sum() > 0))
