"""Times kernels beside their peers: same process or same rounds, interleaved, ratios with raw samples."""
