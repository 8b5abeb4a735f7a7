package refusals

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
)

// Reason is why a request was refused.
type Reason uint8

// The reasons. They have names of their own in the log and in the metrics.
const (
	Origin     Reason = iota // it comes from a page of somebody else
	Host                     // it is for a server of another name
	NoKey                    // it has no key
	UnknownKey               // it has a key that nobody has
	KeyLimits                // its key may not do that
	Restricted               // it lacks the header of a restricted API
	Listener                 // it belongs to another listener
	ModelFiles               // it brings files for a model
	ModelLoads               // a model wants to load or unload
	Outside                  // it names a path outside of the model
	reasonCount
)

var names = [reasonCount]string{
	"origin", "host", "key_missing", "key_unknown", "key_limits", "restricted", "listener", "model_files",
	"model_loads", "path",
}

func (r Reason) String() string { return names[r] }

// Book counts and logs. A nil Book does neither. It is safe for concurrent use.
type Book struct {
	log    *slog.Logger
	counts [reasonCount]atomic.Uint64

	mu      sync.Mutex
	budgets [reasonCount]budget
}

// New returns a book that writes to a log.
func New(log *slog.Logger) *Book { return &Book{log: log} }

// Refused notes a refusal: why in a sentence, where it came from in attributes. No
// secret may be among them.
func (b *Book) Refused(reason Reason, why string, from ...slog.Attr) {
	if b == nil {
		return
	}
	b.counts[reason].Add(1)
	b.mu.Lock()
	ok, silent := b.budgets[reason].take(backend.Now())
	b.mu.Unlock()
	if !ok {
		return
	}
	args := make([]any, 0, 3+len(from))
	args = append(args, slog.String("reason", reason.String()), slog.String("why", brief(why)))
	for _, a := range from {
		args = append(args, slog.String(a.Key, brief(a.Value.String())))
	}
	if silent > 0 {
		args = append(args, slog.Uint64("not_logged_before", silent))
	}
	b.log.Warn("request refused", args...)
}

// Counts returns how many requests were refused for each reason.
func (b *Book) Counts() map[string]uint64 {
	counts := make(map[string]uint64, reasonCount)
	for r := range reasonCount {
		counts[r.String()] = b.counts[r].Load()
	}
	return counts
}

// longest bounds what a client can put into a line, in bytes.
const longest = 300

func brief(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "..."
}

// Lines a reason may have at once, and one more a second.
const atOnce = 10

// budget is the arithmetic of the lines for one reason.
type budget struct {
	at     int64 // ns of backend.Now
	left   float64
	begun  bool
	silent uint64 // refusals since the last line
}

// take reports whether a line may be written, and how many refusals had none since
// the one before.
func (b *budget) take(now int64) (ok bool, silent uint64) {
	if !b.begun {
		b.begun, b.left = true, atOnce
	} else {
		b.left = min(atOnce, b.left+float64(now-b.at)/1e9)
	}
	b.at = now
	if b.left < 1 {
		b.silent++
		return false, 0
	}
	b.left--
	silent, b.silent = b.silent, 0
	return true, silent
}
