"""Sources of readings: who measures devices, who counts a driver's calls, and what a node's kubelet tells.

One file for each kind; `naming` makes them from what the command line says.
"""

from regauge.observe.sources.mappings import Mappings, known_mappings, read_mappings
from regauge.observe.sources.naming import KINDS, Surroundings, check_source, make_source, make_sources
from regauge.observe.sources.nvml import NvmlSource, nvml_source
from regauge.observe.sources.pod_resources import PodResourcesSource, node_report
from regauge.observe.sources.scraped import ScrapedSource, Target
from regauge.observe.sources.textfile import TextFileSource

__all__ = [
    "KINDS",
    "Mappings",
    "NvmlSource",
    "PodResourcesSource",
    "ScrapedSource",
    "Surroundings",
    "Target",
    "TextFileSource",
    "check_source",
    "known_mappings",
    "make_source",
    "make_sources",
    "node_report",
    "nvml_source",
    "read_mappings",
]
