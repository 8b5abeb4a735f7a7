// Package signals ends a command at the first signal that asks for it, and the
// process at a second one.
package signals

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameStop is how soon after a signal another one is taken for the same stop:
// timeout(1), and what forwards signals to its child, reach a process both by
// itself and in its group.
const sameStop = 300 * time.Millisecond

// Context ends the returned context at the first SIGINT or SIGTERM. A
// second one ends the process at once, unless it comes together with the first.
func Context(ctx context.Context, log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	ch := make(chan os.Signal, 2) // the first and the second
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		stopAt(ch, log, cancel, os.Exit)
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(ch)
		<-done
		cancel()
	}
}

// stopAt calls stop at the first signal, and exit at a second one.
func stopAt(signals <-chan os.Signal, log *slog.Logger, stop func(), exit func(int)) {
	var first time.Time
	for s := range signals {
		switch {
		case first.IsZero():
			stop()
			log.Info("signal received, stopping", "signal", s.String())
			first = time.Now() // what has come while the line was written came together with it
		case time.Since(first) >= sameStop:
			log.Error("second signal, exiting at once", "signal", s.String())
			exit(1)
		}
	}
}
