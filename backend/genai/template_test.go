package genai

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
)

// TestTemplateThatLoops: who meets it is told in time, those after it at once, and when it ends all
// is as before.
func TestTemplateThatLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newTemplate(func(messages, tools string) (string, error) {
			if messages == "loop" {
				<-release
			}
			return messages + tools, nil
		})
		if text, err := f.fill("a", "b"); err != nil || text != "ab" {
			t.Errorf("got %q, %v", text, err)
		}
		begin := time.Now()
		late := func(what, messages string, after time.Duration) {
			_, err := f.fill(messages, "")
			if err == nil || backend.AsError(err).Code != backend.Unavailable || !strings.Contains(err.Error(), "did not end within 10s") {
				t.Errorf("%s: %v", what, err)
			}
			if got := time.Since(begin); got != after {
				t.Errorf("%s: told after %v, want %v", what, got, after)
			}
		}
		late("the loop", "loop", templateLimit)
		late("the next one", "a", templateLimit)
		if f.ended() {
			t.Error("it has ended while it loops")
		}
		close(release)
		synctest.Wait()
		if text, err := f.fill("a", ""); err != nil || text != "a" || !f.ended() {
			t.Errorf("after the end: %q, %v", text, err)
		}
	})
}
