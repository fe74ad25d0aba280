"""Charts as data that can draw themselves on axes, by family: lines, dots, colors."""

from gradlab.report.charts.base import Chart as Chart
from gradlab.report.charts.base import Level as Level
from gradlab.report.charts.base import Panels as Panels
from gradlab.report.charts.base import Points as Points
from gradlab.report.charts.dots import BoxChart as BoxChart
from gradlab.report.charts.dots import Column as Column
from gradlab.report.charts.dots import EffectChart as EffectChart
from gradlab.report.charts.dots import Offer as Offer
from gradlab.report.charts.dots import ParetoChart as ParetoChart
from gradlab.report.charts.dots import SeedChart as SeedChart
from gradlab.report.charts.heat import HeatChart as HeatChart
from gradlab.report.charts.heat import HeatMap as HeatMap
from gradlab.report.charts.heat import HeatPanel as HeatPanel
from gradlab.report.charts.heat import UnitMap as UnitMap
from gradlab.report.charts.lines import AxisChart as AxisChart
from gradlab.report.charts.lines import Dots as Dots
from gradlab.report.charts.lines import Line as Line
from gradlab.report.charts.lines import LineChart as LineChart
from gradlab.report.charts.lines import SensitivityChart as SensitivityChart
from gradlab.report.charts.lines import SensitivityCurve as SensitivityCurve
