//go:build race

package sequence

const raceEnabled = true // which moves more to the heap
