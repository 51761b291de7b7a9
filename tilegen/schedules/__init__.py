"""How a problem is computed: one frozen dataclass a template."""
