/* size_class.c - see size_class.h. */
#include "objects/size_class.h"

const struct size_class size_classes[CLASS_COUNT + 1] = {
#define SIZE_CLASS(index, size, slices, capacity) [index] = {size, capacity, slices},
#include "objects/size_classes.def"
#undef SIZE_CLASS
};
