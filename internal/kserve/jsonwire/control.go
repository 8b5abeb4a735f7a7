package jsonwire

import (
	"encoding/base64"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonscan"
	"github.com/nesoserve/neso/internal/logging"
)

// controlBody walks over the members of an optional JSON object.
func controlBody(body []byte, member func(d *Decoder, name []byte) *backend.Error) *backend.Error {
	var d Decoder
	s := &d.s
	s.Reset(body)
	if s.Peek(); s.I == len(s.B) {
		return nil
	}
	if s.B[s.I] != '{' {
		if !s.Skip() || !s.End() {
			return s.Err("request")
		}
		return nil
	}
	err := d.object(func(name []byte) *backend.Error { return member(&d, name) })
	if s.Bad != jsonscan.FaultNone {
		return s.Err("request")
	}
	if err == nil && !s.End() {
		err = s.Err("request")
	}
	return err
}

// DecodeIndex reads the body of an index request: whether only ready models
// are asked for.
func DecodeIndex(body []byte) (ready bool, err *backend.Error) {
	err = controlBody(body, func(d *Decoder, name []byte) *backend.Error {
		if string(name) != "ready" {
			return d.skipTo(nil)
		}
		p, structured, err := d.parameter(name)
		if err != nil {
			return err
		}
		if structured || p.Kind != backend.BoolParameter {
			return kserve.WrongType(kserve.HTTP, "ready", kserve.BoolType)
		}
		ready = p.IsTrue()
		return nil
	})
	return ready, err
}

// parametersOf walks over the members of the member `parameters`.
func parametersOf(body []byte, parameter func(p backend.Parameter, structured bool) *backend.Error) *backend.Error {
	return controlBody(body, func(d *Decoder, name []byte) *backend.Error {
		if string(name) != "parameters" {
			return d.skipTo(nil)
		}
		if d.s.Peek() != '{' {
			return d.skipTo(kserve.Invalid("attempt to get members for non-object"))
		}
		return d.object(func(name []byte) *backend.Error {
			p, structured, err := d.parameter(name)
			if err != nil {
				return err
			}
			return parameter(p, structured)
		})
	})
}

const filePrefix = "file:"

// DecodeLoad reads the body of a load request: a configuration and files in
// base64, by path.
func DecodeLoad(body []byte) (config string, files map[string][]byte, err *backend.Error) {
	err = parametersOf(body, func(p backend.Parameter, structured bool) *backend.Error {
		if structured || p.Kind != backend.StringParameter {
			return kserve.Invalid("attempt to access JSON non-string as string")
		}
		path, isFile := strings.CutPrefix(p.Name, filePrefix)
		switch {
		case isFile:
			content, fault := base64.StdEncoding.DecodeString(p.Text())
			if fault != nil {
				return kserve.Invalid("failed to decode '" + p.Name + "': " + fault.Error())
			}
			if files == nil {
				files = map[string][]byte{}
			}
			files[path] = content
		case p.Name == "config":
			config = kserve.LoadConfig(p.Text())
		default:
			return &backend.Error{Code: backend.Internal, Message: "unexpected error on creating Triton parameter"}
		}
		return nil
	})
	return config, files, err
}

// DecodeUnload reads the body of an unload request: whether the models that
// only this one uses are to go too.
func DecodeUnload(body []byte) (dependents bool, err *backend.Error) {
	err = parametersOf(body, func(p backend.Parameter, structured bool) *backend.Error {
		if p.Name != "unload_dependents" {
			return nil
		}
		if structured || p.Kind != backend.BoolParameter {
			return kserve.WrongType(kserve.HTTP, p.Name, kserve.BoolType)
		}
		dependents = p.IsTrue()
		return nil
	})
	return dependents, err
}

// LoggingChange is what a client wants to have changed; nil leaves a setting.
type LoggingChange struct {
	Info, Warning, Error *bool
	Verbose              *uint64
	Format               *string
}

// Apply changes the settings.
func (c *LoggingChange) Apply(s *logging.Settings) {
	for _, f := range [...]struct {
		to   *bool
		from *bool
	}{{&s.Info, c.Info}, {&s.Warning, c.Warning}, {&s.Error, c.Error}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if c.Verbose != nil {
		s.Verbose = int(min(*c.Verbose, 1<<30))
	}
	if c.Format != nil {
		s.Format = *c.Format
	}
}

// DecodeLogging reads the body of a change of the log settings, which must be
// there. Null leaves a setting.
func DecodeLogging(body []byte) (c LoggingChange, err *backend.Error) {
	if len(body) == 0 {
		var s scanner
		s.Fail(jsonscan.FaultEmpty, 0)
		return c, s.Err("request")
	}
	err = controlBody(body, func(d *Decoder, name []byte) *backend.Error {
		key := string(name)
		if d.s.Peek() == 'n' {
			return d.skipTo(nil)
		}
		p, structured, err := d.parameter(name)
		if err != nil {
			return err
		}
		if structured {
			p.Kind = structuredKind
		}
		switch key {
		case "log_file":
			return &backend.Error{Code: backend.Unsupported, Message: "log file location can not be updated through network protocol"}
		case "log_info", "log_warning", "log_error":
			if p.Kind != backend.BoolParameter {
				return kserve.WrongType(kserve.HTTP, key, kserve.BoolType)
			}
			v := p.IsTrue()
			switch key {
			case "log_info":
				c.Info = &v
			case "log_warning":
				c.Warning = &v
			default:
				c.Error = &v
			}
		case "log_verbose_level":
			v, ok := kserve.Unsigned(p)
			if !ok {
				return kserve.WrongType(kserve.HTTP, key, kserve.UnsignedType)
			}
			c.Verbose = &v
		case "log_format":
			if p.Kind != backend.StringParameter {
				return kserve.WrongType(kserve.HTTP, key, kserve.StringType)
			}
			v := p.Text()
			c.Format = &v
		}
		return nil
	})
	return c, err
}

// structuredKind is no kind of parameter, so that no check takes it.
const structuredKind = backend.ParameterKind(255)

// AppendLogging appends the log settings.
func AppendLogging(b []byte, s logging.Settings) []byte {
	b = appendText(append(b, `{"log_file":`...), s.File)
	b = appendMember(b, `,"log_info":`, s.Info)
	b = appendMember(b, `,"log_warning":`, s.Warning)
	b = appendMember(b, `,"log_error":`, s.Error)
	b = appendInt(append(b, `,"log_verbose_level":`...), int64(s.Verbose))
	b = appendText(append(b, `,"log_format":`...), s.Format)
	return append(b, '}')
}
