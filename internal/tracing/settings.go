package tracing

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// Level says what is noted of a sampled request; levels add up.
type Level uint8

// The levels.
const (
	Off        Level = 0
	Timestamps Level = 1 << iota
	Tensors
)

// Names returns the protocol's names of the level, "OFF" for none.
func (l Level) Names() []string {
	var names []string
	if l&Timestamps != 0 {
		names = append(names, "TIMESTAMPS")
	}
	if l&Tensors != 0 {
		names = append(names, "TENSORS")
	}
	if names == nil {
		return []string{"OFF"}
	}
	return names
}

// ParseLevel reads one word of a client, in any case. Words that are no level
// are not known, and mean nothing.
func ParseLevel(word string) (l Level, known bool) {
	switch strings.ToUpper(word) {
	case "OFF":
		return Off, true
	case "TIMESTAMPS", "MIN", "MAX":
		return Timestamps, true
	case "TENSORS":
		return Tensors, true
	}
	return Off, false
}

// Names of the settings on the wire.
const (
	keyLevel        = "trace_level"
	keyRate         = "trace_rate"
	keyCount        = "trace_count"
	keyLogFrequency = "log_frequency"
	keyFile         = "trace_file"
	keyMode         = "trace_mode"
)

// Settings say which requests are sampled, and what is noted of them.
type Settings struct {
	Level Level
	// Rate samples each Rate-th request; 0 none but those whose client traces.
	Rate uint32
	// Count is how many more are sampled; -1 means no end.
	Count int32
	// LogFrequency, if not 0, is how many traces go into one of the numbered files.
	LogFrequency uint32
}

// Defaults are the settings of a server that was told nothing.
func Defaults() Settings { return Settings{Rate: 1000, Count: -1} }

// Edit is what is asked of one setting; the zero value leaves it.
type Edit[T any] struct {
	// Given says that Value is to hold, Cleared that the setting goes back to what
	// holds without it.
	Given, Cleared bool
	Value          T
}

func (e *Edit[T]) set(v T) { *e = Edit[T]{Given: true, Value: v} }

// apply lets e change an override.
func apply[T any](e Edit[T], to **T) {
	if e.Cleared {
		*to = nil
	}
	if e.Given {
		*to = &e.Value
	}
}

// Change is what a client wants of the settings.
type Change struct {
	Level        Edit[Level]
	Rate         Edit[uint32]
	Count        Edit[int32]
	LogFrequency Edit[uint32]
}

// IsZero reports whether nothing is to change.
func (c *Change) IsZero() bool { return *c == Change{} }

// Locked reports whether a setting cannot be changed by a client, with the
// error that says so.
func Locked(name string) *backend.Error {
	if name == keyFile {
		return &backend.Error{Code: backend.Unsupported, Message: "trace file location can not be updated through network protocol"}
	}
	return nil
}

// IsLevel and IsScalar tell the setting that is a list from those that are one
// text. A name that is neither has no meaning.
func IsLevel(name string) bool { return name == keyLevel }

// IsScalar reports whether the setting has one text as its value.
func IsScalar(name string) bool {
	return name == keyRate || name == keyCount || name == keyLogFrequency
}

// Clear asks for the setting to go back. Unknown names are ignored.
func (c *Change) Clear(name string) {
	switch name {
	case keyLevel:
		c.Level = Edit[Level]{Cleared: true}
	case keyRate:
		c.Rate = Edit[uint32]{Cleared: true}
	case keyCount:
		c.Count = Edit[int32]{Cleared: true}
	case keyLogFrequency:
		c.LogFrequency = Edit[uint32]{Cleared: true}
	}
}

// SetLevels asks for levels. It ignores words that are no levels, as the peer does.
func (c *Change) SetLevels(words []string) *backend.Error {
	var level Level
	given := false
	for _, w := range words {
		l, known := ParseLevel(w)
		if !known {
			continue
		}
		if l == Off && len(words) > 1 {
			return backend.Errorf(backend.InvalidArg, "Expect only one trace level 'OFF' is specified")
		}
		level |= l
		given = true
	}
	if given {
		c.Level.set(level)
	}
	return nil
}

// Set asks for a value of one of the other settings. Unknown names are ignored.
func (c *Change) Set(name, value string) *backend.Error {
	switch name {
	case keyRate:
		return setNumber(&c.Rate, name, value)
	case keyLogFrequency:
		return setNumber(&c.LogFrequency, name, value)
	case keyCount:
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return backend.Errorf(backend.InvalidArg, "Unable to parse '%s', value is out of range [ -1, 2147483647 ], got: %s", name, value)
		case err != nil:
			return backend.Errorf(backend.InvalidArg, "Unable to parse '%s', got: %s", name, value)
		case n < -1:
			return backend.Errorf(backend.InvalidArg, "Unable to parse '%s'. Expecting value >= -1, got:%d", name, n)
		}
		c.Count.set(int32(n))
	}
	return nil
}

func setNumber(to *Edit[uint32], name, value string) *backend.Error {
	text := strings.TrimSpace(value)
	n, err := strconv.ParseUint(text, 10, 32)
	_, negative := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err != nil && negative == nil:
		return backend.Errorf(backend.InvalidArg, "Unable to parse '%s', value is out of range [ 0, 4294967295 ], got: %s", name, value)
	case err != nil:
		return backend.Errorf(backend.InvalidArg, "Unable to parse '%s', got: %s", name, value)
	}
	to.set(uint32(n))
	return nil
}

// Field is one line of the settings as clients see them.
type Field struct {
	Name string
	// Values has one text, or several for a list.
	Values []string
	List   bool
}
