package repotest

import (
	"regexp"
	"strings"
	"testing"
)

// wallClock are the ways to get a number off the wall clock. Times that Go's
// time.Now returns are compared and subtracted on the monotonic clock; only what
// has been made a number, or has lost that reading, jumps when the clock is set.
var wallClock = regexp.MustCompile(`\.(Unix|UnixNano|UnixMilli|UnixMicro)\(\)|` +
	`\.Round\(0\)|\btime\.Unix(Milli|Micro)?\(|\btime\.(time|time_ns)\(|datetime\.(now|utcnow)`)

// showsTime lists the files that may, with the reason.
var showsTime = map[string]string{
	"internal/stats/stats.go":             "last_inference, as the protocol has it: shown, never computed with",
	"internal/httpapi/reply.go":           "the Date header of a second; any other second makes a new one (TestDateFollowsTheClock)",
	"internal/httpapi/openai.go":          "when a reply was begun, and the server: shown, never computed with",
	"internal/dashboard/about.go":         "the start of the server, which names its run: compared, not subtracted",
	"internal/dashboard/feed.go":          "times of what is shown; their lengths are of backend.Now",
	"internal/tracing/spans.go":           "times of spans: shown; their lengths are of backend.Now",
	"internal/repository/source/stamp.go": "the modification time of a file is part of its identity: other, not later",
	"internal/repository/stamp.go":        "the modification time of a file is part of its identity: other, not later",
	"internal/perf/perf.go":               "times of a profile export: shown; their lengths are of drive.Now",
	"internal/cli/image/layers.go":        "the time of files in an image, which SOURCE_DATE_EPOCH says",
	"internal/cli/image/release/main.go":  "the time of files in an image, which the commit says",
	"internal/cli/image/sbom/main.go":     "the time of a list, which the commit says",
	"tools/release/main.go":               "the time of files in a release, which the commit says",
	"e2e/cluster/bucket.py":               "the clock of a store, which is what is tested",
	"backend/python/environment.go":       "the modification time of a file is part of a name",
	"internal/httpapi/transport/watch.go": "a deadline in the past",
	"internal/httpapi/transfer.go":        "a deadline in the past",
	"backend/internal/worker/reading.go":  "a deadline in the past",
}

// Clock jumps do no harm: durations, deadlines, queues and expiries are of the
// monotonic clock.
func TestNothingIsMeasuredByTheWallClock(t *testing.T) {
	sources(t, func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/test") || strings.HasPrefix(path, "bench/") || showsTime[path] != "" {
			return
		}
		if m := wallClock.Find(text); m != nil {
			t.Errorf("%s measures by the wall clock (%s): use backend.Now, time.Since or time.monotonic, or say in clock_test.go why not", path, m)
		}
	})
}
