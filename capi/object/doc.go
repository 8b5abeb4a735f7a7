// Package object has the objects of the C interface that all its halves share:
// errors, parameters, messages and buffer attributes, with the exported functions
// that make and read them, and memory for what is returned to C programs.
package object
