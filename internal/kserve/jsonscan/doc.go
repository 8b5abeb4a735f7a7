// Package jsonscan owns JSON's grammar as the protocol's peer has it: a scanner
// over text that builds nothing, numbers read exactly and floats written as the
// peer writes them. It knows nothing of requests. Open scanner.go first.
package jsonscan
