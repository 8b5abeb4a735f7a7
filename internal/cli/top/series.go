package top

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Series is one line of metrics in Prometheus' text format.
type Series struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// maxLine bounds a line of metrics, in bytes.
const maxLine = 1 << 20

// ReadSeries reads the metrics that have one of the names; what is no line of metrics
// is left out.
func ReadSeries(in io.Reader, names ...string) ([]Series, error) {
	var all []Series
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Text()
		for _, name := range names {
			if rest, ok := strings.CutPrefix(line, name); ok && (strings.HasPrefix(rest, "{") || strings.HasPrefix(rest, " ")) {
				if s, ok := readSeries(name, rest); ok {
					all = append(all, s)
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return all, fmt.Errorf("the server's metrics: %w", err)
	}
	return all, nil
}

// readSeries reads what follows the name: labels in braces, and a value.
func readSeries(name, rest string) (Series, bool) {
	s := Series{Name: name, Labels: map[string]string{}}
	if labels, ok := strings.CutPrefix(rest, "{"); ok {
		for !strings.HasPrefix(labels, "}") {
			key, after, ok := strings.Cut(labels, `="`)
			if !ok {
				return s, false
			}
			value, left, ok := unquote(after)
			if !ok {
				return s, false
			}
			s.Labels[key] = value
			labels = strings.TrimPrefix(left, ",")
		}
		rest = labels[1:]
	}
	fields := strings.Fields(rest) // a time may follow
	if len(fields) == 0 {
		return s, false
	}
	var err error
	s.Value, err = strconv.ParseFloat(fields[0], 64)
	return s, err == nil
}

// unquote reads a label's value up to its closing quote.
func unquote(text string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			if i++; i == len(text) {
				return "", "", false
			}
			if text[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
