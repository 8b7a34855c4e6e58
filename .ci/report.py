"""Count the notebooks that were run: report.py LOG STATUS FAILED_CHECKS

LOG is what `nbdev_test --do_print` printed and STATUS its exit status. A notebook passed if nbdev says it completed it
and does not list it as failed. One that was not run has not passed, and neither has any if the tests ended without a
verdict. A failed check (export, clean) counts as one failure.
"""
import re, sys
from pathlib import Path

def count(log, status, notebooks):
    "Names of the notebooks that passed and of those that did not."
    completed = {Path(p).name for p in re.findall(r'- Completed (.+?\.ipynb)', log)}
    _, found, listed = log.partition('Tests Failed On The Following Notebooks:')
    failed = {line.strip() for line in listed.splitlines() if line.strip().endswith('.ipynb')}
    verdict = found or ('Success.' in log and status == 0)
    passed = completed - failed if verdict else set()
    return sorted(passed & notebooks), sorted(notebooks - passed)

def main(log, status, failed_checks):
    found = Path('nbs').rglob('[!_]*.ipynb')
    notebooks = {p.name for p in found if '.ipynb_checkpoints' not in p.parts}
    status, failed_checks = int(status), int(failed_checks)
    passed, failed = count(Path(log).read_text(errors='replace'), status, notebooks)
    for name in failed: print(f'not passed: {name}')
    print(f'{len(passed)} passed, {len(failed) + failed_checks} failed')
    return bool(status or failed or failed_checks or not passed)

if __name__ == '__main__': sys.exit(main(*sys.argv[1:]))
