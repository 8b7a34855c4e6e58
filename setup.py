"Installs calm_nb; every setting is read from settings.ini."
from configparser import ConfigParser
from pathlib import Path
from setuptools import find_packages, setup

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='], interpolation=None)
parser.read(here/'settings.ini', encoding='utf-8')
cfg = parser['DEFAULT']
readme = here/'README.md'
statuses = ['1 - Planning', '2 - Pre-Alpha', '3 - Alpha', '4 - Beta', '5 - Production/Stable', '6 - Mature', '7 - Inactive']

setup(
    name=cfg['lib_name'], version=cfg['version'], description=cfg['description'], keywords=cfg['keywords'],
    author=cfg['author'], author_email=cfg['author_email'], url=cfg['git_url'], license=cfg['license'].upper(),
    long_description=readme.read_text(encoding='utf-8') if readme.exists() else cfg['description'],
    long_description_content_type='text/markdown',
    classifiers=[f'Development Status :: {statuses[int(cfg["status"]) - 1]}', f'Intended Audience :: {cfg["audience"]}',
                 f'Natural Language :: {cfg["language"]}', 'Programming Language :: Python :: 3'],
    packages=find_packages(include=[cfg['lib_name'], cfg['lib_name'] + '.*']), include_package_data=True, package_data={cfg['lib_name']: ['*.csv', '*.json', '*.css', 'shipped/*', 'shipped/*/*', 'pretrained/*/*']},
    python_requires=f'>={cfg["min_python"]}', install_requires=cfg['requirements'].split(),
    extras_require={'recordings': cfg['recordings_requirements'].split(), 'interop': cfg['interop_requirements'].split(), 'paper': cfg['paper_requirements'].split(), 'interactive': cfg['interactive_requirements'].split(), 'zeroshot': cfg['zeroshot_requirements'].split(),
                    'dev': ' '.join(cfg[f'{k}_requirements'] for k in ('recordings', 'interop', 'dev')).split()},
    entry_points={'console_scripts': cfg['console_scripts'].split()}, zip_safe=False)
