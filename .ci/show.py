"Print the forecast table in a folder of results, at most eight rows, and where its figure is: show.py FOLDER"
import sys
from pathlib import Path

from calm_nb.plots import show_table
from calm_nb.scores import read_table, summary

folder = Path(sys.argv[1])
scores = read_table(folder/'forecast_sessions.csv')
ranked = scores[scores.metric == 'corr'].groupby('model').value.mean().sort_values()
shown = [*ranked.index[::-1][:8]]
rows = scores[scores.model.isin(shown)].sort_values('model', key=lambda x: x.map(shown.index), kind='stable')
print()
show_table(summary(rows), title=f'Forecasts: {scores.dataset[0]}, scale {scores.scale[0]}, mean ± sd over animals')
print()
for what, name in (('figure', 'forecast.png'), ('notebook', 'forecast.ipynb'), ('all', 'forecast_sessions.csv')):
    print(f'{what:8} {folder/name}')
