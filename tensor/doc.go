// Package tensor holds the vocabulary every other package speaks: element
// datatypes, shapes, counted memory buffers and tensors that view them.
//
// Open datatype.go first, then tensor.go. Nothing here allocates on behalf of
// a request except through an [Allocator], so that tensor bytes can be placed
// where the target model wants them.
package tensor
