// Package hostmemory knows how much memory the process can have.
package hostmemory

// fallback is assumed where that is not known.
const fallback = 4 << 30
