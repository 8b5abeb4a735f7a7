//go:build race

package model

const raceEnabled = true // sync.Pool drops at random
