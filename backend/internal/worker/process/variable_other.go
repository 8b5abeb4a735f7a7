//go:build !windows

package process

// variable is the name of a variable of the environment as it is compared.
func variable(name string) string { return name }

// systemBasics are what programs of some other system look for.
var systemBasics []string
