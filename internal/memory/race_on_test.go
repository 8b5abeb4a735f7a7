//go:build race

package memory

const raceEnabled = true // sync.Pool drops at random
