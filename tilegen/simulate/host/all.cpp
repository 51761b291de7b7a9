// One translation unit, so that the recorder is one object file.
#include <algorithm>

#include "encoder.cpp"
#include "launch.cpp"
#include "runtime.cpp"
#include "state.cpp"
