package metrics

import (
	"fmt"
	"io"
	"testing"

	"github.com/nesoserve/neso/internal/stats"
)

// many returns a thousand models that are loaded, or also called.
func many(called bool) []Model {
	models := make([]Model, 1000)
	for i := range models {
		v := stats.NewVersion(nil)
		if called {
			v.Batch(4, 1000, 2000, 3000)
		}
		models[i] = Model{Name: fmt.Sprintf("model_%04d", i), Version: 1, Numbers: v.Snapshot()}
		if called {
			models[i].Numbers.Success = stats.Duration{Count: 1, Nanos: 1000}
		}
	}
	return models
}

// BenchmarkScrape is what one page costs, by what the models have done.
func BenchmarkScrape(b *testing.B) {
	for name, called := range map[string]bool{"idle": false, "called": true} {
		b.Run(name, func(b *testing.B) {
			models := many(called)
			config, _, err := ParseConfig(nil)
			if err != nil {
				b.Fatal(err)
			}
			m := New(Options{Models: func() []Model { return models }, Config: config, ServerVersion: "1"})
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Write(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
