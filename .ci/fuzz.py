"""Damage recordings and stored sessions, read them, and compare the values: python .ci/fuzz.py --n 100 --seed 1

Each case copies a small folder of one format, damages one file of it and reads the copy in a child process.
It ends in one of these ways:

same          every value is what it was (the damage hit bytes that mean nothing)
refused       RecordingError, OSError or ValueError that names a file, or the session stands in `skipped`
other values  read without a word, and the values differ; a fault of a stored session, which has checksums;
              only counted for raw recordings, whose formats have none
raw error     any other error, or one that names no file: a fault
hang, crash   no answer within --seconds, or the process died: a fault

Faults are printed with their number; --format NAME --case NUMBER repeats one.
"""
import argparse, importlib, importlib.util, multiprocessing, os, resource, shutil, sys, tempfile, traceback
import warnings, zipfile
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ |= dict(IN_TEST='1', OMP_NUM_THREADS='1')
GOLDEN = ROOT/'nbs'/'fixtures'/'golden'

READERS = dict(atanas='atanas', tseng='tseng', sun='sun', hippocampus='tracks')  # data set -> module
OUTCOMES = ('same', 'refused', 'other values', 'raw error', 'hang', 'crash')
FIELDS = ('subject', 'rate', 'units', 'pseudo_trials', 'trials', 'segments')
TABLES = ('behaviour', 'neurons', 'trial_info')


def unpack(name, folder):
    "Write the small recordings of a data set."
    with zipfile.ZipFile(GOLDEN/f'{name}.zip') as archive: archive.extractall(folder)
    (folder/'standin.txt').unlink(missing_ok=True)

def write_stored(folder):
    "Write a stored session that has every kind of column."
    from calm_nb.data import Recording, prepare, save_session
    rng = np.random.default_rng(0)
    recording = Recording(
        traces=rng.normal(size=(300, 6)).cumsum(0).astype('f4'), rate=10., subject='m1', session='s1',
        trials=np.arange(6)[:, None]*50 + [0, 50], segments=np.array([[0, 150], [150, 300]]),
        behaviour={'speed (cm/s)': rng.normal(size=300)}, neurons={'region': np.array(['CA1', 'CA3']*3)},
        trial_info={'cue': np.array(['left', 'right']*3), 'correct': np.arange(6) > 2})
    save_session(prepare(recording), folder/'session')

def damage(folder, rng):
    "Damage one file; return what was done, in words."
    files = sorted(path for path in folder.rglob('*') if path.is_file())
    path = files[rng.integers(len(files))]
    data = bytearray(path.read_bytes())
    way = rng.choice(['flip', 'flip', 'flip', 'cut', 'hole', 'removed', 'replaced', 'longer'])
    at = int(rng.integers(max(1, len(data))))

    if way == 'flip':
        places = rng.integers(len(data), size=rng.integers(1, 9)) if data else []
        for place in places: data[place] ^= 1 << int(rng.integers(8))
    elif way == 'cut':
        data = data[:at]
    elif way == 'hole':
        size = min(int(rng.integers(1, 4096)), len(data) - at)
        data[at:at + size] = bytes(size)
    elif way == 'replaced':
        data = bytearray(rng.choice([b'', b'Not Found\n', rng.bytes(len(data) or 1)]))
    elif way == 'longer':
        data += rng.bytes(100)
    if way == 'removed': path.unlink()
    else: path.write_bytes(data)
    return f'{path.relative_to(folder)}: {way} at {at} of {path.stat().st_size if path.exists() else 0} bytes'

def values_of(session):
    "Return everything a session holds, name -> array."
    values = {name: np.asarray(getattr(session, name)) for name in FIELDS}
    values['traces'] = np.asarray(session.traces[:])
    for table in TABLES:
        columns = getattr(session, table)
        values |= {f'{table}/{name}': np.asarray(column) for name, column in columns.items()}
    return values

def read_folder(name, folder, store):
    "Read all recordings of a folder: session -> values, and session or file -> why it was skipped."
    module = importlib.import_module(f'calm_nb.recordings.{READERS[name]}')
    corpus = module.load(folder, scale='paper', held_out=0, store=store)
    return {session.name: values_of(session) for session in corpus}, corpus.skipped

def read_stored(name, folder, store):
    "Read the stored session, as `read_folder` does."
    from calm_nb.data import open_session
    session = open_session(folder/'session')
    more = {key: np.asarray(getattr(session, key)) for key in ('mean', 'sd', 'split')}
    return {session.name: values_of(session) | more}, {}

def equal(a, b):
    "Return whether two dicts of arrays hold the same names, types and values, NaN included."
    def same(x, y): return x.dtype.kind == y.dtype.kind and np.array_equal(x, y, equal_nan=x.dtype.kind == 'f')
    return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)

