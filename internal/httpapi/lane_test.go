package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/ledger"
)

// Who stands in line with a large text and goes holds nothing any more.
func TestWhoHasGoneLeavesTheLine(t *testing.T) {
	addr, e := serveEngine(t, nil, nil)
	heavy := e.Heavy()
	for range cap(heavy) {
		heavy.Enter(nil)
	}
	text := `{"inputs":[{"name":"IN","shape":[2000000],"datatype":"FP32","data":[0` + strings.Repeat(",0", 1_999_999) + `]}]}`
	for path, body := range map[string]string{
		"/v2/models/fp32/infer":    text,
		"/v2/models/fp32/generate": `{"IN":[0` + strings.Repeat(",0", 1_999_999) + `]}`,
	} {
		c := dial(t, addr)
		c.send("POST", path, nil, []byte(body))
		held := func(ok func(n int64) bool, what string) {
			t.Helper()
			for begin := time.Now(); !ok(e.Ledger().Held(ledger.In)); time.Sleep(time.Millisecond) {
				if time.Since(begin) > time.Minute {
					t.Fatalf("%s: %s: %d bytes are counted", path, what, e.Ledger().Held(ledger.In))
				}
			}
		}
		held(func(n int64) bool { return n >= int64(len(body)) }, "in line")
		c.c.Close()
		held(func(n int64) bool { return n == 0 }, "gone")
	}
	for range cap(heavy) {
		heavy.Leave()
	}
	if r := dial(t, addr).do("POST", "/v2/models/fp32/infer", nil, []byte(text)); r.StatusCode != 200 {
		t.Errorf("afterwards: %d %.300s", r.StatusCode, r.body)
	}
}
