// Package events reads server-sent events.
package events

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Read ranges over the data of the events of r; comments and other fields are left
// out. A slice is valid until the next one. An event longer than limit bytes is an
// error, and so is one that is cut off in its middle.
func Read(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, limit)
		var data []byte
		open := false
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) == 0 {
				if open && !yield(data, nil) {
					return
				}
				data, open = data[:0], false
				continue
			}
			rest, ok := bytes.CutPrefix(line, []byte("data:"))
			if !ok {
				continue
			}
			if open {
				data = append(data, '\n')
			}
			data, open = append(data, bytes.TrimPrefix(rest, []byte(" "))...), true
			if len(data) > limit {
				yield(nil, tooLong(limit))
				return
			}
		}
		err := lines.Err()
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			err = tooLong(limit)
		case err == nil && open:
			err = fmt.Errorf("the stream ends within an event: %w", io.ErrUnexpectedEOF)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func tooLong(limit int) error {
	return fmt.Errorf("the stream has an event longer than %d bytes", limit)
}
