// Does nothing: measures the cost of a launch.
#include "galatea/args/nothing.h"

extern "C" __global__ void nothing(galatea::NothingArguments) {}
