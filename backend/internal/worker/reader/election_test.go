package reader

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestTranscripts plays testdata/*.txt. Unindented lines are events, the indented
// lines below them who reads then. NAME waits for a batch.
//
//	start               a fresh channel, which the background goroutine reads
//	NAME waits          takes the part, or waits
//	NAME ends           its batch has ended
//	pass [busy] [@TIME] the reader passes the part on; busy: there is something to wait for
//	fetch               the reader yields the part, to do something else
//	look [quiet]        the background goroutine has read a frame; quiet: there is nothing to wait for
//	tick                the idle timer
//	called @TIME        by the process
//	close
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T, _, script string) string {
		var out bytes.Buffer
		e := &Election[string]{}
		return transcript.Events(script, &out, func(words []string) {
			if words[0] == "start" {
				e = &Election[string]{}
			}
			for _, said := range event(t, e, words) {
				fmt.Fprintf(&out, "  %s\n", said)
			}
		})
	})
}

func event(t *testing.T, e *Election[string], words []string) []string {
	t.Helper()
	at := func() time.Time {
		for _, w := range words {
			if text, ok := strings.CutPrefix(w, "@"); ok {
				d, err := time.ParseDuration(text)
				if err != nil {
					t.Fatal(err)
				}
				return time.Unix(0, 0).Add(d)
			}
		}
		t.Fatalf("%q asks for the time", words)
		return time.Time{}
	}
	has := func(word string) bool { return slices.Contains(words, word) }
	armed := func(arm bool, said string) string {
		if arm {
			said += ", tick in " + IdleRead.String()
		}
		return said
	}
	switch {
	case words[0] == "start":
		e.Take()
		return []string{"background reads"}
	case words[0] == "pass":
		switch next, w, arm := e.PassOn(has("busy"), at); next {
		case Waiting:
			return []string{w + " reads"}
		case Background:
			return []string{"background reads"}
		default:
			return []string{armed(arm, "nobody reads")}
		}
	case words[0] == "fetch":
		return []string{armed(e.Yield(), "nobody reads")}
	case words[0] == "look":
		if e.Look(has("quiet")) {
			return []string{"passes on"}
		}
		return []string{"reads on"}
	case words[0] == "tick":
		switch wake, arm := e.Tick(); {
		case wake:
			return []string{"background reads"}
		case arm:
			return []string{armed(true, "nobody reads")}
		}
		return nil
	case words[0] == "called":
		e.Called(at())
	case words[0] == "close":
		e.Close()
		if e.Take() {
			return []string{"background reads"}
		}
	case has("waits"):
		if e.Take() {
			return []string{words[0] + " reads"}
		}
		e.Wait(words[0])
	case has("ends"):
		if e.Ended(words[0]) {
			return []string{words[0] + " wakes"}
		}
	default:
		t.Fatalf("unknown event %q", words)
	}
	return nil
}
