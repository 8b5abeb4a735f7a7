// Package memory owns ordinary memory for tensors: a pool of counted,
// 64-byte-aligned buffers in size classes.
//
// Open pool.go first; class.go has the arithmetic of sizes, large.go the
// bounded cache of large buffers, live.go the checks of invariants builds.
package memory
