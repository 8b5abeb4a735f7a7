//go:build !unix

package fil

const nonBlocking = 0
