package jsonwire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/tracing"
)

func TestDecodeTrace(t *testing.T) {
	for body, want := range map[string]string{
		``:                                 "failed to parse the request JSON buffer: The document is empty. at 0",
		`x`:                                "failed to parse the request JSON buffer: Invalid value. at 0",
		`{}`:                               "",
		`[]`:                               "",
		`{"trace_level":"OFF"}`:            "attempt to access JSON non-array as array",
		`{"trace_level":[1]}`:              "attempt to access JSON non-string as string",
		`{"trace_level":["OFF","MIN"]}`:    "Expect only one trace level 'OFF' is specified",
		`{"trace_level":["nothing"]}`:      "",
		`{"trace_rate":1}`:                 "attempt to access JSON non-string as string",
		`{"trace_rate":["1"]}`:             "attempt to access JSON non-string as string",
		`{"trace_rate":"1","x":{"y":[2]}}`: "",
		`{"trace_file":"y"}`:               "trace file location can not be updated through network protocol",
		`{"trace_file":null}`:              "trace file location can not be updated through network protocol",
	} {
		_, err := DecodeTrace([]byte(body))
		got := ""
		if err != nil {
			got = err.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	c, err := DecodeTrace([]byte(`{"trace_level":["TENSORS","TIMESTAMPS"],"trace_rate":"7","trace_count":null,"log_frequency":"3"}`))
	want := tracing.Change{
		Level: tracing.Edit[tracing.Level]{Given: true, Value: tracing.Tensors | tracing.Timestamps},
		Rate:  tracing.Edit[uint32]{Given: true, Value: 7},
		Count: tracing.Edit[int32]{Cleared: true}, LogFrequency: tracing.Edit[uint32]{Given: true, Value: 3},
	}
	if d := cmp.Diff(want, c); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func FuzzDecodeTrace(f *testing.F) {
	f.Add([]byte(`{"trace_level":["TENSORS","TIMESTAMPS"],"trace_rate":"7","trace_count":null,"log_frequency":"3","x":[{}]}`))
	f.Add([]byte(`{"trace_count":"-1","trace_level":null,"trace_file":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := DecodeTrace(body)
		if err != nil {
			return
		}
		// What was taken is shown and can be sent again.
		tr, fault := tracing.New(tracing.Config{Settings: tracing.Defaults(), File: "never written"})
		if fault != nil {
			t.Fatal(fault)
		}
		if tr.Update("", c) != nil {
			return
		}
		shown := tr.Fields("")
		again, err := DecodeTrace(AppendTrace(nil, shown[:4]))
		if err != nil || tr.Update("", again) != nil {
			t.Fatalf("%s: %v", AppendTrace(nil, shown[:4]), err)
		}
		if d := cmp.Diff(shown, tr.Fields("")); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzDecodeLogging(f *testing.F) {
	f.Add([]byte(`{"log_info":false,"log_error":null,"log_verbose_level":2,"log_format":"ISO8601"}`))
	f.Add([]byte(`{"log_file":"x","log_verbose_level":-1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := DecodeLogging(body)
		if err != nil {
			return
		}
		s := logging.DefaultSettings()
		c.Apply(&s)
		if s.Verbose < 0 {
			t.Fatalf("verbose level %d", s.Verbose)
		}
		again, err := DecodeLogging([]byte(`{"log_format":` + string(appendText(nil, s.Format)) + `}`))
		if err != nil || c.Format != nil && *again.Format != *c.Format {
			t.Fatalf("format %q: %v", s.Format, err)
		}
	})
}
