package perf

import (
	"testing"

	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/wire"
)

func TestThreads(t *testing.T) {
	small, large := &wire.Prepared{Tail: make([]byte, 64)}, &wire.Prepared{Tail: make([]byte, 1<<20)}
	expects := &data.Set{Streams: [][]data.Step{{{Expected: []data.Tensor{{}}}}}}
	for name, c := range map[string]struct {
		args       string
		change     func(p *prepared)
		processors int
		want       int
	}{
		"few requests":     {"", nil, 2, 1},
		"a large machine":  {"", nil, 16, 4},
		"one processor":    {"", nil, 1, 1},
		"a rate":           {"--request-rate-range=10", nil, 8, 8},
		"an export":        {"--profile-export-file=x.json", nil, 8, 8},
		"compression":      {"--grpc-compression-algorithm=gzip", nil, 8, 8},
		"no compression":   {"--grpc-compression-algorithm=none", nil, 8, 2},
		"TLS":              {"", func(p *prepared) { p.secure = true }, 8, 8},
		"answers to check": {"", func(p *prepared) { p.set = expects }, 8, 8},
		"large tensors":    {"", func(p *prepared) { p.requests[0][1] = large }, 8, 8},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"-m", "m", "-i", "grpc"}
			if c.args != "" {
				args = append(args, c.args)
			}
			o, err := options.Parse(args)
			if err != nil {
				t.Fatal(err)
			}
			p := &prepared{o: o, set: &data.Set{}, requests: [][]*wire.Prepared{{small, small}}}
			if c.change != nil {
				c.change(p)
			}
			if got := p.threads(c.processors); got != c.want {
				t.Errorf("%d threads, want %d", got, c.want)
			}
		})
	}
}
