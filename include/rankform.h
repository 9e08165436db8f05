/* Tensors of rankform in C: handles that are retained and released. A handle comes from DynTensor::into_raw and counts its
 * owners; the last release frees it. Functions may be called from any thread. */
#ifndef RANKFORM_H
#define RANKFORM_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct rankform_tensor rankform_tensor;

/* One more owner; the same handle. */
rankform_tensor* rankform_tensor_retain(rankform_tensor* tensor);
/* One owner less. */
void rankform_tensor_release(rankform_tensor* tensor);
/* The number of axes. */
size_t rankform_tensor_rank(rankform_tensor* tensor);
/* Sizes and strides (in elements), one an axis; they live as long as the handle. */
const size_t* rankform_tensor_sizes(rankform_tensor* tensor);
const ptrdiff_t* rankform_tensor_strides(rankform_tensor* tensor);
/* The name of the element type ("float32"), in `room` bytes at most, ended by 0; returns the length of the name. */
size_t rankform_tensor_dtype(rankform_tensor* tensor, unsigned char* to, size_t room);
/* The address of the element with index 0, for reading, in the device's own address space; null where it must not be read. */
const unsigned char* rankform_tensor_data(rankform_tensor* tensor);

#ifdef __cplusplus
}
#endif
#endif
