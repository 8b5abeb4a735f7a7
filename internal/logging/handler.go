package logging

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// handler is the slog.Handler of a Log. Attributes and groups given with With
// are kept and printed behind the message.
type handler struct {
	log    *Log
	attrs  []slog.Attr
	prefix string
}

// Source names the place a message comes from, when it is not the caller: a
// model's Python file, for example. It is an attribute that replaces the
// caller's file and line.
func Source(file string, line int) slog.Attr {
	return slog.Any(sourceKey, source{file, line})
}

const sourceKey = "\x00source"

type source struct {
	file string
	line int
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return h.log.settings.Load().enabled(level)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		a.Key = h.prefix + a.Key
		n.attrs = append(n.attrs, a)
	}
	return &n
}

func (h *handler) WithGroup(name string) slog.Handler {
	n := *h
	n.prefix += name + "."
	return &n
}

func (h *handler) Handle(_ context.Context, rec slog.Record) error {
	at := source{"unknown", 0}
	if rec.PC != 0 {
		f, _ := runtime.CallersFrames([]uintptr{rec.PC}).Next()
		at = source{filepath.Base(f.File), f.Line}
	}
	attrs := slices.Clip(h.attrs)
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == sourceKey {
			if s, ok := a.Value.Any().(source); ok {
				at = source{s.file[strings.LastIndexByte(s.file, '/')+1:], s.line}
				return true
			}
		}
		if a.Equal(slog.Attr{}) {
			return true // as the contract of handlers has it
		}
		a.Key = h.prefix + a.Key
		attrs = append(attrs, a)
		return true
	})
	l := h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = l.appendLine(l.lines[:0], l.settings.Load().Format, rec, at, attrs)
	_, err := l.out.Write(l.lines)
	if l.tail != nil {
		l.tail.add(rec.Time, rec.Level, l.lines)
	}
	if cap(l.lines) > 64<<10 {
		l.lines = nil // one long message must not hold its memory for ever
	}
	return err
}
