// Package cache is what response caches as libraries call: the functions of
// include/triton/core/tritoncache.h.
package cache
