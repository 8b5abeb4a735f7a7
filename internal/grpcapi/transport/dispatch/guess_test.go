package dispatch

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestTranscripts plays testdata/*.txt, with these events:
//
//	connection                  a new one
//	alone TIME [N]              a call comes alone, and would take so long on the reader; N of them
//	before TIME                 the same, and before it is over the next one has come
//	beside                      a call comes while another one is open
//	taken over                  a call on the reader takes so long that another goroutine reads on
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T, _, script string) string {
		g := &Guess{}
		reader, others := 0, 0
		one := func(company bool) bool {
			if g.Next(company) == 0 {
				others++
				return false
			}
			reader++
			return true
		}
		var out bytes.Buffer
		return transcript.Events(script, &out, func(words []string) {
			reader, others = 0, 0
			var took time.Duration
			if words[0] == "alone" || words[0] == "before" {
				var err error
				if took, err = time.ParseDuration(words[1]); err != nil {
					t.Fatal(err)
				}
			}
			switch words[0] {
			case "connection":
				*g = Guess{}
				return
			case "alone":
				n := 1
				if len(words) > 2 {
					n, _ = strconv.Atoi(words[2])
				}
				for range n {
					if one(false) {
						g.Ended(took, false)
					}
				}
			case "before":
				if one(false) {
					g.Ended(took, took >= LongCall)
				}
			case "beside":
				one(true)
			case "taken":
				if one(false) {
					g.Avoid()
				}
			default:
				t.Fatalf("unknown event %q", words)
			}
			fmt.Fprintf(&out, "  on the reader %d, elsewhere %d\n", reader, others)
		})
	})
}

// No turn comes twice.
func TestTurns(t *testing.T) {
	var g Guess
	last := uint64(0)
	for i := range 1000 {
		turn := g.Next(i%7 == 0)
		if turn == 0 {
			continue
		}
		if turn <= last || turn != g.Turn() {
			t.Fatalf("turn %d behind %d", turn, last)
		}
		last = turn
	}
	if last == 0 {
		t.Error("the reader never had a turn")
	}
}
