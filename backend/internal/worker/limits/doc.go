// Package limits reads from the parameters of a model what its workers may use:
// memory, open files, processor time, and the time of a load. It also says how much
// memory a process has.
package limits
