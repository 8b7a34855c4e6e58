"Print the forecast table of an executed notebook and where its figure is: show.py NOTEBOOK DATASET SCALE"
import sys
import pandas as pd
from calm_nb.core import figure_folder, resolve_scale, show_table
from calm_nb.forecast import summary

notebook, dataset, scale = sys.argv[1:]
folder = figure_folder(dataset, resolve_scale(scale))
print()
show_table(summary(pd.read_csv(folder/'forecast_sessions.csv')), title=f'Forecasts, {dataset}, {folder.name.removeprefix(dataset + "-")} scale')
print(f'\nfigure   {folder/"forecast.png"}\nnotebook {notebook}')
