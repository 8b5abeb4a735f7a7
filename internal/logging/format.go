package logging

import (
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"
)

// appendLine appends one line: Triton's default format
//
//	I1121 05:27:49.123456 4711 file.go:12] "message key=value"
//
// or ISO8601, "2026-11-21T05:27:49Z I 4711 file.go:12] ...", or a JSON object.
// Below the first two come the lines of blocks.
func (l *Log) appendLine(b []byte, format string, rec slog.Record, at source, attrs []slog.Attr) []byte {
	t := rec.Time.UTC()
	if format == FormatJSON {
		return l.appendJSON(b, rec, at, attrs)
	}
	letter := levelLetter(rec.Level)
	if format == FormatISO8601 {
		b = t.AppendFormat(b, "2006-01-02T15:04:05Z ")
		b = append(b, letter, ' ')
	} else {
		b = append(b, letter)
		b = t.AppendFormat(b, "0102 15:04:05.000000 ")
	}
	b = strconv.AppendInt(b, int64(l.pid), 10)
	b = append(b, ' ')
	b = append(b, at.file...)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(at.line), 10)
	b = append(b, ']', ' ')
	text := append([]byte(nil), rec.Message...)
	for _, a := range attrs {
		if _, ok := blockOf(a); ok {
			continue
		}
		text = append(text, ' ')
		text = append(text, a.Key...)
		text = append(text, '=')
		text = appendValue(text, a.Value)
	}
	if l.escape {
		b = appendQuoted(b, string(text))
	} else {
		b = append(b, text...)
	}
	b = append(b, '\n')
	for _, a := range attrs {
		if t, ok := blockOf(a); ok {
			b = appendBlock(b, string(t))
		}
	}
	return b
}

func (l *Log) appendJSON(b []byte, rec slog.Record, at source, attrs []slog.Attr) []byte {
	b = append(b, `{"time":"`...)
	b = rec.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"`...)
	b = append(b, levelName(rec.Level)...)
	b = append(b, `","pid":`...)
	b = strconv.AppendInt(b, int64(l.pid), 10)
	b = append(b, `,"source":`...)
	b = appendQuoted(b, at.file+":"+strconv.Itoa(at.line))
	b = append(b, `,"msg":`...)
	b = appendQuoted(b, rec.Message)
	for _, a := range attrs {
		b = append(b, ',')
		b = appendQuoted(b, a.Key)
		b = append(b, ':')
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindInt64, slog.KindUint64, slog.KindBool:
			b = append(b, v.String()...)
		case slog.KindDuration:
			b = strconv.AppendFloat(b, v.Duration().Seconds(), 'g', -1, 64)
		default:
			b = appendQuoted(b, v.String())
		}
	}
	return append(b, '}', '\n')
}

// appendValue quotes what would be ambiguous bare.
func appendValue(b []byte, v slog.Value) []byte {
	s := v.Resolve().String()
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '=' || c == '"' || c >= utf8.RuneSelf {
			return strconv.AppendQuote(b, s)
		}
	}
	if s == "" {
		return append(b, `""`...)
	}
	return append(b, s...)
}

func levelLetter(l slog.Level) byte {
	switch {
	case l >= slog.LevelError:
		return 'E'
	case l >= slog.LevelWarn:
		return 'W'
	default:
		return 'I'
	}
}

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warning"
	case l >= slog.LevelInfo:
		return "info"
	default:
		return "verbose"
	}
}

const hexDigits = "0123456789ABCDEF"

// appendQuoted appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\t':
			b = append(b, '\\', 't')
		case r == '\r':
			b = append(b, '\\', 'r')
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
