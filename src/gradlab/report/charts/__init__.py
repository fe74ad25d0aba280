"""Charts as data that can draw themselves on axes, one kind per file."""

from gradlab.report.charts.axis import AxisChart as AxisChart
from gradlab.report.charts.axis import Dots as Dots
from gradlab.report.charts.base import Chart as Chart
from gradlab.report.charts.base import Level as Level
from gradlab.report.charts.base import Points as Points
from gradlab.report.charts.beside import BesideChart as BesideChart
from gradlab.report.charts.beside import TwoColumns as TwoColumns
from gradlab.report.charts.box import BoxChart as BoxChart
from gradlab.report.charts.effect import EffectChart as EffectChart
from gradlab.report.charts.heat import HeatChart as HeatChart
from gradlab.report.charts.heat import HeatMap as HeatMap
from gradlab.report.charts.heat import HeatPanel as HeatPanel
from gradlab.report.charts.line import Line as Line
from gradlab.report.charts.line import LineChart as LineChart
from gradlab.report.charts.panels import Panels as Panels
from gradlab.report.charts.pareto import ParetoChart as ParetoChart
from gradlab.report.charts.seed import SeedChart as SeedChart
from gradlab.report.charts.sensitivity import SensitivityChart as SensitivityChart
from gradlab.report.charts.sensitivity import SensitivityCurve as SensitivityCurve
from gradlab.report.charts.sensitivity import SensitivityPanel as SensitivityPanel
