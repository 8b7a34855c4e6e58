"Print the forecast table in a folder of results and where its figure is: show.py FOLDER"
import sys
from pathlib import Path
import pandas as pd
from calm_nb.first.core import show_table
from calm_nb.first.forecast import summary

folder = Path(sys.argv[1])
scores = pd.read_csv(folder/'forecast_sessions.csv')
print()
show_table(summary(scores), title=f'Forecasts: {scores.dataset[0]}, scale {scores.scale[0]}, seed {scores.seed[0]}')
print(f'\nfigure   {folder/"forecast.png"}\nnotebook {folder/"forecast.ipynb"}')
