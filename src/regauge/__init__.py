"""regauge: accelerators on Kubernetes under Device Plugins and DRA, and the move between them."""
