// Does nothing: what remains is the cost of a launch.
#include "galatea/args/nothing.h"

extern "C" __global__ void nothing(galatea::NothingArguments) {}
