/* size_class.c - see size_class.h. */
#include "objects/size_class.h"

const struct size_class size_classes[CLASS_COUNT + 1] = {
#define SIZE_CLASS(index, size, slices, capacity) [index] = {size, capacity, slices},
#include "objects/size_classes.def"
#undef SIZE_CLASS
};

unsigned size_class_of(size_t size) {
    if (size > 128) {
        return size_class_by_arithmetic(size);
    }
    return size <= 8 ? CLASS_OF_8 : (unsigned)((size + 15) / 16) + 1;
}
