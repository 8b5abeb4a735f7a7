// Package top owns the table of `neso top`: what two looks at a running server, some
// time apart, say of each model. It is pure; internal/cli/remote looks and prints.
//
// Begin with Rates, in rates.go.
package top
