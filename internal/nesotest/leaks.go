package nesotest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines of tests may take to end: on a busy machine one
// whose work is done may wait for a processor longer than the half second that
// goleak gives it.
const patience = time.Minute

// Main is a package's TestMain: it runs the tests and fails if a goroutine of
// theirs goes on for a minute. It does not return.
func Main(m *testing.M, options ...goleak.Option) { os.Exit(Run(m, options...)) }

// Run is [Main] without the exit, for packages that clean up: it returns the code
// to exit with.
func Run(m *testing.M, options ...goleak.Option) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := Left(options...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Left waits until no goroutine of the tests is left, and names those that go on
// for a minute.
func Left(options ...goleak.Option) error {
	end := time.Now().Add(patience)
	err := goleak.Find(options...)
	for err != nil && time.Now().Before(end) {
		err = goleak.Find(options...)
	}
	if err != nil {
		return fmt.Errorf("goroutines are left of the tests: %w", err)
	}
	return nil
}
