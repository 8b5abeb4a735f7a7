package engine

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// progressPause is how often a start that loads models says how far it is.
	progressPause = 5 * time.Second
	// progressNames is how many models it names.
	progressNames = 5
)

// progress says how far a start is: "loading 3 of 14: a, b", of the models that are
// loaded, or being loaded, and of the names of the latter.
func (e *Engine) progress() string {
	p := e.life.Progress()
	if p.Total == 0 {
		return "starting"
	}
	names := p.Loading
	more := ""
	if n := len(names) - progressNames; n > 0 {
		names, more = names[:progressNames], fmt.Sprintf(" and %d more", n)
	}
	text := fmt.Sprintf("loading %d of %d", p.Begun, p.Total)
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ") + more
	}
	return text
}

// tellProgress logs how far a start is, now and then, until end is called.
func (e *Engine) tellProgress() (end func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressPause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				e.log.Info(e.progress()) // names and numbers, for people
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
