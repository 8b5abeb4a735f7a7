// Package native is the half of the C interface that backend libraries call: the functions of
// include/triton/core/tritonbackend.h.
package native
