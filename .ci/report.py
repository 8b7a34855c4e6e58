"""Count the notebooks that were run: report.py LOG STATUS FAILED_CHECKS

LOG is what `nbdev_test --do_print` printed and STATUS its exit status. A notebook of git has passed if nbdev says that
it completed it and does not list it as failed; one that was not run has not passed, and without a verdict none has.
A failed check (export, clean, counts …) counts as one failure.
"""
import re
import subprocess
import sys
from pathlib import Path


def tracked_notebooks():
    "Notebooks that git knows or would add; hidden ones and those of hidden folders are no tests."
    command = ['git', 'ls-files', '--cached', '--others', '--exclude-standard', 'nbs/*.ipynb']
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return {Path(n).resolve() for n in names if not re.search(r'/[_.]', n) and Path(n).exists()}


def failed_paths(log, completed):
    "nbdev lists failed notebooks by name alone; the error above says which of several it was."
    listed = log.partition('Tests Failed On The Following Notebooks:')[2]
    names = {line.strip() for line in listed.splitlines() if line.strip().endswith('.ipynb')}
    errors = {Path(p) for p in re.findall(r'^\w[\w.]* in (/.+?\.ipynb):$', log, re.M)}
    failed = set()
    for name in names:
        same = {p for p in completed if p.name == name}
        failed |= same & errors or same
    return failed


def main(log, status, failed_checks):
    log, status = Path(log).read_text(errors='replace'), int(status)
    completed = {Path(p) for p in re.findall(r'- Completed (.+?\.ipynb)', log)}
    verdict = 'Tests Failed On' in log or ('Success.' in log and status == 0)
    expected = tracked_notebooks()
    passed = (completed - failed_paths(log, completed)) & expected if verdict else set()
    for path in sorted(expected - passed): print(f'not passed: {path.relative_to(Path.cwd())}')
    failures = len(expected - passed) + int(failed_checks)
    skipped = sorted(set(re.findall(r'^skipped[:,] .+', log, re.M)))
    print(*skipped, f'{len(skipped)} kinds of tests skipped', sep='\n')
    print(f'{len(passed)} passed, {failures} failed')
    return bool(status or failures or not passed)


if __name__ == '__main__': sys.exit(main(*sys.argv[1:]))
