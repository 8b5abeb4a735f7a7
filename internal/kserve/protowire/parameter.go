package protowire

import (
	"math"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
)

// mapEntry reads one entry of a map<string, InferParameter> and appends it to
// dst. Entries with the same key are all kept; see lastOfEach.
func (c *cursor) mapEntry(dst []backend.Parameter, q *Request) ([]backend.Parameter, error) {
	outer, err := c.enter()
	if err != nil {
		return dst, err
	}
	last := ""
	if len(dst) < cap(dst) {
		last = dst[:len(dst)+1][len(dst)].Name
	}
	name := ""
	value := backend.Parameter{Kind: unset}
	for c.more() {
		num, wire, err := c.tag()
		if err != nil {
			return dst, err
		}
		switch {
		case num == 1 && wire == wireBytes:
			name, err = c.text(last)
		case num == 2 && wire == wireBytes:
			value, err = c.parameter(value)
		default:
			err = c.skip(num, wire)
		}
		if err != nil {
			return dst, err
		}
	}
	c.leave(outer)
	if q.listed++; q.listed > kserve.MaxParameters {
		q.fault("parameters", kserve.MaxParameters)
		return dst, nil
	}
	value.Name = name
	return append(dst, value), nil
}

// parameter reads one InferParameter. It is merged into v, which holds what an
// earlier occurrence of the same field gave: of a oneof the last one counts.
func (c *cursor) parameter(v backend.Parameter) (backend.Parameter, error) {
	outer, err := c.enter()
	if err != nil {
		return v, err
	}
	for c.more() {
		num, wire, err := c.tag()
		if err != nil {
			return v, err
		}
		var n uint64
		switch {
		case num == 1 && wire == wireVarint:
			n, err = c.varint()
			v = backend.Bool("", n != 0)
		case num == 2 && wire == wireVarint:
			n, err = c.varint()
			v = backend.Int("", int64(n))
		case num == 3 && wire == wireBytes:
			var text string
			text, err = c.text(v.Text())
			v = backend.String("", text)
		case num == 4 && wire == wire64:
			n, err = c.fixed(8)
			v = backend.Double("", math.Float64frombits(n))
		case num == 5 && wire == wireVarint:
			n, err = c.varint()
			v = backend.Uint("", n)
		default:
			err = c.skip(num, wire)
		}
		if err != nil {
			return v, err
		}
	}
	c.leave(outer)
	return v, nil
}

// lastOfEach leaves of several parameters with one name the value of the last,
// in the place of the first, as maps on the wire are defined.
func lastOfEach(list []backend.Parameter) []backend.Parameter {
	if len(list) < 2 {
		return list
	}
	if len(list) <= 8 {
		kept := list[:1]
	next:
		for _, p := range list[1:] {
			for i := range kept {
				if kept[i].Name == p.Name {
					kept[i] = p
					continue next
				}
			}
			kept = append(kept, p)
		}
		return kept
	}
	place := make(map[string]int, len(list))
	kept := list[:0]
	for _, p := range list {
		if i, ok := place[p.Name]; ok {
			kept[i] = p
			continue
		}
		place[p.Name] = len(kept)
		kept = append(kept, p)
	}
	return kept
}
