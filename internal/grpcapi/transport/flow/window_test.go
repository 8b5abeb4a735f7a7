package flow

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestTranscripts plays testdata/*.txt, with these events:
//
//	window N              a new window
//	inbound N ENOUGH      one of what comes in; updates are sent once ENOUGH is owed
//	spend N               N bytes are sent
//	grant N               N bytes more may be sent
//	extend N              a message is coming, of which N bytes are still to come
//	used N                N bytes have been used up
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T, _, script string) string {
		var w Inbound
		var enough int64
		var out bytes.Buffer
		return transcript.Events(script, &out, func(words []string) {
			n, err := strconv.ParseInt(words[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			grant, fine := int64(0), true
			switch words[0] {
			case "window":
				w = Inbound{Window: Of(n)}
			case "inbound":
				w = InboundOf(n)
				if enough, err = strconv.ParseInt(words[2], 10, 64); err != nil {
					t.Fatal(err)
				}
			case "spend":
				fine = w.Spend(n)
			case "grant":
				fine = w.Grant(n)
			case "extend":
				grant = w.Extend(n)
			case "used":
				grant = w.Used(n, enough)
			default:
				t.Fatalf("unknown event %q", words)
			}
			fmt.Fprintf(&out, "  left %d", w.Left())
			if w.extra > 0 {
				fmt.Fprintf(&out, ", extra %d", w.extra)
			}
			if w.owed > 0 {
				fmt.Fprintf(&out, ", owed %d", w.owed)
			}
			out.WriteString("\n")
			if grant > 0 {
				fmt.Fprintf(&out, "  WINDOW_UPDATE %d\n", grant)
			}
			if !fine {
				out.WriteString("  beyond the bounds\n")
			}
		})
	})
}

// A receiver that uses up what comes neither stops its client nor lets it send more
// than it should: what is granted is what is left, owed and on its way to be used.
func TestNothingIsLost(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const size, enough = 1000, 250
	w := InboundOf(size)
	unused := int64(0)
	for range 100_000 {
		switch random.IntN(3) {
		case 0:
			if n := random.Int64N(w.Left() + 1); w.Spend(n) {
				unused += n
			}
		case 1:
			n := random.Int64N(unused + 1)
			unused -= n
			w.Used(n, enough)
		case 2:
			if w.extra == 0 {
				w.Extend(random.Int64N(5 * size))
			}
		}
		if all := w.Left() + w.owed + unused; all != size+w.extra {
			t.Fatalf("%d bytes are left, %d owed, %d not used up: together not %d and the extra %d", w.Left(), w.owed, unused, size, w.extra)
		}
		if unused == 0 && w.Left() == 0 {
			t.Fatal("the client waits for ever")
		}
	}
}