def names_a_file(error, folder, files):
    "Return whether a message names one of the files, or the folder."
    text = str(error)
    return str(folder) in text or any(part in text for path in files for part in (path.name, str(path)))

def judge(name, read, folder, files, truth, store):
    "Read a damaged folder: outcome, why."
    try:
        sessions, skipped = read(name, folder, store)
    except (ValueError, OSError) as error:  # RecordingError is a ValueError
        outcome = 'refused' if names_a_file(error, folder, files) else 'raw error'
        return outcome, f'{type(error).__name__}: {error}'
    except Exception as error:
        return 'raw error', ''.join(traceback.format_exception(error)[-3:])

    known, before = truth
    wrong = [key for key in sessions if key not in known or not equal(sessions[key], known[key])]
    if wrong: return 'other values', ', '.join(wrong)
    unnamed = [why for why in skipped.values() if why not in before and not names_a_file(why, folder, files)]
    if unnamed: return 'raw error', f'skipped without a file name: {unnamed[0]}'
    missing = sorted(set(known) - set(sessions))
    removed = not all(path.exists() for path in files)
    if not missing: return 'same', ''
    if removed or len(skipped) > len(before): return 'refused', '; '.join(skipped.values())
    return 'other values', f'{missing} left out without a word'

def run_case(pipe, name, read, original, truth, case, gigabytes):
    "In a child process: damage a copy, read it, send what was done and how it ended."
    warnings.simplefilter('ignore')
    used = int(Path('/proc/self/statm').read_text().split()[0])*4096
    resource.setrlimit(resource.RLIMIT_AS, (used + int(gigabytes*1e9),)*2)
    sys.stdout = open(os.devnull, 'w')
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)/original.name
        shutil.copytree(original, folder)
        files = [path for path in folder.rglob('*') if path.is_file()]
        pipe.send(damage(folder, np.random.default_rng(case)))
        pipe.send(judge(name, read, folder, files, truth, Path(temporary)/'store'))

def try_case(name, read, original, truth, case, seconds, gigabytes):
    "Return what was done to a copy, how reading it ended, and why."
    here, away = multiprocessing.Pipe(duplex=False)
    given = away, name, read, original, truth, case, gigabytes
    child = multiprocessing.get_context('fork').Process(target=run_case, args=given)
    child.start()
    away.close()
    done, ended = '?', ('hang', f'no answer within {seconds:g} s')
    try:
        if here.poll(seconds): done = here.recv()
        if here.poll(seconds): ended = here.recv()
    except EOFError:
        child.join()
        ended = 'crash', f'exit code {child.exitcode}'
    child.kill()
    child.join()
    return done, *ended

def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--format', default='', help='one of ' + ', '.join([*READERS, 'stored']))
    parser.add_argument('--n', type=int, default=50, help='cases of each format')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--case', type=int, help='this case alone, with its outcome')
    parser.add_argument('--seconds', type=float, default=30., help='after which a case hangs')
    parser.add_argument('--gigabytes', type=float, default=2., help='of memory that a case may take')
    args = parser.parse_args()
    warnings.simplefilter('ignore')
    cases = [args.case] if args.case is not None else range(args.seed*10**6, args.seed*10**6 + args.n)
    counts, faults = {}, 0

    for name in [args.format] if args.format else [*READERS, 'stored']:
        module = f'calm_nb.recordings.{READERS[name]}' if name in READERS else 'calm_nb.data'
        if importlib.util.find_spec(module) is None:
            print(f'{name}: not tried, there is no {module}')
            continue
        read = read_folder if name in READERS else read_stored
        with tempfile.TemporaryDirectory() as temporary:
            original = Path(temporary)/name
            original.mkdir()
            try:
                write_stored(original) if name == 'stored' else unpack(name, original)
                sessions, skipped = read(name, original, Path(temporary)/'store')
            except Exception as error:
                print(f'{name}: cannot be read as it is: {type(error).__name__}: {error}')
                faults += 1
                continue
            truth = sessions, {*skipped.values()}
            counts[name] = Counter()
            for case in cases:
                done, outcome, why = try_case(name, read, original, truth, case, args.seconds, args.gigabytes)
                counts[name][outcome] += 1
                fault = outcome in OUTCOMES[3:] or outcome == 'other values' and name == 'stored'
                faults += fault
                if fault or args.case is not None: print(f'{name} case {case}, {done}: {outcome}, {why[:600]}')

    print(f'{"":12}' + ''.join(f'{outcome:>14}' for outcome in OUTCOMES))
    for name, found in counts.items(): print(f'{name:12}' + ''.join(f'{found[outcome]:14}' for outcome in OUTCOMES))
    print(f'{faults} faults')
    return int(faults > 0)

if __name__ == '__main__': sys.exit(main())
