package jsonwire

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonscan"
	"github.com/nesoserve/neso/internal/tracing"
)

// maxLevels bounds the words of a trace level, of which there are three.
const maxLevels = 64

// DecodeTrace reads the body of a change of the trace settings, which must be
// there. Null clears a setting.
func DecodeTrace(body []byte) (c tracing.Change, err *backend.Error) {
	if len(body) == 0 {
		var s scanner
		s.Fail(jsonscan.FaultEmpty, 0)
		return c, s.Err("request")
	}
	err = controlBody(body, func(d *Decoder, name []byte) *backend.Error {
		key := string(name)
		if err := tracing.Locked(key); err != nil {
			return d.skipTo(err)
		}
		isNull := d.s.Peek() == 'n'
		switch {
		case tracing.IsLevel(key) && !isNull:
			return traceLevel(d, &c)
		case !tracing.IsLevel(key) && !tracing.IsScalar(key):
			return d.skipTo(nil)
		}
		p, structured, err := d.parameter(name)
		switch {
		case err != nil:
			return err
		case isNull:
			c.Clear(key)
			return nil
		case structured || p.Kind != backend.StringParameter:
			return errTraceText
		}
		return c.Set(key, p.Text())
	})
	return c, err
}

var (
	errTraceText = kserve.Invalid("attempt to access JSON non-string as string")
	errTraceList = kserve.Invalid("attempt to access JSON non-array as array")
)

func traceLevel(d *Decoder, c *tracing.Change) *backend.Error {
	var words []string
	err := d.list(errTraceList, func() *backend.Error {
		if d.s.Peek() != '"' {
			return d.skipTo(errTraceText)
		}
		text, ok := d.s.Str()
		if !ok {
			return d.s.Err("request")
		}
		if len(words) == maxLevels {
			return kserve.Invalid("too many trace levels")
		}
		words = append(words, string(text))
		return nil
	})
	if err != nil {
		return err
	}
	return c.SetLevels(words)
}

// AppendTrace writes the trace settings.
func AppendTrace(b []byte, fields []tracing.Field) []byte {
	b = append(b, '{')
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, f.Name)
		b = append(b, ':')
		if f.List {
			b = append(b, '[')
		}
		for k, v := range f.Values {
			if k > 0 {
				b = append(b, ',')
			}
			b = appendText(b, v)
		}
		if f.List {
			b = append(b, ']')
		}
	}
	return append(b, '}')
}
