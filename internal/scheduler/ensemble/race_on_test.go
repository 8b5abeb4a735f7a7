//go:build race

package ensemble

const raceEnabled = true // sync.Pool drops at random
