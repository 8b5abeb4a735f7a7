// Package modelconfig owns config.pbtxt: it parses, completes, normalizes and
// validates model configurations and yields an immutable [Config].
//
// Open config.go first, then parse.go.
package modelconfig
