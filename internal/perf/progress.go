package perf

import (
	"fmt"
	"io"

	"github.com/nesoserve/neso/internal/perf/report"
)

// progress is the line on a terminal that says how the load goes.
type progress struct {
	out   io.Writer // nil shows nothing
	shown bool
}

func (s *session) progress() *progress {
	if !s.env.Terminal || s.o.NoProgress {
		return &progress{}
	}
	return &progress{out: s.env.Stderr}
}

func (p *progress) print(text string) {
	if p.out != nil {
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
		p.shown = true
	}
}

// clear takes the line away, before something else is printed.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

const barWidth = 20

// show shows a moment of the measurement.
func (p *progress) show(k report.Tick, n int) {
	if p.out == nil {
		return
	}
	bar := make([]rune, barWidth)
	for i := range bar {
		bar[i] = '·'
	}
	bar[n%barWidth] = '━'
	p.print(fmt.Sprintf("  %s %6.1f s  %.0f requests/s, mean %d µs", string(bar), k.Seconds, k.Rate, k.MeanNS/1000))
}
