"""Generated files: the kernel list, the manifest, the writer, and the check for drift."""
